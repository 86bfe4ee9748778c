"""A git history, and a search over it whose jobs are only pretended."""

from __future__ import annotations

from pathlib import Path

import pytest
from histories import History, Lab


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "repository")


@pytest.fixture
def lab(history: History, tmp_path: Path) -> Lab:
    return Lab(history, tmp_path / "state")
