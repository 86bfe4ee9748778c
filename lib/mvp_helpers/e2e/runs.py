"""Runs' folders: made once under ``.mvp/e2e`` (or --runs-dir), found again by name or path; what --plan and --recommend print."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..base import files, git, redact
from ..base.errors import BadInput, Blocked
from ..base.paths import E2eRun
from ..base.project import PROJECT
from . import checkouts, description, matrix
from .procedure import Procedure, script
from .request import Request

DEFAULT = PROJECT / ".mvp" / "e2e"


def new(runs: Path, request: Request) -> E2eRun:
    """A new run's folder, with its request. Raises Blocked when it cannot be written."""
    stamp = dt.datetime.now(dt.timezone.utc).strftime("%Y%m%d-%H%M%S")
    folder = E2eRun(runs.expanduser().resolve() / f"{Path(request.description).stem}-{stamp}-{secrets.token_hex(2)}")
    try:
        folder.path.mkdir(parents=True)
        # Logs hold whatever the trainer prints.
        folder.path.chmod(0o700)
        files.write_bytes(folder.request, msgspec.json.format(msgspec.json.encode(request), indent=2) + b"\n", mode=0o600)
    except OSError as error:
        raise Blocked(f"cannot write the run's folder {folder.path}: {error.strerror}", hint="--runs-dir FOLDER") from error
    return folder


def find(runs: Path, name: str) -> tuple[E2eRun, Request]:
    """An earlier run, by the name or the path of its folder. Raises BadInput."""
    for path in (Path(name).expanduser(), runs.expanduser() / name):
        folder = E2eRun(path.resolve())
        if folder.request.is_file():
            try:
                return folder, msgspec.json.decode(folder.request.read_bytes(), type=Request)
            except msgspec.MsgspecError as error:
                raise BadInput(f"{folder.request} is damaged: {error}") from None
    raise BadInput(f"there is no run '{name}' in {runs}", hint="--resume FOLDER, or --runs-dir")


def plan(procedure: Procedure) -> dict[str, Any]:
    """Every step with its exact environment and command, and what this revision says to it. Nothing is run or written."""
    found, wanted = procedure.description, []
    for one in procedure.planned:
        seen, env = procedure.checked(one), procedure.environment(one)
        wanted.append(
            {
                "name": one.name,
                "level": one.number,
                "title": f"{one.level.title}: {one.variant.title}",
                "steps": one.steps,
                "env": redact.environment({name: env[name] for name in (*one.env, "PYTHONPATH", "RAY_ADDRESS")}),
                "cwd": str(procedure.checkout(one.baseline)),
                "command": procedure.command(one),
                "starts": seen.preview.argv if seen.preview else [],
                "problems": seen.problems,
                "notes": seen.notes,
            }
        )
    tests = [path for path in [*found.tests, *procedure.request.tests]]
    return {
        "description": found.name,
        "checkouts": {name: {"path": str(path), "tests": ""} for name, path in procedure.paths.items()},
        "environment": [package.module for package in found.packages],
        "imports": {one.module: one.under for one in found.imports},
        "tests": {path: (procedure.paths[found.tests_checkout] / path.partition("::")[0]).exists() for path in tests},
        "runs": wanted,
        "limitations": matrix.limitations(found, procedure.planned, procedure.extra),
    }


def show_plan(found: Mapping[str, Any]) -> str:
    """The plan for a person."""
    lines = [f"{found['description']}: nothing is run", ""]
    lines += ["1 checkouts      commit, branch, dirty files and diff, submodules"]
    lines += [f"                   {name}: {one['path']}" for name, one in found["checkouts"].items()]
    lines += [f"2 environment    interpreter, packages ({', '.join(found['environment'])}), GPUs and sizes, disk, data, model"]
    lines += [f"3 imports        {', '.join(found['imports'])}: in the driver and in a Ray worker, from the checkouts"]
    lines += [
        f"4 tests          {path}{'' if there else '   (not in this checkout: drift, not run)'}"
        for path, there in found["tests"].items()
    ]
    lines += ["5 drift          the wrapper's variables and the checkout's own Hydra config", ""]
    for run in found["runs"]:
        lines += [f"6 {run['name']}: {run['title']}, steps {run['steps'][0]} to {run['steps'][1]}"]
        lines += [f"  PROBLEM: {text}" for text in run["problems"]] + [f"  note: {text}" for text in run["notes"]]
        lines += ["  " + line for line in script(Path(run["cwd"]), run["env"], run["command"]).splitlines()[2:]]
        if run["starts"]:
            lines += [f"  # which starts: {shlex.join(run['starts'][:8])} … ({len(run['starts'])} words)"]
        lines += [""]
    return "\n".join([*lines, "limitations it would have:", *(f"- {text}" for text in found["limitations"])])


def recommend(name: str, base: str, env: Mapping[str, str]) -> tuple[list[matrix.Recommended], list[str]]:
    """Which levels the subject's changes since ``base`` call for, and the changed files. Raises BadInput, Blocked."""
    found = description.load(name)
    path = checkouts.find(_only(found), env)[found.subject]
    try:
        changed = git.changed_since(path, base)
    except Blocked as error:
        raise BadInput(
            f"cannot compare {path} with '{base}': {error.what}", hint="--base origin/main, or a commit that is there"
        ) from None
    return matrix.recommend(found, changed), changed


def _only(found: description.Description) -> description.Description:
    return msgspec.structs.replace(found, checkouts={found.subject: found.checkouts[found.subject]})


def show_recommended(recommended: Sequence[matrix.Recommended], changed: Sequence[str]) -> str:
    lines = [f"{len(changed)} changed files"]
    for one in recommended:
        mark = "yes" if one.called_for else "no "
        lines.append(
            f"level {one.number}  {mark}  {one.level.title}: {one.level.when}"
            + ("  (only when asked for)" if one.level.on_request else "")
        )
        lines += [f"              {name}" for name in one.files[:5]] + (
            [f"              … {len(one.files) - 5} more"] if len(one.files) > 5 else []
        )
    wanted = [one for one in recommended if one.called_for and not one.level.on_request]
    # Where every variant must be named, only the author of the change knows which.
    plain = [one for one in wanted if not all(variant.on_request for variant in one.level.variants.values())]
    commands = [f"./scripts/60_e2e_verl.sh --level {','.join(str(one.number) for one in plain)}"] if plain else []
    commands += [
        f"./scripts/60_e2e_verl.sh --level {one.number} --variant {'|'.join(one.level.variants)} --override KEY=VALUE"
        for one in wanted
        if one not in plain
    ]
    return "\n".join([*lines, "", *(commands or ["no level: nothing here is seen by the trainer"])])


def start(folder: E2eRun, request: Request, env: Mapping[str, str], say: Callable[[str], None]) -> Procedure:
    """A procedure whose run can be interrupted cleanly, by SIGTERM as by Ctrl-C."""
    import signal

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    return Procedure(folder, request, env, say)


def lock(folder: E2eRun) -> int:
    """Holds a run's folder for this process. Raises BadInput when another one is at it."""
    import fcntl

    handle = os.open(folder.path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise BadInput(f"another process is at {folder.path}", hint="wait for it, or start a new run") from None
    return handle
