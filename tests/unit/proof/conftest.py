"""Plans are made here without Hydra's own process; ``trainers/test_hydra.py`` starts it."""

from __future__ import annotations

import os
from pathlib import Path

import composing
import pytest


@pytest.fixture(autouse=True)
def hydra_in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    composing.in_this_process(monkeypatch, {str(tmp_path): "@TEST@"})


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here outlives its test: waiting for the disk would be most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
