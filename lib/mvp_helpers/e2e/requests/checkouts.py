"""The checkouts under test: recorded as they are (commit, branch, dirty files with their diff, submodules); never changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ...base import files, git, redact
from ...base.errors import BadInput, Blocked
from .description import Description
from .parts import Checkout


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one checkout. ``fingerprint`` changes with any change of it."""

    name: str
    path: str
    commit: str
    branch: str
    origin: str
    dirty: list[str]
    submodules: list[str]
    """Lines of ``git submodule status``: ``-`` not checked out, ``+`` another commit than the recorded one."""
    fingerprint: str
    diff_hash: str
    """The digest of the changes to tracked files."""

    def summary(self) -> str:
        """Return the commit, the branch and the dirty files in one line."""
        changed = (
            f"{len(self.dirty)} dirty: {', '.join(self.dirty[:8])}{' …' if len(self.dirty) > 8 else ''}"
            if self.dirty
            else "clean"
        )
        return f"{self.commit[:12]} ({self.branch or 'detached'}), {changed}"


def find(description: Description, env: Mapping[str, str]) -> dict[str, Path]:
    """Return the checkouts by name, from the variables that name their folders.

    Raises:
        BadInput: a variable is missing, names no git checkout, or another repository than it should.
    """
    paths = {}
    for name, checkout in description.checkouts.items():
        value = env.get(checkout.variable, "")
        if not value:
            raise BadInput(
                f"{checkout.variable} is not set: the {name} checkout under test",
                hint=" ".join(f"{one.variable}=/path/to/{key}" for key, one in description.checkouts.items())
                + f" {description.command} ...",
            )
        path = Path(os.path.realpath(Path(value).expanduser()))
        if not path.is_dir():
            raise BadInput(f"{checkout.variable}={value} is not a folder")
        if git.root(path) != path:
            raise BadInput(
                f"{checkout.variable}={value} is not a git checkout: the code under test would have no commit",
                hint="git clone it, or run git init in it",
            )
        if missing := [text for text in checkout.holds if not (path / text).exists()]:
            raise BadInput(
                f"{checkout.variable}={value} is not a {name} checkout: it has no {missing[0]}{_which(description, path)}"
            )
        paths[name] = path
    return paths


def _which(description: Description, path: Path) -> str:
    for name, checkout in description.checkouts.items():
        if all((path / text).exists() for text in checkout.holds):
            return f" (it looks like {name}: {checkout.variable})"
    return ""


def record(name: str, path: Path, evidence: Path | None) -> State:
    """Return the state of a checkout, and keep its uncommitted changes in ``<evidence>/<name>.diff``. Raises Blocked."""
    facts = git.facts(path, ["."])
    try:
        if "unknown" in facts:
            raise Blocked(facts["unknown"])
        diff, branch, submodules = git.diff(path), git.branch(path), git.submodules(path)
    except Blocked as error:
        raise Blocked(
            f"git cannot read the state of {path}: {error.what}", hint=f"git -C {path} status; git -C {path} fsck"
        ) from None
    seen = hashlib.sha256(f"{facts['commit']}\n{diff}\n".encode(errors="surrogateescape"))
    for text in facts["changed"]:
        if (file := path / text.strip('"')).is_file() and not file.is_symlink():
            seen.update(f"{text}\0{files.sha256(file)}".encode())
    if diff and evidence:
        files.write_bytes(evidence / f"{name}.diff", redact.data(diff.encode(errors="surrogateescape")), mode=0o600)
    return State(
        name=name,
        path=str(path),
        commit=facts["commit"],
        branch=branch,
        origin=facts["origin"],
        dirty=facts["changed"],
        submodules=submodules,
        fingerprint=seen.hexdigest()[:16],
        diff_hash=_hash(diff),
    )


def moved(states: Sequence[State]) -> str:
    """Return which checkout has another commit or other changes to tracked files than recorded; "" when none has.

    Untracked files do not count here: a trainer may leave some. Raises Blocked.
    """
    for state in states:
        path = Path(state.path)
        if (commit := git.facts(path, []).get("commit")) != state.commit:
            return f"{path} was at {state.commit[:12]} and is at {(commit or 'unknown')[:12]}"
        if _hash(git.diff(path)) != state.diff_hash:
            return f"tracked files of {path} have changed"
    return ""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def unready(path: Path, checkout: Checkout) -> list[str]:
    """Return the folders that Python should import from and that are empty, mostly submodules that are not checked out."""
    return [folder for folder in checkout.pythonpath if not ((path / folder).is_dir() and any((path / folder).iterdir()))]


def not_as_recorded(checkout: Checkout, state: State) -> list[str]:
    """Return the pinned submodules that are at another commit than the checkout records."""
    lines = [line for line in state.submodules if line.startswith("+")]
    return [folder for folder in checkout.pinned if any(line.split()[1] == folder for line in lines)]


def copies(description: Description, name: str, paths: Mapping[str, Path]) -> list[Path]:
    """Return the copies of a checkout that other checkouts carry."""
    places = [text.partition(":") for text in description.checkouts[name].copies]
    folders = [paths[other] / folder for other, _, folder in places if other in paths]
    return [folder for folder in folders if git.root(folder) == folder and folder != paths[name]]


def copy_problem(copy: Path, checkout: Path) -> str:
    """Return in what a copy differs from the checkout under test; "" when commit and diff are equal. Raises Blocked."""
    other, own = record("copy", copy, None), record("checkout", checkout, None)
    if other.commit != own.commit:
        return f"it is at commit {other.commit[:12]}, the change under test at {own.commit[:12]}"
    if other.fingerprint != own.fingerprint:
        return f"its changes differ from those of {checkout}"
    return ""


def pythonpath(
    description: Description, paths: Mapping[str, Path], inherited: str = "", local: Mapping[str, Path] | None = None
) -> str:
    """Return the checkouts' folders, then the inherited ones; no empty entry (that would be the working directory).

    Inherited ones are relative to this process's folder: the script is started in another one.
    ``local``: folders that take the place of some (checkout:folder).
    """
    folders = [(name, folder) for name, one in description.checkouts.items() for folder in one.pythonpath]
    own = [str((local or {}).get(f"{name}:{folder}", paths[name] / folder).resolve()) for name, folder in folders]
    others = [os.path.abspath(part) for part in inherited.split(":") if part]
    return ":".join([*own, *(part for part in others if part not in own)])
