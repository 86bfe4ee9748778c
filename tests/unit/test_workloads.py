"""Workload files are data; a new one needs no Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.cluster import PROJECT
from mvp_helpers.errors import BadInput
from mvp_helpers.workloads import load


@pytest.mark.parametrize("file", sorted((PROJECT / "templates" / "workloads").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_workload_in_the_tree_is_valid_and_keeps_to_its_folder(file: Path) -> None:
    loaded = load(file.stem)
    if loaded.hydra:
        assert "trainer.default_local_dir={checkpoints}" in loaded.forced
        assert "trainer.resume_mode=disable" in loaded.forced


def test_a_folder_of_ones_own_comes_before_the_toolkits(workloads: Path) -> None:
    (workloads / "ppo.yaml").write_text("entry: {command: [mine]}\n")
    assert load("ppo").entry.command == ["mine"]
    assert load("echo").name == "echo"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entry: {}\n", "needs either a module or a command"),
        ("entry: {module: a, command: [b]}\n", "needs either a module or a command"),
        ("entry: {modul: a}\n", "did you mean 'module'"),
        ("overrides: []\n", "'entry' is missing"),
        ("entry: {module: a}\nbatch_rules: [{product: []}]\n", "batch_rules"),
    ],
)
def test_a_mistake_in_a_workload_file_is_named(workloads: Path, text: str, message: str) -> None:
    (workloads / "bad.yaml").write_text(text)
    with pytest.raises(BadInput, match=message):
        load("bad")
