"""Seals are made here without waiting for the disk."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here outlives its test: waiting for the disk would be most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
