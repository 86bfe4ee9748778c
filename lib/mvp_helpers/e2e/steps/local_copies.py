"""Step "local-copies": node-local copies of parts of a checkout, in which something is built that must not be built there."""

from __future__ import annotations

import filecmp
import shlex
import shutil
from pathlib import Path

from ...base import git
from ...base.errors import Blocked
from .. import execute
from ..context import Context
from ..step import Step, last_line, step_of

TIMEOUT_S = 900
SUFFIX = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX') or '.so')"


def run(context: Context, place: Path) -> Step:
    """Copy, prove that the copy is the same code, and build in it, with the suffix of the interpreter that will import it."""
    evidence: list[str] = []
    for number, wanted in enumerate(context.local_copies(), 1):
        source, copy = context.source_of(wanted), context.local[wanted.of]
        _copy(source, copy)
        suffix = _ask(context, place / f"suffix-{number}.log")
        texts = {"{copy}": str(copy), "{suffix}": suffix}
        argv = [_filled(word, texts) for word in wanted.build]
        log, built = place / f"build-{number}.log", copy / _filled(wanted.leaves, texts)
        outcome = execute.run(argv, copy, context.base, log, context.mark, TIMEOUT_S, TIMEOUT_S)
        if not (outcome.good and built.is_file()):
            why = f"{last_line(log) or outcome.summary()}; {built.name} {'exists' if built.is_file() else 'is missing'}"
            return step_of("Blocked", f"{shlex.join(argv)}: {why}", evidence, log=log)
        evidence.append(f"{wanted.variable}={copy}: a copy of {source} with {built.name}")
    step = step_of("Pass", "; ".join(evidence), evidence)
    step.limitations = [
        f"{wanted.variable}: other nodes need a copy of their own at the same path" for wanted in context.local_copies()
    ]
    return step


def _filled(text: str, texts: dict[str, str]) -> str:
    for name, value in texts.items():
        text = text.replace(name, value)
    return text


def _copy(source: Path, copy: Path) -> None:
    """Raises Blocked when the copy cannot be made, or when one that exists has other code."""
    try:
        if not copy.exists():
            shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        files = git.tracked(source)
        _, differing, missing = filecmp.cmpfiles(
            source, copy, [name for name in files if (source / name).is_file()], shallow=False
        )
    except (OSError, shutil.Error) as error:
        raise Blocked(f"cannot copy {source} to {copy}: {error}", hint="a folder with room, on this node") from None
    if different := [*differing, *missing]:
        raise Blocked(f"{copy} is not a copy of {source}: {different[0]} differs", hint=f"remove {copy}, or name another folder")


def _ask(context: Context, log: Path) -> str:
    """Return the suffix of an extension module of the launch's interpreter. Raises Blocked."""
    one = context.planned[0]
    argv = [*context.trainer.interpreter(context.launches(one)[0]), "-c", SUFFIX]
    outcome = execute.run(argv, context.cwd(one), context.environment(one), log, context.mark, TIMEOUT_S, TIMEOUT_S)
    if not outcome.good or not last_line(log).startswith("."):
        raise Blocked(f"{shlex.join(argv)}: {last_line(log) or outcome.summary()}")
    return last_line(log)
