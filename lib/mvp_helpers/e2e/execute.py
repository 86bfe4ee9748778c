"""Runs one command to its end: complete log, own exit status, limits in time, and no process left behind."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ..base import files, processes
from ..base.mask import Mask
from ..base.redact import MASKED, environment

MARK = "MVP_E2E_STEP"
"""A variable in the environment of everything that a step starts, so that its processes are found."""
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"
NEW_TOKEN = (
    f"""export {TOKEN_PATH}=$E2E_RUN/ray-token; (umask 077; od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' >"${TOKEN_PATH}")"""
)
NEW_RUN = "E2E_RUN=${E2E_RUN:-$(mktemp -d)}"
POLL_S = 0.2
TERM_S = 15.0
CHUNK = 1 << 20

Ended = Literal["exit", "timeout", "stall", "interrupted", "not started"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. ``exit_code`` is its own (128+n for a signal); cpu_s is also that of its children."""

    ended: Ended
    exit_code: int
    seconds: float
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    """Largest resident memory of any one of its processes."""
    log_bytes: int = 0
    left_behind: int = 0
    """Processes that outlived it and were ended."""

    @property
    def good(self) -> bool:
        return self.ended == "exit" and self.exit_code == 0

    def summary(self) -> str:
        """Return how it ended and what it used, in one phrase."""
        how = {
            "exit": f"exit code {self.exit_code}",
            "timeout": f"ended after {self.seconds:.0f} s: it took too long",
            "stall": f"ended after {self.seconds:.0f} s: its log no longer grew",
            "interrupted": "interrupted",
            "not started": "could not be started",
        }[self.ended]
        return f"{how}, {self.seconds:.1f} s, {self.cpu_s:.0f} s of CPU, peak {self.peak_mb:.0f} MB a process"


def run(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    mark: str,
    timeout_s: float,
    stall_s: float,
    watch: Callable[[bytes], None] = lambda _: None,
    stdin: Path | None = None,
) -> Outcome:
    """Run ``argv`` with its output straight in ``log``, so that no pipe can lose its status; return how it ended.

    ``watch`` gets what was added to the log, and b"" again and again while the command runs. Processes that it left are ended,
    its Ray's session folder is removed, and the values of secret variables are masked in the log.
    """
    began = time.monotonic()
    # Ray's sockets are below it, and a path of a socket has 107 characters at most.
    ray = Path(tempfile.mkdtemp(prefix="mvp-e2e-"))
    full = {**env, MARK: mark, "RAY_TMPDIR": str(ray), **_own_token(ray, env), **_own_git_config(ray, env)}
    ended: Ended = "exit"
    left: list[int] = []
    used = Used()
    try:
        with log.open("xb") as sink, (stdin or Path(os.devnull)).open("rb") as source, _deferred() as interrupts:
            try:
                process = subprocess.Popen(
                    list(argv), cwd=cwd, env=full, stdin=source, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
                )
            except OSError as error:
                if interrupts:
                    raise KeyboardInterrupt from None
                sink.write(f"{argv[0]}: {error.strerror}\n".encode())
                return Outcome(ended="not started", exit_code=127, seconds=time.monotonic() - began, log_bytes=sink.tell())
        try:
            if interrupts:
                raise KeyboardInterrupt
            ended = _wait(process, used, log, began, timeout_s, stall_s, watch)
        except KeyboardInterrupt:
            ended = "interrupted"
        finally:
            if process.returncode is None:
                _end_group(process, used)
            left = [pid for pid in _ours(mark, ray) if processes.start_time(pid) is not None]
            processes.end(lambda: _ours(mark, ray), TERM_S / 3)
        _mask(log, env)
    finally:
        shutil.rmtree(ray, ignore_errors=True)
    if ended == "interrupted":
        raise KeyboardInterrupt
    return _outcome(ended, process.returncode, time.monotonic() - began, used, log, len(left))


def _needs_token(env: Mapping[str, str]) -> bool:
    """Tell whether a Ray that the command starts would write a token into the user's home."""
    has_one = any(env.get(name) for name in ("RAY_AUTH_TOKEN", TOKEN_PATH)) or env.get("RAY_AUTH_MODE", "").lower() == "disabled"
    return env.get("RAY_ADDRESS", "local") == "local" and not has_one


def _own_token(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return where a Ray that the command starts finds its token."""
    if not _needs_token(env):
        return {}
    token = folder / "auth_token"
    files.write_text(token, secrets.token_hex(32), mode=0o600)
    return {TOKEN_PATH: str(token)}


def _own_git_config(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return where ``git config --global`` of the command writes: not into the user's own files, which are still read."""
    home = Path(env.get("HOME", "~"))
    usual = [Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "git/config", home / ".gitconfig"]
    users = [given] if (given := env.get("GIT_CONFIG_GLOBAL")) else usual
    config = folder / "gitconfig"
    files.write_text(config, "".join(f"[include]\n\tpath = {json.dumps(str(file))}\n" for file in users))
    return {"GIT_CONFIG_GLOBAL": str(config)}


def _outcome(ended: Ended, code: int, seconds: float, used: Used, log: Path, left_behind: int) -> Outcome:
    return Outcome(
        ended=ended,
        exit_code=code if code >= 0 else 128 - code,
        seconds=round(seconds, 3),
        cpu_s=round(used.ru_utime + used.ru_stime, 1),
        peak_mb=round(used.ru_maxrss / 1024, 1),
        log_bytes=log.stat().st_size,
        left_behind=left_behind,
    )


@contextlib.contextmanager
def _deferred() -> Iterator[list[int]]:
    """Only note Ctrl-C and TERM: between its start and the moment when we know its pid, a process would be left running."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda given, _: came.append(given)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Used:
    """The resources that a process and those it waited for used, known once it is reaped."""

    ru_utime = ru_stime = 0.0
    ru_maxrss = 0

    def wait(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        """Return whether it ends within ``seconds``."""
        deadline = time.monotonic() + seconds
        while process.returncode is None:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                self.ru_utime, self.ru_stime, self.ru_maxrss = usage.ru_utime, usage.ru_stime, usage.ru_maxrss
            elif time.monotonic() > deadline:
                return False
            else:
                time.sleep(0.05)
        return True


def _wait(
    process: subprocess.Popen[bytes],
    used: Used,
    log: Path,
    began: float,
    timeout_s: float,
    stall_s: float,
    watch: Callable[[bytes], None],
) -> Ended:
    grew = time.monotonic()
    with log.open("rb") as reader:
        while True:
            used.wait(process, POLL_S)
            while added := reader.read(CHUNK):
                grew = time.monotonic()
                watch(added)
            watch(b"")
            if process.returncode is not None:
                return "exit"
            if time.monotonic() - began > timeout_s:
                return "timeout"
            if time.monotonic() - grew > stall_s:
                return "stall"


def _end_group(process: subprocess.Popen[bytes], used: Used) -> None:
    for number, patience in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            processes.send(-process.pid, number)
        if used.wait(process, patience):
            return


def _ours(mark: str, ray: Path) -> list[int]:
    pids = {*processes.holding(MARK, mark), *processes.renamed_by_ray(ray)}
    return [pid for pid in pids if processes.start_time(pid) is not None]


def _mask(log: Path, env: Mapping[str, str]) -> None:
    """Mask the values of variables that are secret by name or by look in a log."""
    # PWD is not a password, and neither is anything that exists as a path.
    values = [
        value
        for name, value in env.items()
        if len(value) >= 8 and environment({name: value})[name] == MASKED and not os.path.exists(value)
    ]
    if not values:
        return

    def pieces() -> Iterator[bytes]:
        with log.open("rb") as stream:
            while piece := stream.read(CHUNK):
                yield piece

    with files.replacing(log) as masked, masked.open("wb") as sink:
        for piece in Mask(values).stream(pieces()):
            sink.write(piece)


def script(run: Path, cwd: Path, env: Mapping[str, str], argv: Sequence[str], resumes: str = "") -> str:
    """Return a command with its environment as a script that does the same in an empty shell, in a new folder of a run.

    Pasted, it leaves the shell as it was. ``resumes``: the run whose folder it needs.
    """
    note = (
        f"It resumes a save: first run '{resumes}' with the same E2E_RUN." if resumes else "A new folder unless E2E_RUN is set."
    )
    folder = ": ${E2E_RUN:?the folder for the save and the resume}" if resumes else NEW_RUN
    head = ["#!/usr/bin/env bash", f"# It writes below E2E_RUN. {note}"]
    shown = environment(env)
    secret = [name for name, value in shown.items() if value == MASKED]
    head += [f"# Set {name} yourself: its value is secret." for name in secret]
    exports = [f"export {name}={_quoted(value, run)}" for name, value in shown.items() if name not in secret]
    words = " ".join(_quoted(word, run) for word in argv)
    token = [NEW_TOKEN] if _needs_token(env) else []
    return "\n".join([*head, "(", folder, *token, f"cd {shlex.quote(str(cwd))} || exit", *exports, words, ")", ""])


def one_line(run: Path, cwd: Path, env: Mapping[str, str], argv: Sequence[str]) -> str:
    """Return the same in one line, which leaves the shell as it was, and takes secret values from it."""
    shown = environment(env)
    variables = [f"{name}={_quoted(value, run)}" if value != MASKED else f'{name}="${name}"' for name, value in shown.items()]
    words = " ".join(["env", *variables, *(_quoted(word, run) for word in argv)])
    token = f"{NEW_TOKEN}; " if _needs_token(env) else ""
    return f"({NEW_RUN}; {token}cd {shlex.quote(str(cwd))} && {words})"


def _quoted(text: str, run: Path) -> str:
    """Quote a word for bash, with the folder of the run as ``$E2E_RUN``."""
    return '"$E2E_RUN"'.join(shlex.quote(part) if part else "" for part in text.split(str(run))) or "''"
