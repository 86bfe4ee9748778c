"""Preparing data and a model in the tests: the settings, what they make, and damage to it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import fake_hub
import pyarrow as pa
import pyarrow.parquet as pq

from mvp_helpers.base import files
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.prepare import prepare
from mvp_helpers.prepare.prepare import DataSettings, Generated, Hub

SETTINGS = DataSettings(generated=Generated(train_rows=24, test_rows=8))
ITEMS = ["datasets/gsm8k", "datasets/gsm8k_sft", "common/models/tiny-qwen2"]
COMMIT = fake_hub.COMMIT
HUB = DataSettings(source="hub", hub=Hub(model="org/tiny"))
HUB_ITEMS = [*ITEMS[:2], "common/models/tiny"]


def quiet(_: str) -> None:
    pass


def made(shared: SharedRoot, settings: DataSettings = SETTINGS) -> dict[str, str]:
    """Name and reason of everything that had to be made or adopted."""
    return {item.name: item.reason for item in prepare.prepare(settings, shared, quiet) if item.made}


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): files.sha256(path) for path in root.rglob("*") if path.is_file()}


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def edit(path: Path) -> None:
    facts, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def gsm8k_parquet(rows: int) -> bytes:
    stream = io.BytesIO()
    answers = [f"so\n#### 1,{index:03d}" for index in range(rows)]
    pq.write_table(pa.table({"question": [f"q{index}" for index in range(rows)], "answer": answers}), stream)
    return stream.getvalue()
