"""Plans are made here without Hydra's own process; ``trainers/test_hydra.py`` starts it."""

from __future__ import annotations

from pathlib import Path

import composing
import pytest


@pytest.fixture(autouse=True)
def hydra_in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    composing.in_this_process(monkeypatch, {str(tmp_path): "@TEST@"})
