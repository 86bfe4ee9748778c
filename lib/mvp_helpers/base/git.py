"""Run git with time limits and without password prompts; passwords in URLs are removed from its output."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import Blocked

_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=15",
    "LC_ALL": "C",
}


def facts(root: Path, paths: Sequence[str]) -> dict[str, Any]:
    """Return commit, origin (without user names or passwords) and the changed or untracked files among ``paths``.

    Returns ``{"unknown": reason}`` when git fails, so that missing provenance is recorded as missing.
    """
    try:
        base = _at(root)
        commit = _git([*base, "rev-parse", "HEAD"], 30).strip()
        changed = _git([*base, "status", "--porcelain", "--untracked-files=all", "--", *paths], 60).splitlines()
    except Blocked as error:
        return {"unknown": error.what}
    origin = ""
    with contextlib.suppress(Blocked):
        origin = without_user(_git([*base, "config", "remote.origin.url"], 30).strip())
    return {"commit": commit, "dirty": bool(changed), "changed": [line[3:] for line in changed], "origin": origin}


def _at(root: Path) -> list[str]:
    # A checkout often belongs to another user than the container's root, and its config may name programs to run.
    return ["-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(root)]


def root(path: Path) -> Path | None:
    """Return the top folder of the checkout that contains ``path``; None outside of any checkout."""
    try:
        return Path(_git([*_at(path), "rev-parse", "--show-toplevel"], 30).strip())
    except Blocked:
        return None


def branch(checkout: Path) -> str:
    """Return the name of the checked-out branch; "" for a detached HEAD. Raises Blocked."""
    return _git([*_at(checkout), "branch", "--show-current"], 30).strip()


def diff(checkout: Path) -> str:
    """Return the diff against the last commit, including submodule commits; "" without changes. Raises Blocked."""
    return _git([*_at(checkout), "diff", "--no-ext-diff", "--no-textconv", "--submodule=short", "HEAD"], 120)


def submodules(checkout: Path) -> list[str]:
    """Return the lines of ``git submodule status``. Raises Blocked."""
    return _git([*_at(checkout), "submodule", "status"], 60).splitlines()


def changed_since(checkout: Path, base: str) -> list[str]:
    """Return the files changed since this branch left ``base``, including uncommitted and untracked ones. Raises Blocked."""
    commit = _git([*_at(checkout), "merge-base", "--end-of-options", base, "HEAD"], 30).strip()
    tracked = _git([*_at(checkout), "diff", "--name-only", "--no-ext-diff", commit], 60).splitlines()
    return sorted({*tracked, *_git([*_at(checkout), "ls-files", "--others", "--exclude-standard"], 60).splitlines()})


def clone(url: str, target: Path, timeout_s: float, say: Callable[[str], None]) -> None:
    """Clone ``url`` to a temporary folder and rename it to ``target``. Raises Blocked, after at most ``timeout_s`` seconds."""
    from .shared_storage import remove_tree, writing

    say(f"cloning {without_user(url)} into {target}")
    work = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        _git(["ls-remote", url, "HEAD"], min(30, timeout_s))  # fails within 30 s where the network drops packets
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            _git(["clone", "--quiet", url, str(work)], timeout_s)
            work.rename(target)
    except Blocked as error:
        raise Blocked(
            f"cannot clone {without_user(url)} into {target}: {error.what}",
            hint=f"put a checkout there by hand: git clone … {target}; or use another source",
        ) from None
    finally:
        remove_tree(work)


def _git(arguments: list[str], timeout_s: float) -> str:
    """Return git's standard output. Raises Blocked with the last line of its standard error."""
    try:
        # A session of its own, so that git's transport helpers can be killed too: they would keep the pipe open.
        process = subprocess.Popen(
            ["git", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        raise Blocked(f"cannot run git: {error.strerror}") from error
    try:
        output, problems = process.communicate(timeout=timeout_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Blocked(f"git {arguments[0]} took longer than {timeout_s:.0f} s") from None
        raise
    if process.returncode:
        raise Blocked(without_user((problems.strip().splitlines() or [f"git ended with {process.returncode}"])[-1]))
    return output


def without_user(text: str) -> str:
    """Return ``text`` without the user names and passwords in its URLs."""
    return re.sub(r"//[^/@\s]*@", "//", text)
