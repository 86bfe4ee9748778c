"""Hydra's answers without its process: for tests of what is asked and what is made of the answer."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest
from hydra._internal.core_plugins import file_config_source
from hydra.core.plugins import Plugins
from omegaconf import OmegaConf

from mvp_helpers.trainers import hydra, hydra_compose
from mvp_helpers.trainers.nemo_rl import config as nemo_rl_config

ANSWERS: dict[tuple[str, str], str] = {}
"""What Hydra answered, by the question and the files it read, with names in place of a test's own paths."""
LOADED: dict[str, Any] = {}
"""What is in a file of a config, by its text."""


def in_this_process(monkeypatch: pytest.MonkeyPatch, places: dict[str, str]) -> None:
    """Compose as the real helper process does, but without its start, and the same config or file only once: each takes seconds.

    ``places`` names the folders of this test, which differ between two questions that are otherwise the same.
    """

    def answering(compose: Callable[[], None], folder: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda request: ask(request, compose, Path(request[folder]))

    def ask(request: dict[str, Any], compose: Callable[[], None], folder: Path) -> dict[str, Any]:
        question = json.dumps(request)
        runs = sorted({run for place in places for run in re.findall(rf"{place}/runs/([^/\"]+)", question)})
        names = {run: f"@RUN{number}@" for number, run in enumerate(runs)} | places
        key = (_replace(question, names), _content(folder if folder.is_dir() else folder.parent))
        if key not in ANSWERS:
            answer = io.StringIO()
            monkeypatch.setattr(sys, "stdin", io.StringIO(question))
            with contextlib.redirect_stdout(answer):
                compose()
            ANSWERS[key] = _replace(answer.getvalue().splitlines()[-1], names)
        composed: dict[str, Any] = json.loads(_replace(ANSWERS[key], {name: place for place, name in names.items()}))
        return composed

    Plugins.instance()  # or the first use would load the module anew
    monkeypatch.setattr(file_config_source, "OmegaConf", SimpleNamespace(load=_load))
    monkeypatch.setattr(hydra, "_ask", answering(hydra_compose.main, "config_dir"))
    monkeypatch.setattr(nemo_rl_config, "_ask", answering(nemo_rl_config.main, "config"))


def _load(file: TextIO) -> Any:
    text = file.read()
    if text not in LOADED:
        LOADED[text] = OmegaConf.load(io.StringIO(text))
    return copy.deepcopy(LOADED[text])


def _replace(text: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        text = text.replace(old, new)
    return text


def _content(folder: Path) -> str:
    """Return a digest of the YAML files below ``folder``."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.yaml")):
        digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
