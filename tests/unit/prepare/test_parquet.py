"""The rows of a parquet file, read without pyarrow and compared with what pyarrow wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet as real

from mvp_helpers.prepare import parquet


@pytest.mark.parametrize(
    ("rows", "options"),
    [(0, {}), (1, {}), (20, {"compression": "gzip"}), (3000, {"row_group_size": 100}), (5, {"version": "1.0"})],
)
def test_rows_are_those_that_were_written(tmp_path: Path, rows: int, options: dict[str, Any]) -> None:
    columns = {
        "prompt": [[{"role": "user", "content": f"{row}"}] for row in range(rows)],
        "score": [row / 2 for row in range(rows)],
        "good": [row % 2 == 0 for row in range(rows)],
        "about": pyarrow.array([[("a", 1)]] * rows, pyarrow.map_(pyarrow.string(), pyarrow.int64())),
    }
    real.write_table(pyarrow.table(columns).replace_schema_metadata({"k": "v" * 300}), tmp_path / "t.parquet", **options)
    assert parquet.rows(tmp_path / "t.parquet") == rows


def test_a_file_that_is_not_whole_or_not_parquet_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    real.write_table(pyarrow.table({"a": [1, 2, 3]}), file)
    whole = file.read_bytes()
    for damaged in (b"", b"PAR1", whole[:-1], whole[: len(whole) // 2], b"no parquet at all"):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="truncated or not parquet"):
            parquet.rows(file)
    file.write_bytes(b"PAR1" + b"\0" * 20 + (16).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="footer is damaged"):
        parquet.rows(file)
    with pytest.raises(OSError, match="No such file"):
        parquet.rows(tmp_path / "none.parquet")
