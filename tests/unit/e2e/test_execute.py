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


def test_a_command_is_kept_as_a_script_and_as_a_line_that_do_the_same_in_an_empty_shell(tmp_path: Path) -> None:
    folder, run = tmp_path / "a b", tmp_path / "runs/run-1"
    folder.mkdir()
    argv = ["bash", "-c", 'echo "$X $1"; pwd', "bash", f"out={run}/checkpoints/$HOME"]
    how = (run, folder, {"X": "it's", "HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz"}, argv)
    script, line = execute.script(*how), execute.one_line(*how)
    assert "Set HF_TOKEN yourself" in script and "hf_abc" not in script + line
    assert 'HF_TOKEN="$HF_TOKEN"' in line, "a secret is named, and comes from the shell"
    for text in (script, line):
        shell = ["env", "-i", "PATH=/usr/bin:/bin", f"TMPDIR={tmp_path}", "bash", "-c"]
        first, place = subprocess.run([*shell, text], capture_output=True, text=True).stdout.splitlines()
        assert place == str(folder) and first.startswith(f"it's out={tmp_path}/tmp."), "a new folder of a run"
        assert first.endswith("/checkpoints/$HOME"), "nothing is expanded"


def test_a_script_that_is_pasted_leaves_the_shell_as_it_was(tmp_path: Path) -> None:
    def pasted(text: str, *before: str) -> list[str]:
        """Paste twice; return the folders that it wrote to, and what the shell has then."""
        after = 'echo "${X-unset} ${E2E_RUN-unset} ${RAY_AUTH_TOKEN_PATH-unset}"'
        shell = ["env", "-i", "PATH=/usr/bin:/bin", f"TMPDIR={tmp_path}", "bash", "-c", "\n".join([*before, text, text, after])]
        return subprocess.run(shell, capture_output=True, text=True).stdout.splitlines()

    how = tmp_path / "run-1", tmp_path, {"X": "1"}, ["echo", f"{tmp_path}/run-1"]
    first, second, after = pasted(execute.script(*how))
    assert first != second and after == "unset unset unset"
    resume = execute.script(*how, "save")
    assert "# It writes below E2E_RUN. It resumes a save: first run 'save' with the same E2E_RUN.\n" in resume
    assert pasted(resume) == ["unset unset unset"], "no new folder has a save"
    assert pasted(resume, f"E2E_RUN={tmp_path}")[:2] == [str(tmp_path)] * 2


def test_a_ray_that_a_command_starts_finds_its_token_outside_the_home(tmp_path: Path) -> None:
    argv = ["bash", "-c", 'echo "${RAY_AUTH_TOKEN_PATH-none}"; stat -c %a "${RAY_AUTH_TOKEN_PATH-/}"']

    def token(log: str, **env: str) -> list[str]:
        execute.run(argv, tmp_path, {"PATH": os.environ["PATH"], **env}, tmp_path / log, "mark", 30, 30)
        return (tmp_path / log).read_text().splitlines()

    path, mode = token("own")
    assert mode == "600" and path.endswith("/auth_token") and not Path(path).exists(), "it ends with the command"
    assert token("cluster", RAY_ADDRESS="10.0.0.1:6379")[0] == "none", "a running cluster has its own"
    assert token("users", RAY_AUTH_MODE="disabled")[0] == "none"
    assert token("mode", RAY_AUTH_MODE="token")[0].endswith("/auth_token"), "Ray would make one"
    assert token("given", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="secret")[0] == "none"
    how = (
        tmp_path / "run-1",
        tmp_path,
        {"RAY_ADDRESS": "local"},
        ["bash", "-c", 'wc -c <"$RAY_AUTH_TOKEN_PATH"; stat -c %a "$RAY_AUTH_TOKEN_PATH"'],
    )
    for text in (execute.script(*how), execute.one_line(*how)):
        shell = ["env", "-i", "PATH=/usr/bin:/bin", f"TMPDIR={tmp_path}", "bash", "-c", text]
        assert subprocess.run(shell, capture_output=True, text=True).stdout.split() == ["64", "600"]


def test_git_settings_of_a_command_stay_out_of_the_users_files_and_those_are_still_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = me\n")
    (home / ".config/git/config").write_text("[user]\n\tname = other\n\temail = me@example.org\n")
    before = {name: value for name, value in os.environ.items() if name not in ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME")}
    asked = ("--global --add safe.directory /x", "safe.directory", "user.name", "user.email")
    command = "; ".join(f"git config {words}" for words in asked)
    for number, env in enumerate(({}, {"GIT_CONFIG_GLOBAL": str(home / ".gitconfig")})):
        log = tmp_path / f"log{number}"
        execute.run(["bash", "-c", command], tmp_path, {**before, "HOME": str(home), **env}, log, "mark", 60, 60)
        assert log.read_text().splitlines()[:2] == ["/x", "me"]
        assert ("me@example.org" in log.read_text()) is (not env)
    assert (home / ".gitconfig").read_text() == "[user]\n\tname = me\n", "unchanged"
