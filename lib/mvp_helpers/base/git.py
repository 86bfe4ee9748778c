"""Run git with time limits and without password prompts; passwords in URLs are removed from its output."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import BadInput, Blocked, did_you_mean

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


def tracked(checkout: Path) -> list[str]:
    """Return the paths of all tracked files, relative to the checkout. Raises Blocked."""
    return [name for name in _git([*_at(checkout), "ls-files", "-z"], 60).split("\0") if name]


def submodules(checkout: Path) -> list[str]:
    """Return the lines of ``git submodule status``. Raises Blocked."""
    return _git([*_at(checkout), "submodule", "status"], 60).splitlines()


def changed_since(checkout: Path, base: str) -> list[str]:
    """Return the files changed since this branch left ``base``, including uncommitted and untracked ones. Raises Blocked."""
    commit = _git([*_at(checkout), "merge-base", "--end-of-options", base, "HEAD"], 30).strip()
    tracked = _git([*_at(checkout), "diff", "--name-only", "--no-ext-diff", commit], 60).splitlines()
    return sorted({*tracked, *_git([*_at(checkout), "ls-files", "--others", "--exclude-standard"], 60).splitlines()})


def clone(url: str, revision: str, target: Path, timeout_s: float, say: Callable[[str], None]) -> None:
    """Clone ``revision`` (a tag, a branch or a commit) of ``url`` into ``target``, which appears complete or not at all.

    Of several processes one clones, and the others wait. The remains of an interrupted one are removed.

    Raises:
        BadInput: the repository has no such revision.
        Blocked: git fails or takes longer than ``timeout_s`` seconds, or ``target`` cannot be written.
        TimedOut: another process has been cloning for hours.
    """
    from .shared_storage import locked, remove_tree, writing

    hidden = f".{target.name}.clone-"
    with locked(target.with_name(f".{target.name}.lock"), f"cloning {without_user(url)}", say):
        if target.exists() and any(target.iterdir()):
            return  # another process was faster
        for leftover in target.parent.glob(f"{hidden}*"):
            remove_tree(leftover)
        # Another name each time: the git of a killed process may still write to the old one.
        work = target.with_name(f"{hidden}{uuid.uuid4().hex}")
        try:
            names = _names(url, min(30, timeout_s))  # fails within 30 s where the network drops packets
            say(f"cloning {without_user(url)} at {revision} into {target}")
            with writing(target):
                _clone(url, revision, names, work, timeout_s)
                work.rename(target)
        except Blocked as error:
            raise Blocked(
                f"cannot clone {without_user(url)} into {target}: {error.what}",
                hint=f"check the network; or a mirror or a folder as code.repository; or put a checkout at {target} by hand",
            ) from None
        finally:
            remove_tree(work)


def _names(url: str, timeout_s: float) -> list[str]:
    """Return the names of all branches and tags of a repository. Raises Blocked."""
    lines = _git(["ls-remote", "--heads", "--tags", "--refs", "--", url], timeout_s).splitlines()
    return [line.partition("\t")[2].split("/", 2)[2] for line in lines]


def _clone(url: str, revision: str, names: list[str], work: Path, timeout_s: float) -> None:
    """Clone with as little history as possible: a server need not send a single commit by its hash."""
    if revision in names:
        _git(["clone", "--quiet", "--depth=1", f"--branch={revision}", "--", url, str(work)], timeout_s)
        return
    if not re.fullmatch(r"[0-9a-f]{7,40}", revision):
        raise _no_revision(url, revision, did_you_mean(revision, names))
    _git(["clone", "--quiet", "--no-checkout", "--", url, str(work)], timeout_s)
    try:
        _git([*_at(work), "checkout", "--quiet", "--detach", revision], timeout_s)
    except Blocked as error:
        raise _no_revision(url, revision, f": {error.what}") from None


def _no_revision(url: str, revision: str, more: str) -> BadInput:
    return BadInput(
        f"{without_user(url)} has no tag, branch or commit '{revision}'{more}", hint="correct code.revision in the cluster file"
    )


def is_at(checkout: Path, revision: str) -> bool | None:
    """Return whether a checkout is at ``revision``; None when it does not know that revision, or is not a checkout."""
    try:
        wanted = _git([*_at(checkout), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], 30)
        return wanted == _git([*_at(checkout), "rev-parse", "HEAD"], 30)
    except Blocked:
        return None


def commit_of(repository: Path, revision: str) -> str:
    """Return the full hash of the commit that a tag, a branch or a commit's hash names. Raises BadInput when there is none."""
    try:
        _git([*_at(repository), "rev-parse", "--git-dir"], 30)
    except Blocked as error:
        raise BadInput(
            f"{repository} is not a git repository: {error.what}", hint="--source DIR, a checkout on the head"
        ) from None
    try:
        if revision.startswith("-"):
            raise Blocked("an option, not a revision")
        return _git([*_at(repository), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], 30).strip()
    except Blocked:
        names = _git([*_at(repository), "for-each-ref", "--format=%(refname:short)"], 30).splitlines()
        raise BadInput(
            f"{repository} has no tag, branch or commit '{revision}'{did_you_mean(revision, names)}",
            hint=f"git -C {repository} log",
        ) from None


