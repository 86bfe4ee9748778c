"""The same procedure somewhere else: in a container, under Slurm, or as a Ray job. Setup and run are one step there.

How each is started is data (``templates/launchers.yaml``); folders are mounted at their own paths, which mean the same then.
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

import msgspec

from ..cluster import PROJECT
from ..documents import convert, parse
from ..errors import BadInput, Blocked, did_you_mean
from . import description, environment
from .description import Description
from .request import Request

RAY, BATCH = "ray", "sbatch"
TRAVEL = ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HOME", "E2E_FREE_GB")
"""Variables that go along beside the checkouts' and those of the request."""
FILE = PROJECT / "templates" / "launchers.yaml"
SCRIPT = PROJECT / "scripts" / "60_e2e_verl.sh"


class Launchers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """templates/launchers.yaml: the argv of each way, and the words for GPUs and for a container under Slurm."""

    gpus: list[str]
    pyxis: list[str]
    ways: dict[str, list[str]]


def load(file: Path = FILE) -> Launchers:
    """Raises BadInput for a mistake in the file."""
    try:
        return convert(parse(file.read_bytes(), str(file)), Launchers, str(file))
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None


def arguments(args: Namespace, request: Request, runs: Path) -> list[str]:
    """What this procedure was asked for, as the script's arguments, without the way to start it; paths are absolute."""
    found = ["--description", _absolute(args.description) if args.description.endswith(".yaml") else args.description]
    found += ["--runs-dir", str(runs)]
    if args.resume:
        found += ["--resume", args.resume]
    else:
        found += ["--level", ",".join(map(str, request.levels))]
        found += [word for name in ("baseline", "setup") if (value := getattr(request, name)) for word in (f"--{name}", value)]
        found += ["--steps", str(request.steps)] if request.steps else []
        found += [word for value in request.variants for word in ("--variant", value)]
        found += [word for value in request.overrides for word in ("--override", value)]
        found += [word for value in request.tests for word in ("--bridge-tests", value)]
    found += ["--image", request.image] if request.image else []
    return [*found, "--timeout", f"{args.timeout:g}", "--stall", f"{args.stall:g}", *(["--json"] if args.json else [])]


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().resolve())


def variables(found: Description, request: Request, env: Mapping[str, str]) -> dict[str, str]:
    """The variables that travel: the checkouts', those that are passed on, where the hub's files lie."""
    paths = {one.variable: request.checkouts[name] for name, one in found.checkouts.items()}
    # An image may carry the address of a Ray that is nobody's business here.
    paths["RAY_ADDRESS"] = env.get("RAY_ADDRESS") or "local"
    return paths | request.env | {name: env[name] for name in TRAVEL if env.get(name)}


def mounts(found: Description, request: Request, runs: Path, env: Mapping[str, str]) -> list[str]:
    """Folders that the procedure reads or writes, none inside another one of them."""
    given = [environment.home(env.get(one.variable) or one.default, env) for one in found.data]
    given += [Path(value) for value in (*request.env.values(), request.baseline, request.description) if value.startswith("/")]
    paths = [PROJECT, *map(Path, request.checkouts.values()), environment.hf_home(env)]
    paths += [environment.model_folder(found, {**env, **found.env, **request.env}), *given]
    there = {str(runs.resolve()), *(str(path if path.is_dir() else path.parent) for path in paths if path.exists())}
    return [path for path in sorted(there) if not any(path != other and Path(path).is_relative_to(other) for other in there)]


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
    """The exact command of --via. Raises BadInput for a way that there is not."""
    found, templates = description.load(args.description), load()
    if args.via not in templates.ways:
        ways = [*templates.ways, RAY]
        raise BadInput(f"--via {args.via}: not one of {', '.join(ways)}{did_you_mean(args.via, ways)}")
    given = variables(found, request, env)
    lists = {
        "options": list(args.launcher_option),
        "mounts": [f"{path}:{path}" for path in mounts(found, request, runs, env)],
        "environment": [f"{name}={value}" for name, value in given.items()],
        "arguments": arguments(args, request, runs.resolve()),
        "gpus": templates.gpus if found.devices == "gpu" else [],
    }
    texts = {
        "image": args.image,
        "workdir": request.checkouts[found.wrapper.checkout],
        "script": str(SCRIPT),
        "runs": str(runs.resolve()),
    }
    lists["container"] = fill(templates.pyxis, lists, texts) if args.image else []
    if args.via == BATCH:
        texts["slurm"] = shlex.join(fill(templates.ways["slurm"], lists | {"options": []}, texts))
    return fill(templates.ways[args.via], lists, texts)


def jobspec(args: Namespace, request: Request, runs: Path, env: Mapping[str, str]) -> str:
    """A JobSpec (JSON) whose job runs this procedure on a worker of the cluster."""
    found = description.load(args.description)
    variables_ = {name: value for name, value in variables(found, request, env).items() if name not in ("HOME", "RAY_ADDRESS")}
    return json.dumps(
        {"workload": "e2e", "env_vars": variables_ | {"E2E_ARGUMENTS": json.dumps(arguments(args, request, runs.resolve()))}}
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
    env = {**os.environ, **variables(description.load(args.description), request, os.environ)}
    try:
        return _batch(command, env, runs, say) if args.via == BATCH else subprocess.run(command, env=env).returncode
    except OSError as error:
        raise Blocked(
            f"cannot run {command[0]}: {error.strerror}", hint=f"--via {args.via} needs {command[0]} on this machine"
        ) from None


def _batch(command: Sequence[str], env: Mapping[str, str], runs: Path, say: Callable[[str], None]) -> int:
    """A batch job to its end: where its log is at once, its summary at the end. Its exit code is the procedure's."""
    with subprocess.Popen(command, env=dict(env), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        job = next((word for line in process.stdout for word in line.split() if word.isdigit()), "")
        log = runs.resolve() / f"slurm-{job}.out"
        if job:
            say(f"batch job {job}: its log is {log}; scancel {job} ends it")
    text = log.read_text(errors="replace") if log.exists() else ""
    if summary := re.search(r"^(?:Result: |\{$)", text, re.M):
        print(text[summary.start() :].rstrip())
    return process.returncode
