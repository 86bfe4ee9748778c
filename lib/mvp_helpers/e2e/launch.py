"""The same procedure somewhere else: the command, or the JobSpec, with which the script starts it, setup and run in one step.

How each is started is data (``templates/launchers.yaml``); folders are mounted at their own paths, which mean the same then.
"""

from __future__ import annotations

import json
import re
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT
from . import description, environment
from .description import Description
from .request import Request

RAY = "ray"
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
    found = ["--description", request.description, "--runs-dir", str(runs)]
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
    paths += [environment.home(found.reward_model.default, env)] if found.reward_model else []
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
    found, templates = description.load(request.description), load()
    if args.via not in templates.ways:
        ways = [*templates.ways, RAY]
        raise BadInput(f"--via {args.via}: not one of {', '.join(ways)}{did_you_mean(args.via, ways)}")
    lists = {
        "options": list(args.launcher_option),
        "mounts": [f"{path}:{path}" for path in mounts(found, request, runs, env)],
        "environment": [f"{name}={value}" for name, value in variables(found, request, env).items()],
        "arguments": arguments(args, request, runs.resolve()),
        "gpus": templates.gpus if found.devices == "gpu" else [],
    }
    texts = {
        "image": request.image,
        "workdir": request.checkouts[found.wrapper.checkout],
        "script": str(SCRIPT),
        "runs": str(runs.resolve()),
    }
    lists["container"] = fill(templates.pyxis, lists, texts) if request.image else []
    way = templates.ways[args.via]
    for name, inner in templates.ways.items():
        if any(f"{{{name}}}" in word for word in way):
            texts[name] = shlex.join(fill(inner, lists | {"options": []}, texts))
    return fill(way, lists, texts)


def jobspec(args: Namespace, request: Request, runs: Path, env: Mapping[str, str]) -> str:
    """A JobSpec (JSON) whose job runs this procedure on a worker of the cluster."""
    found = description.load(request.description)
    variables_ = {name: value for name, value in variables(found, request, env).items() if name not in ("HOME", "RAY_ADDRESS")}
    return json.dumps(
        {"workload": "e2e", "env_vars": variables_ | {"E2E_ARGUMENTS": json.dumps(arguments(args, request, runs.resolve()))}}
    )


def words(args: Namespace, request: Request, runs: Path, env: Mapping[str, str]) -> str:
    """For the script that starts it: a Ray job's JobSpec, else the command's words, each ended by a NUL; with --plan to read."""
    if args.via == RAY:
        return jobspec(args, request, runs, env) + "\n"
    command = argv(args, request, runs, env)
    return shlex.join(command) + "\n" if args.plan else "".join(f"{word}\0" for word in command)
