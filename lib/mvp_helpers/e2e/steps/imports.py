"""Step "imports", the import proof: what the launch's own interpreter imports, in the driver and in a Ray worker of every node
that could run a part of the training, must be the checkouts."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import Blocked
from ...trainers.launch_preview import Launch
from .. import execute
from ..context import Context
from ..execute import Outcome
from ..requests import checkouts
from ..requests.description import Description
from ..requests.levels import Planned
from ..step import Step, last_line, step_of, text_of

TIMEOUT_S = 420
PROBE = Path(__file__).with_name("probe.py")


def run(context: Context, place: Path, baseline: bool = False) -> Step:
    """Prove it for each interpreter, PYTHONPATH and ``ray.init`` of the launches, or of the baseline's."""
    steps: list[Step] = []
    for at, (one, launch) in enumerate(launches(context, baseline), 1):
        step = _prove(context, one, launch, place / f"{named('imports', at)}.log")
        path = launch.env.get("PYTHONPATH", "")
        step.evidence.append(text_of(f"{one.name}: {shlex.join(context.trainer.interpreter(launch))} with PYTHONPATH={path}"))
        if not step.passed:
            step.reason = f"{one.name}: {step.reason}" if steps else step.reason
            return step
        steps.append(step)
    steps[0].evidence = [evidence for step in steps for evidence in step.evidence]
    return steps[0]


def launches(context: Context, baseline: bool) -> list[tuple[Planned, Launch]]:
    """Return one launch for each interpreter, PYTHONPATH and ``ray.init`` that the runs use. Raises Blocked without any."""
    runs = [one for one in context.planned if one.baseline == baseline]
    # A run that this revision cannot do must not stop the others.
    possible = [one for one in runs if not context.checked(one).problems] or runs
    distinct: dict[tuple[str, ...], tuple[Planned, Launch]] = {}
    for one in possible:
        for launch in context.checked(one).launches:
            asked = json.dumps(question(context, one, launch))
            key = (*context.trainer.interpreter(launch), launch.env.get("PYTHONPATH", ""), asked)
            distinct.setdefault(key, (one, launch))
    if not distinct:
        raise Blocked(context.checked(runs[0]).problems[0])
    return list(distinct.values())


def named(step: str, number: int) -> str:
    """Return the name of a step's proof: ``imports``, ``imports-2``."""
    return f"{step}-{number}" if number > 1 else step


def _prove(context: Context, one: Planned, launch: Launch, log: Path) -> Step:
    env = {**context.environment(one), "PYTHONPATH": launch.env.get("PYTHONPATH", "")}
    asked = question(context, one, launch)
    answer, outcome = ask(context.trainer.interpreter(launch), launch.cwd, env, log, context.mark, asked)
    if answer is None:
        return step_of("Blocked", f"the import proof did not end: {last_line(log) or outcome.summary()}", log=log)
    return _judge(context, one, answer, asked["ray"].get("address", ""), log)


def question(context: Context, one: Planned, launch: Launch) -> dict[str, Any]:
    """Return what the probe is asked: the modules, in this process and in the Ray that the run would use."""
    address = context.environment(one)["RAY_ADDRESS"]
    where = {"num_cpus": 1} if address == "local" else {"address": address}
    return {
        "modules": [wanted.module for wanted in context.description.imports],
        "packages": [],
        "ray": {**context.trainer.ray_init(context.checked(one).config, launch.env.get("PYTHONPATH", "")), **where},
        "gpus": int(context.description.devices == "gpu"),
    }


def _judge(context: Context, one: Planned, answer: Mapping[str, Any], address: str, log: Path) -> Step:
    description, paths, seen = context.description, context.paths_of(one.baseline), answer["ray"]
    local = {} if one.baseline else context.local
    workers = {f"Ray worker on {host}" if host else "Ray worker": at for host, at in seen["workers"].items()}
    places = {"driver": answer["driver"], **workers}
    problems = [text for who, at in places.items() for text in import_problems(who, at, description, paths, local)]
    evidence = [f"{who}: {module} = {file}" for who, at in places.items() for module, file in at["files"].items()]
    commits = {state.path: f"{state.name}: commit {state.commit[:12]}" for state in context.states}
    evidence += [commits[str(path)] for path in paths.values() if str(path) in commits]
    if address and "nodes" in seen:
        available, where = seen["gpus_of_a_node"], f"on a node of the Ray cluster at {address}"
        evidence.append(f"GPUs: at most {available} {where}, which has {seen['nodes']} nodes")
        problems += context.gpu_problems(available, where)
    if problems:
        return step_of("Blocked", problems[0], [*problems, *evidence], log=log)
    under_subject = [wanted.module for wanted in description.imports if wanted.under.startswith(f"{description.subject}:")]
    module = (under_subject or [description.imports[0].module])[0]
    reason = f"{module} = {answer['driver']['files'][module]} in the driver and in the {', '.join(workers)}"
    return step_of("Pass", reason, evidence, log=log)


def ask(
    interpreter: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path, mark: str, asked: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, Outcome]:
    """Return the probe's answer (None when it gave none), and how it ended."""
    argv = [*interpreter, "-", json.dumps(asked)]
    outcome = execute.run(argv, cwd, env, log, mark, timeout_s=TIMEOUT_S, stall_s=TIMEOUT_S, stdin=PROBE)
    for line in reversed(log.read_text(errors="replace").splitlines()):
        if line.startswith("MVP_PROBE "):
            return json.loads(line.removeprefix("MVP_PROBE ")), outcome
    return None, outcome


def import_problems(
    where: str,
    seen: Mapping[str, Any],
    description: Description,
    paths: Mapping[str, Path],
    local: Mapping[str, Path] | None = None,
) -> list[str]:
    """Return why ``seen`` does not prove that ``where`` imports the checkouts, or the ``local`` copies in their place."""
    if "ray" in seen["errors"]:
        return [f"{where}: Ray: {seen['errors']['ray']}"]
    problems = []
    for wanted in description.imports:
        name, _, folder = wanted.under.partition(":")
        below = Path(os.path.realpath((local or {}).get(wanted.under, paths[name] / folder)))
        copy = next((each for each in checkouts.copies(description, name, paths) if is_below(seen, wanted.module, each)), None)
        if why := seen["errors"].get(wanted.module):
            problems.append(f"{where}: cannot import {wanted.module}: {why}")
        elif not (file := seen["files"].get(wanted.module, "")):
            problems.append(f"{where}: {wanted.module} has no file")
        elif copy:
            if differs := checkouts.copy_problem(copy, paths[name]):
                problems.append(
                    f"{where}: {wanted.module} comes from the copy {copy}, which is not the change under test: {differs}"
                )
        elif not Path(file).is_relative_to(below):
            problems.append(f"{where}: {wanted.module} comes from {file}, not from {below}")
    return problems


def is_below(seen: Mapping[str, Any], module: str, folder: Path) -> bool:
    """Tell whether ``module`` was imported from below ``folder``."""
    file = seen["files"].get(module, "")
    return bool(file) and Path(file).is_relative_to(os.path.realpath(folder))