def is_ancestor(repository: Path, older: str, newer: str) -> bool:
    """Return whether commit ``newer`` contains commit ``older``. Raises Blocked."""
    return not _git([*_at(repository), "rev-list", "--max-count=1", older, "--not", newer], 120)


def is_shallow(repository: Path) -> bool:
    """Return whether the repository lacks older history. Raises Blocked."""
    return _git([*_at(repository), "rev-parse", "--is-shallow-repository"], 30).strip() == "true"


def suspects(repository: Path, bad: str, good: Iterable[str]) -> list[str]:
    """Return the commits in ``bad`` and in none of ``good``; the first one halves them best, and the last one is ``bad``.

    Raises Blocked.
    """
    lines = _git([*_at(repository), "rev-list", "--bisect-all", bad, "--not", *good], 120).splitlines()
    return [line.split()[0] for line in lines]


def describe(repository: Path, commit: str) -> dict[str, str]:
    """Return hash, author, date (ISO 8601) and subject of a commit. Raises Blocked."""
    text = _git([*_at(repository), "show", "--no-patch", "--no-show-signature", "--format=%H%x00%an%x00%aI%x00%s", commit], 30)
    return dict(zip(("commit", "author", "date", "subject"), text.rstrip("\n").split("\0"), strict=True))


def patch(repository: Path, commit: str) -> str:
    """Return a commit with its difference from its first parent. Raises Blocked."""
    options = ["-m", "--first-parent", "--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature"]
    return _git([*_at(repository), "show", *options, "--stat", "--patch", "--format=fuller", commit], 120)


def listing(repository: Path, commit: str, *paths: str) -> str:
    """Return a line with the hash of the content for each of ``paths`` that exists in ``commit``. Raises Blocked."""
    return _git([*_at(repository), "ls-tree", "--full-tree", commit, "--", *paths], 30)


def export(repository: Path, commit: str, target: Path) -> None:
    """Write the files of ``commit`` into the new folder ``target``. Work tree, index and refs of the repository stay as they are.

    Raises Blocked, OSError.
    """
    folder = _git([*_at(repository), "rev-parse", "--absolute-git-dir"], 30).strip()
    target.mkdir(parents=True)
    base = [*_at(target), "-c", "core.sparseCheckout=false", f"--git-dir={folder}", f"--work-tree={target}"]
    with tempfile.TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": f"{scratch}/index"}
        _git([*base, "read-tree", commit], 120, index)
        _git([*base, "checkout-index", "--all", "--quiet"], 600, index)


def _git(arguments: list[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> str:
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
            env={**os.environ, **_ENVIRONMENT, **(environment or {})},
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
