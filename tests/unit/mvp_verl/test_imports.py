"""What runs after a module's import neither shows nor disturbs (``mvp_verl.imports``)."""

from __future__ import annotations

import importlib
import inspect
import runpy
import sys
from pathlib import Path

import pytest

from mvp_verl.imports import after_import


@pytest.fixture(autouse=True)
def no_finder_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


def test_after_import_leaves_the_module_as_if_nobody_stood_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "plain_module.py").write_text("def f():\n    return 1\n")
    seen: list[str] = []
    after_import("plain_module", lambda module: seen.append(module.__name__))
    after_import("sys", lambda module: seen.append(module.__name__))
    assert seen == ["sys"], "an imported module is served at once"
    module = importlib.import_module("plain_module")
    assert seen == ["sys", "plain_module"]
    assert type(module.__loader__).__name__ == "SourceFileLoader" and module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__ and "return 1" in inspect.getsource(module.f)
    importlib.reload(module)


def test_a_module_with_an_action_still_runs_as_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``python -m``: it asks the loader for the code, and imports nothing."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "program_module.py").write_text("value = 2\n")
    after_import("program_module", lambda module: pytest.fail("nothing was imported"))
    assert runpy.run_module("program_module", run_name="__main__")["value"] == 2
