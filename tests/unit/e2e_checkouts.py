"""Fixture checkouts for the end-to-end procedure: real git repositories with a wrapper and a trainer that behave as real ones,
over the real Megatron config of the verl that is installed here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from toys import write_model

FIXTURES = Path(__file__).parents[1] / "e2e_fixtures"


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("__pycache__/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "state")


def make_bridge(folder: Path) -> Path:
    """A Megatron-Bridge checkout with a passing, focused test."""
    for package in ("src/megatron/bridge", "3rdparty/Megatron-LM/megatron/core"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("__version__ = '0'\n")
    tests = folder / "tests/unit_tests/models"
    tests.mkdir(parents=True)
    (tests / "test_model_provider_mixin.py").write_text("def test_provider():\n    assert True\n")
    (tests / "test_param_mapping.py").write_text("def test_mapping():\n    assert True\n")
    commit(folder)
    return folder


def make_verl(folder: Path) -> Path:
    """A verl checkout: the installed verl's own config, and the fixtures' wrapper and trainer."""
    spec = importlib.util.find_spec("verl")
    assert spec and spec.origin
    installed = Path(spec.origin).parent
    shutil.copytree(
        installed / "trainer" / "config", folder / "verl/trainer/config", ignore=shutil.ignore_patterns("*.py*", "__pycache__")
    )
    (folder / "verl/__init__.py").write_text("__version__ = '0'\n")
    (folder / "verl/trainer/__init__.py").write_text("")
    shutil.copy(FIXTURES / "fake_trainer.py", folder / "verl/trainer/main_ppo.py")
    script = folder / "tests/special_e2e/run_ppo_trainer_megatron.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / "fake_wrapper.sh", script)
    commit(folder)
    return folder


def make_home(folder: Path, rows: int = 4) -> Path:
    """A home with data, model and a reward model where the wrapper looks for them."""
    import pyarrow
    from pyarrow import parquet

    data = folder / "data" / "gsm8k"
    data.mkdir(parents=True)
    table = pyarrow.table({name: [str(row) for row in range(rows)] for name in ("data_source", "prompt", "reward_model")})
    for name in ("train", "test"):
        parquet.write_table(table, data / f"{name}.parquet")
    write_model(folder / "models" / "Qwen" / "Qwen2.5-0.5B")
    for name in ("modelopt", "vllm"):
        (folder / "packages" / name).mkdir(parents=True)
        (folder / "packages" / name / "__init__.py").write_text("")
    return folder


def environment(bridge: Path, verl: Path, home: Path, bin_folder: Path, **more: str) -> Mapping[str, str]:
    """What the user's shell has. ``bin_folder``: gets a python3, and an nvidia-smi that tells of eight GPUs."""
    bin_folder.mkdir(exist_ok=True)
    smi = bin_folder / "nvidia-smi"
    smi.write_text('#!/bin/sh\nfor i in 0 1 2 3 4 5 6 7; do echo "$i, Fake, 80000 MiB"; done\n')
    smi.chmod(0o755)
    # Not a link: a virtual environment's Python finds its packages by where it lies.
    python = bin_folder / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "PATH": f"{bin_folder}:/usr/bin:/bin",
        "BRIDGE_REPO": str(bridge),
        "VERL_REPO": str(verl),
        "MVP_E2E_FREE_GB": "0",
        "MVP_E2E_PYTHONPATH": str(home / "packages"),
        **more,
    }
