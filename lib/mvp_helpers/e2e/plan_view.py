"""What --plan shows: every step of a run with its exact environment and command. Nothing is run or written."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import redact
from . import execute
from .context import Context
from .requests import levels
from .requests.levels import Planned


def plan(context: Context) -> dict[str, Any]:
    """Return the plan, checked against this revision of the checkouts."""
    description, request = context.description, context.request
    tests = {
        path: (context.paths[each.checkout] / path.partition("::")[0]).exists()
        for at, each in enumerate(context.tests)
        for path in [*each.paths, *(request.tests if at == 0 else [])]
    }
    return {
        "description": description.name,
        "checkouts": {name: {"path": str(path), "tests": ""} for name, path in context.paths.items()},
        "environment": [package.module for package in description.packages],
        "imports": {wanted.module: wanted.under for wanted in description.imports},
        "tests": tests,
        "runs": [_run(context, one) for one in context.planned],
        "limitations": levels.limitations(description, context.planned, context.extra),
    }


def _run(context: Context, one: Planned) -> dict[str, Any]:
    checked, env = context.checked(one), context.environment(one)
    starts = [launch.argv for launch in checked.launches]
    return {
        "name": one.name,
        "level": one.number,
        "title": f"{one.level.title}: {one.variant.title}",
        "steps": one.steps,
        "env": redact.environment({name: env[name] for name in (*one.env, "PYTHONPATH", "RAY_ADDRESS")}),
        "cwd": str(context.cwd(one)),
        "command": context.command(one),
        "starts": starts[0] if starts else [],
        "further_starts": starts[1:],
        "problems": checked.problems,
        "notes": checked.notes,
    }


def show(plan: Mapping[str, Any]) -> str:
    """Return the plan for a person."""
    lines = [f"{plan['description']}: nothing is run", ""]
    lines += ["1 checkouts      commit, branch, dirty files and diff, submodules"]
    lines += [f"                   {name}: {checkout['path']}" for name, checkout in plan["checkouts"].items()]
    lines += [f"2 environment    interpreter, packages ({', '.join(plan['environment'])}), GPUs and sizes, disk, data, model"]
    lines += [f"3 imports        {', '.join(plan['imports'])}: in the driver and in a Ray worker, from the checkouts"]
    lines += [
        f"4 tests          {path}{'' if there else '   (not in this checkout: drift, not run)'}"
        for path, there in plan["tests"].items()
    ]
    lines += ["5 drift          the script's variables and the checkout's own config", ""]
    for run in plan["runs"]:
        lines += [f"6 {run['name']}: {run['title']}, steps {run['steps'][0]} to {run['steps'][1]}"]
        lines += [f"  PROBLEM: {text}" for text in run["problems"]] + [f"  note: {text}" for text in run["notes"]]
        lines += ["  " + line for line in execute.script(Path(run["cwd"]), run["env"], run["command"]).splitlines()[2:]]
        starts = [run["starts"], *run["further_starts"]] if run["starts"] else []
        lines += [f"  # which starts: {shlex.join(argv[:8])} … ({len(argv)} words)" for argv in starts]
        lines += [""]
    return "\n".join([*lines, "limitations it would have:", *(f"- {text}" for text in plan["limitations"])])
