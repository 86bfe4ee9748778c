"""Running one command to its end, whatever that is."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mvp_helpers.base import processes
from mvp_helpers.e2e import execute


def test_an_exit_status_is_the_commands_own_and_its_log_is_whole_and_masked(tmp_path: Path) -> None:
    env = {**os.environ, "MY_API_TOKEN": "hunter2-hunter2"}
    argv = ["bash", "-c", "echo out; echo err >&2; echo $MY_API_TOKEN; exit 7"]
    outcome = execute.run(argv, tmp_path, env, tmp_path / "log", "mark", 30, 30)
    assert (outcome.ended, outcome.exit_code) == ("exit", 7)
    assert (tmp_path / "log").read_text() == "out\nerr\n***\n"
    killed = execute.run(["bash", "-c", "kill -9 $$"], tmp_path, env, tmp_path / "log2", "mark", 30, 30)
    assert killed.exit_code == 137
    absent = execute.run(["/no/such/command"], tmp_path, env, tmp_path / "log3", "mark", 30, 30)
    assert (absent.ended, absent.exit_code) == ("not started", 127)
    with pytest.raises(FileExistsError):
        execute.run(argv, tmp_path, env, tmp_path / "log", "mark", 30, 30)


def test_an_interrupt_while_a_command_starts_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute.run(["sleep", "600"], tmp_path, dict(os.environ), tmp_path / "log", "started", 60, 60)
    assert not processes.holding(execute.MARK, "started")


def test_a_command_is_kept_as_a_script_that_does_the_same_by_hand(tmp_path: Path) -> None:
    text = execute.script(tmp_path / "a b", {"X": "it's"}, ["echo", "$HOME"])
    (tmp_path / "a b").mkdir()
    assert subprocess.run(["bash", "-c", text + 'echo "$X"; pwd'], capture_output=True, text=True).stdout.splitlines() == [
        "$HOME",
        "it's",
        f"{tmp_path}/a b",
    ]
