"""The number of rows of a parquet file, from its footer, without pyarrow (which takes 0.2 s to import, and may not be installed).

The footer is a Thrift structure in the compact protocol; ``num_rows`` is its field 3
(https://github.com/apache/parquet-format, ``FileMetaData``).
"""

from __future__ import annotations

import struct
from pathlib import Path

_NUM_ROWS = 3
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12


def rows(path: Path) -> int:
    """Return the number of rows. Raises OSError when the file cannot be read, ValueError when it is not parquet."""
    if path.exists() and not path.is_file():  # opening a named pipe would wait forever
        raise FileNotFoundError(f"{path} is not a file")
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 8))
        tail = stream.read(8)
        length = struct.unpack("<I", tail[:4])[0] if tail[4:] == b"PAR1" else 0
        if not 0 < length <= size - 12:
            raise ValueError(f"{path} is truncated or not parquet ({size} bytes)")
        stream.seek(size - 8 - length)
        footer = stream.read(length)
    try:
        return _Compact(footer).integer_field(_NUM_ROWS)
    except IndexError:
        raise ValueError(f"{path}: its footer is damaged") from None


class _Compact:
    """Reads one structure of Thrift's compact protocol. Running off its end raises IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def integer_field(self, wanted: int) -> int:
        number = 0
        while (kind := self._field_kind()) != _STOP:
            number += self.delta or self._zigzag()
            if number == wanted:
                return self._zigzag()
            self._skip(kind)
        raise IndexError(wanted)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _field_kind(self) -> int:
        header = self._byte()
        self.delta = header >> 4
        return header & 0x0F

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _skip(self, kind: int, *, in_list: bool = False) -> None:
        if kind in (_TRUE, _FALSE, _BYTE):
            self.at += kind == _BYTE or in_list  # a boolean field's value is its kind
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self._varint()
            self.at += length
        elif kind in (_LIST, _SET):
            header = self._byte()
            for _ in range(header >> 4 if header >> 4 != 15 else self._varint()):
                self._skip(header & 0x0F, in_list=True)
        elif kind == _MAP:
            size = self._varint()
            kinds = self._byte() if size else 0
            for _ in range(size):
                self._skip(kinds >> 4, in_list=True)
                self._skip(kinds & 0x0F, in_list=True)
        elif kind == _STRUCT:
            while (inner := self._field_kind()) != _STOP:
                if not self.delta:
                    self._zigzag()
                self._skip(inner)
        else:
            self._varint()
