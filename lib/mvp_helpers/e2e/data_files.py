"""Data files of a run: can they be read, and do they have the columns that the trainer reads?"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import Blocked


class Unreadable(Exception):
    """Why a file cannot be used, without its name."""


def problem(path: Path, columns: Sequence[str]) -> str:
    """Return why the file cannot be used; "" when it can. Only a parquet file's schema or the first JSON line is read."""
    if not path.is_file():
        return f"{path} does not exist"
    try:
        names, empty = _json_lines(path) if path.suffix in (".json", ".jsonl") else _parquet(path)
    except Unreadable as error:
        return f"{path} {error}"
    except ImportError:
        return ""  # The launch's interpreter has pyarrow; ours need not.
    missing = [name for name in columns if name not in names]
    if missing and names:
        return f"{path} lacks the column {missing[0]} (it has {', '.join(names)[:200]})"
    return f"{path} has no rows" if empty else ""


def _parquet(path: Path) -> tuple[list[str], bool]:
    from pyarrow import ArrowException, parquet

    try:
        return parquet.read_schema(path).names, not parquet.read_metadata(path).num_rows
    except (ArrowException, OSError) as error:
        raise Unreadable(f"is not a readable parquet file: {str(error).splitlines()[0][:200]}") from None


def _json_lines(path: Path) -> tuple[list[str], bool]:
    try:
        with path.open("rb") as stream:
            line = next((line for line in stream if line.strip()), b"")
        first = json.loads(line) if line else {}
        return (sorted(first), False) if line else ([], True)
    except (OSError, ValueError, TypeError) as error:
        raise Unreadable(f"is not a file of JSON lines: {error}") from None


def has_value(path: Path, columns: Sequence[str]) -> bool:
    """Tell whether a parquet file has a value in one of ``columns``; it is read only as far as the first."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise Blocked(f"cannot read {path}: {sys.executable} has no pyarrow", hint="pip install pyarrow") from None
    try:
        file = parquet.ParquetFile(path)
        there = [name for name in columns if name in file.schema_arrow.names]
        return any(
            value
            for batch in (file.iter_batches(64, columns=there) if there else [])
            for row in batch.to_pylist()
            for value in row.values()
        )
    except (ArrowException, OSError):
        return True  # A problem of the file itself is reported with the file.
