"""The same procedure somewhere else: in a container, under Slurm, or as a Ray job. Setup and run are one step there.

How each is started is data (``launchers`` of the description); folders are mounted at their own paths, which mean the same then.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..cluster import PROJECT
from ..errors import BadInput, Blocked
from . import description, environment
from .description import Description
from .procedure import Request

RAY = "ray"
SCRIPT = PROJECT / "scripts" / "60_e2e_verl.sh"


def arguments(args: Namespace, runs: Path) -> list[str]:
    """What this procedure was asked for, as the script's arguments, without the way to start it."""
    found = ["--description", args.description, "--runs-dir", str(runs)]
    found += [
        word
        for name in ("level", "model", "baseline", "resume", "steps")
        if (value := getattr(args, name))
        for word in (f"--{name}", str(value))
    ]
    found += [word for value in args.variant for word in ("--variant", value)]
    found += [word for value in args.override for word in ("--override", value)]
    found += [word for value in args.bridge_tests for word in ("--bridge-tests", value)]
    return [*found, "--timeout", f"{args.timeout:g}", "--stall", f"{args.stall:g}", *(["--json"] if args.json else [])]


def variables(found: Description, request: Request, env: Mapping[str, str]) -> dict[str, str]:
    """The variables that travel: the checkouts', those that are passed on, where the hub's files lie."""
    names = [
        *(one.variable for one in found.checkouts.values()),
        *found.passed_on,
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "HOME",
    ]
    paths = {one.variable: request.checkouts[name] for name, one in found.checkouts.items()}
    return {name: paths.get(name) or env[name] for name in dict.fromkeys(names) if paths.get(name) or env.get(name)}


def mounts(found: Description, request: Request, runs: Path, env: Mapping[str, str]) -> list[str]:
    """Folders that the procedure reads or writes, none inside another one of them."""
    model = found.model
    paths = [PROJECT, runs.resolve(), *map(Path, request.checkouts.values()), environment.hf_home(env)]
    paths += [environment.home(env.get(one.variable) or one.default, env).parent for one in found.data]
    one = request.env.get(model.id_variable) or found.env.get(model.id_variable, "")
    paths.append(environment.home(request.env.get(model.path_variable) or model.default.replace("{MODEL_ID}", one), env))
    there = sorted({str(path) for path in paths if path.exists() or path == runs.resolve()})
    return [path for path in there if not any(path != other and Path(path).is_relative_to(other) for other in there)]


def fill(template: Sequence[str], lists: Mapping[str, list[str]], texts: Mapping[str, str]) -> list[str]:
    """The argv from a template. A word ``{name:-x}`` becomes ``-x`` and a value for each, ``{name}`` alone a word for each;
    ``{name:,}`` inside a word joins them; any other is a text. Raises BadInput for an empty one."""
    argv: list[str] = []
    for word in template:
        if (match := re.fullmatch(r"\{(\w+)(?::(-\S+))?\}", word)) and match[1] in lists:
            argv += [part for value in lists[match[1]] for part in ((match[2], value) if match[2] else (value,))]
            continue

        def value(found: re.Match[str]) -> str:
            if found[2]:
                return found[2].join(lists[found[1]])
            if not (text := texts[found[1]]):
                raise BadInput(
                    f"--{found[1]} is needed", hint=f"--{found[1]} verlai/verl:TAG: the exact tag, which the report then names"
                )
            return text

        argv.append(re.sub(r"\{(\w+)(?::([^}]+))?\}", value, word))
    return argv


def argv(args: Namespace, request: Request, runs: Path, env: Mapping[str, str]) -> list[str]:
    """The exact command of --via. Raises BadInput for a way that the description does not know."""
    found = description.load(args.description)
    if args.via not in found.launchers:
        raise BadInput(f"--via {args.via}: not one of {', '.join([*found.launchers, RAY])}")
    where = mounts(found, request, runs, env)
    given = variables(found, request, env)
    lists = {
        "options": list(args.launcher_option),
        "mounts": [f"{path}:{path}" for path in where],
        "environment": [f"{name}={value}" for name, value in given.items()],
        "arguments": arguments(args, runs.resolve()),
    }
    texts = {
        "image": args.image,
        "workdir": request.checkouts[found.wrapper.checkout],
        "script": str(SCRIPT),
        "runs": str(runs.resolve()),
    }
    if args.via == "sbatch":
        inner = fill(found.launchers["slurm"], lists | {"options": []}, texts)
        texts["slurm"] = shlex.join(inner)
    return fill(found.launchers[args.via], lists, texts)


def jobspec(args: Namespace, request: Request, runs: Path, env: Mapping[str, str]) -> str:
    """A JobSpec (JSON) whose job runs this procedure on a worker of the cluster."""
    found = description.load(args.description)
    variables_ = {name: value for name, value in variables(found, request, env).items() if name != "HOME"}
    return json.dumps(
        {"workload": "e2e", "env_vars": variables_ | {"E2E_ARGUMENTS": json.dumps(arguments(args, runs.resolve()))}}
    )


def start(args: Namespace, request: Request, runs: Path, say: Callable[[str], None]) -> int:
    """Start it there and wait; its own exit code. With --plan only the command is shown; for a Ray job its JobSpec is printed."""
    if args.via == RAY:
        print(jobspec(args, request, runs, os.environ))
        return 0
    command = argv(args, request, runs, os.environ)
    if args.plan:
        print(shlex.join(command))
        return 0
    runs.mkdir(parents=True, exist_ok=True)
    say(f"{args.via}: {shlex.join(command[:6])} …")
    env = dict(os.environ) | variables(description.load(args.description), request, os.environ)
    try:
        return subprocess.run(command, env=env).returncode
    except OSError as error:
        raise Blocked(
            f"cannot run {command[0]}: {error.strerror}", hint=f"--via {args.via} needs {command[0]} on this machine"
        ) from None
