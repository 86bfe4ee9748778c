"""Step "imports", the import proof: what the launch's own interpreter imports, in the driver and in a Ray worker, must be the
checkouts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import Blocked
from .. import execute
from ..context import Context
from ..execute import Outcome
from ..requests.description import Description
from ..requests.levels import Planned
from ..step import Step, last_line, step_of

TIMEOUT_S = 420
PROBE = Path(__file__).with_name("probe.py")


def run(context: Context, place: Path, one: Planned) -> Step:
    """Prove it for the interpreter, PYTHONPATH and ``ray.init`` of this run's launches."""
    checked = context.checked(one)
    if not checked.launches:
        raise Blocked(checked.problems[0])
    launch = checked.launches[0]
    pythonpath = launch.env.get("PYTHONPATH", "")
    env = {**context.environment(one), "PYTHONPATH": pythonpath}
    address = "" if env["RAY_ADDRESS"] == "local" else env["RAY_ADDRESS"]
    ray = {**context.trainer.ray_init(checked.config, pythonpath), **({"address": address} if address else {"num_cpus": 1})}
    log = place / "imports.log"
    modules = [wanted.module for wanted in context.description.imports]
    answer, outcome = ask(context.trainer.interpreter(launch), launch.cwd, env, log, context.mark, modules, ray=ray)
    if answer is None:
        return step_of("Blocked", f"the import proof did not end: {last_line(log) or outcome.summary()}", log=log)
    return _judge(context, one, answer, address, log)


def _judge(context: Context, one: Planned, answer: Mapping[str, Any], address: str, log: Path) -> Step:
    description, paths = context.description, context.paths_of(one.baseline)
    driver, worker = answer["driver"], answer["worker"]
    problems = [
        *import_problems("driver", driver, description, paths),
        *import_problems("Ray worker", worker, description, paths),
    ]
    files = {"driver": driver.get("files", {}), "worker": worker.get("files", {})}
    evidence = [f"{who}: {module} = {file}" for who, modules in files.items() for module, file in modules.items()]
    commits = {state.path: f"{state.name}: commit {state.commit[:12]}" for state in context.states}
    evidence += [commits[str(path)] for path in paths.values() if str(path) in commits]
    if address and "nodes" in worker:
        available, where = worker["gpus_of_a_node"], f"on a node of the Ray cluster at {address}"
        evidence.append(f"GPUs: at most {available} {where}, which has {worker['nodes']} nodes")
        problems += context.gpu_problems(available, where)
    if problems:
        return step_of("Blocked", problems[0], [*problems, *evidence], log=log)
    under_subject = [wanted.module for wanted in description.imports if wanted.under.startswith(f"{description.subject}:")]
    module = (under_subject or [description.imports[0].module])[0]
    return step_of("Pass", f"{module} = {files['worker'][module]} in the driver and a Ray worker", evidence, log=log)


def ask(
    interpreter: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    mark: str,
    modules: Sequence[str],
    packages: Sequence[str] = (),
    ray: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any] | None, Outcome]:
    """Return the probe's answer (None when it gave none), and how it ended."""
    request = json.dumps({"modules": list(modules), "packages": list(packages), "ray": ray})
    outcome = execute.run([*interpreter, "-", request], cwd, env, log, mark, timeout_s=TIMEOUT_S, stall_s=TIMEOUT_S, stdin=PROBE)
    for line in reversed(log.read_text(errors="replace").splitlines()):
        if line.startswith("MVP_PROBE "):
            return json.loads(line.removeprefix("MVP_PROBE ")), outcome
    return None, outcome


def import_problems(where: str, seen: Mapping[str, Any], description: Description, paths: Mapping[str, Path]) -> list[str]:
    """Return why ``seen`` does not prove that ``where`` imports the checkouts; empty when it does."""
    if "ray" in seen["errors"]:
        return [f"{where}: Ray: {seen['errors']['ray']}"]
    problems = []
    for wanted in description.imports:
        name, _, folder = wanted.under.partition(":")
        below = Path(os.path.realpath(paths[name] / folder))
        if why := seen["errors"].get(wanted.module):
            problems.append(f"{where}: cannot import {wanted.module}: {why}")
        elif not (file := seen["files"].get(wanted.module, "")):
            problems.append(f"{where}: {wanted.module} has no file")
        elif not Path(file).is_relative_to(below):
            problems.append(f"{where}: {wanted.module} comes from {file}, not from {below}")
    return problems
