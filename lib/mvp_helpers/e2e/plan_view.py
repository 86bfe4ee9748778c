"""What --plan shows: every step of a run with its exact environment and command. Nothing is run or written."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import redact
from ..base.errors import BadInput, Blocked
from . import execute
from .context import Context
from .requests import checkouts, coverage
from .requests.levels import Planned
from .steps import environment, imports, tests


def plan(context: Context) -> dict[str, Any]:
    """Return the plan, checked against this revision of the checkouts."""
    description, request = context.description, context.request
    context.switch_off_missing_reward_model()
    known = {
        path: (context.paths[each.checkout] / path.partition("::")[0]).exists()
        for at, each in enumerate(context.tests)
        for path in [*each.paths, *(request.tests if at == 0 else [])]
    }
    runs = [_run(context, one) for one in context.planned]
    return {
        "description": description.name,
        "checkouts": {name: {"path": str(path), "tests": ""} for name, path in context.paths.items()},
        "environment": [package.module for package in description.packages],
        "imports": {wanted.module: wanted.under for wanted in description.imports},
        "tests": known,
        "commands": _commands(context, known),
        "runs": runs,
        "problems": [*_problems(context, known), *(f"{run['name']}: {text}" for run in runs for text in run["problems"])],
        "limitations": [
            *context.limits,
            *context.unused_words(),
            *context.limitations(context.planned),
        ],
    }


def _problems(context: Context, tests: Mapping[str, bool]) -> list[str]:
    """Return what would block the run and can be seen without a GPU, beside the problems of single runs."""
    baseline = any(one.baseline for one in context.planned)
    problems = [
        f"{path}/{folder} is empty: git -C {path} submodule update --init --recursive"
        for name, path in {*context.paths.items(), *context.paths_of(baseline).items()}
        for folder in checkouts.unready(path, context.description.checkouts[name])
    ]
    problems += environment.missing(context)
    problems += [f"--bridge-tests {path}: not in this checkout" for path in context.request.tests if not tests[path]]
    states = [checkouts.record(name, path, None) for name, path in context.paths.items()]
    problems += coverage.missing(context.description, context.request, context.folder.path.parent, states)
    try:
        return [*problems, *context.gpu_problems(None)]
    except BadInput as error:
        return [*problems, error.what]


def _commands(context: Context, known: Mapping[str, bool]) -> dict[str, str]:
    """Return the commands of setup, focused tests, import proofs and data, each for an empty shell;
    the tests are for the environment that has what they need, so that command keeps PATH and HOME."""
    first, commands = context.planned[0], {"setup": context.request.setup} if context.request.setup else {}
    env, machine = context.environment(first), context.shown_environment(first)
    for each in context.tests:
        paths = [path for path in [*each.paths, *(context.request.tests if each == context.tests[0] else [])] if known[path]]
        if paths:
            commands[each.name] = tests.elsewhere(context, each, paths)
    interpreter: list[str] = []
    for baseline in sorted({one.baseline for one in context.planned}):
        try:
            launches = imports.launches(context, baseline)
        except Blocked:
            continue
        for at, (one, launch) in enumerate(launches, 1):
            interpreter = interpreter or context.trainer.interpreter(launch)
            proof = [*context.trainer.interpreter(launch), "-", json.dumps(imports.question(context, one, launch))]
            own = {**context.shown_environment(one), "PYTHONPATH": launch.env.get("PYTHONPATH", "")}
            name = imports.named("imports-baseline" if baseline else "imports", at)
            commands[name] = f"{_pasted(context, launch.cwd, own, proof)} < {shlex.quote(str(imports.PROBE))}"
    if interpreter and (argv := environment.preparation(context, interpreter, env)):
        commands["data"] = _pasted(context, environment.preparation_folder(context), machine, argv)
    return commands


def _pasted(context: Context, cwd: Path, env: Mapping[str, str], argv: list[str]) -> str:
    return execute.one_line(context.folder.path, cwd, env, argv)


def _run(context: Context, one: Planned) -> dict[str, Any]:
    checked = context.checked(one)
    starts = [launch.argv for launch in checked.launches]
    shown = context.shown_environment(one)
    return {
        "name": one.name,
        "level": one.number,
        "title": f"{one.level.title}: {one.variant.title}",
        "steps": one.steps,
        "env": redact.environment(shown),
        "cwd": str(context.cwd(one)),
        "command": context.command(one),
        "script": execute.script(context.folder.path, context.cwd(one), shown, context.command(one), one.run.resumes),
        "starts": starts[0] if starts else [],
        "further_starts": starts[1:],
        "problems": checked.problems,
        "notes": [*checked.notes, *checked.ignored.values()],
    }


def show(plan: Mapping[str, Any]) -> str:
    """Return the plan for a person."""
    lines = [f"{plan['description']}: nothing is run", ""]
    lines += [f"PROBLEM: {text}" for text in plan["problems"]]
    lines += ["checkouts      commit, branch, dirty files and diff, submodules"]
    lines += [f"                 {name}: {checkout['path']}" for name, checkout in plan["checkouts"].items()]
    lines += [
        f"tests          {path}{'' if there else '   (not in this checkout: drift, not run)'}"
        for path, there in plan["tests"].items()
    ]
    lines += [f"environment    interpreter, packages ({', '.join(plan['environment'])}), GPUs and sizes, disk, data, model"]
    lines += [f"imports        {', '.join(plan['imports'])}: in the driver and in Ray workers, from the checkouts"]
    lines += ["drift          the script's variables and the checkout's own config", ""]
    for name, command in plan["commands"].items():
        lines += [f"# {name}", command, ""]
    for run in plan["runs"]:
        lines += [f"# {run['name']}: {run['title']}, steps {run['steps'][0]} to {run['steps'][1]}"]
        lines += [f"# PROBLEM: {text}" for text in run["problems"]] + [f"# note: {text}" for text in run["notes"]]
        lines += run["script"].splitlines()[1:]
        starts = [run["starts"], *run["further_starts"]] if run["starts"] else []
        lines += [f"# which starts: {shlex.join(argv[:8])} … ({len(argv)} words)" for argv in starts]
        lines += [""]
    return "\n".join([*lines, "limitations it would have:", *(f"- {text}" for text in plan["limitations"])])
