"""The same procedure started elsewhere (``--via``): the command that the script runs, with environment, working folder and log.

How each way starts it is data (``templates/launchers.yaml``). Folders are mounted at their own paths: paths mean the same there.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..base import files
from ..base.documents import convert, parse
from ..base.errors import BadInput, Blocked, did_you_mean
from ..base.project import PROJECT
from ..trainers import launch_preview
from . import environment
from .requests import description
from .requests.description import Description
from .requests.request import Request

RAY, RAY_SUB = "ray", "ray.sub"
RUNNING_RAY = 'RAY_ADDRESS=$(<"${RAY_TMPDIR:-/tmp}/ray/ray_current_cluster")'
"""Before a command in a shell: it joins the Ray that ``ray start`` has started on this host."""
GPUS_PER_NODE = 8
"""What ray.sub takes for the number of GPUs of a node where GPUS_PER_NODE is not set."""
TRAVEL = ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HOME", "E2E_FREE_GB", "E2E_GPUS")
"""Variables that are passed on besides those of the checkouts and of the request."""
FILE = PROJECT / "templates" / "launchers.yaml"
SCRIPTS = PROJECT / "scripts"


class Launchers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """templates/launchers.yaml: the argv of each way, the options for GPUs and for a container under Slurm, and log files."""

    gpus: list[str]
    command: list[str]
    """The procedure's own command where another launcher starts it."""
    pyxis: list[str]
    ways: dict[str, list[str]]
    logs: dict[str, str]
    """The log of each way whose command does not itself print the procedure's output."""


def new_name() -> str:
    """Return ``e2e-20260131-235959-1a2b``: two names made in one second differ."""
    return f"e2e-{dt.datetime.now(dt.timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """The run to start, and the way to start it."""

    via: str
    request: Request
    runs: Path
    """The folder of the runs' folders, absolute."""
    resume: str = ""
    """The name of the run that goes on; empty for a new one."""
    options: list[str] = []
    """More options for docker, srun or sbatch."""
    json: bool = False
    name: str = msgspec.field(default_factory=new_name)
    """Names this start: the id of a Ray job, and its files."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What the script runs: ``argv``, and then ``log`` to print the procedure's output, unless ``argv`` prints it itself."""

    argv: list[str]
    log: list[str] = []
    where: str = ""
    """Tells a person where the log is."""

    def to_shell(self) -> str:
        """Return bash assignments: the arrays LAUNCH and LAUNCH_LOG."""
        return f"LAUNCH=({shlex.join(self.argv)})\nLAUNCH_LOG=({shlex.join(self.log)})\n"


def load(file: Path = FILE) -> Launchers:
    """Return the launchers. Raises BadInput for a mistake in the file."""
    try:
        return convert(parse(file.read_bytes(), str(file)), Launchers, str(file))
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None


def launch(start: Elsewhere, env: Mapping[str, str]) -> Launch:
    """Return the commands of a start; the runs' folder is made, and for Ray the JobSpec written into it.

    Raises:
        BadInput: an unknown way, or one that needs an image.
        Blocked: the way's command is not on this machine, or the runs' folder cannot be written.
    """
    if start.via == RAY:
        spec = start.runs / f"{start.name}.json"
        _write(start.runs, spec, jobspec(start, env))
        return Launch(
            argv=[str(SCRIPTS / "43_submit_jobspec.sh"), str(spec), "--wait"],
            log=[str(SCRIPTS / "51_logs.sh"), start.name],
            where=f"its log: ./scripts/51_logs.sh {start.name}",
        )
    command = argv(start, env)
    program = "sbatch" if start.via == RAY_SUB else command[0]
    if not shutil.which(program, path=env.get("PATH")):
        raise Blocked(f"--via {start.via} needs {program}, which is not on this machine", hint="run it where it is installed")
    _write(start.runs)
    if start.via == RAY_SUB:
        logs = str(start.runs / start.name)
        log = [sys.executable, "-m", "mvp_helpers", "e2e-driver-log", logs]
        return Launch(
            argv=command,
            log=log,
            where=f"its logs are below {logs} (JOB-logs/ray-driver.log), the job's own is {_log_file(start)}",
        )
    if not (path := _log_file(start)):
        return Launch(argv=command)
    return Launch(argv=command, log=["cat", path], where=f"its log is {path}")


def show(start: Elsewhere, env: Mapping[str, str]) -> str:
    """Return for --plan what ``launch`` would run: the command, or Ray's JobSpec."""
    return jobspec(start, env) if start.via == RAY else shlex.join(argv(start, env))


def arguments(start: Elsewhere) -> list[str]:
    """Return the arguments of the script that runs the procedure in the foreground; paths are absolute."""
    request = start.request
    words = ["--description", request.description, "--runs-dir", str(start.runs)]
    if start.resume:
        words += ["--resume", start.resume]
    else:
        words += ["--level", ",".join(map(str, request.levels))]
        words += [
            word
            for name in ("baseline", "setup", "script", "recipe")
            if (value := getattr(request, name))
            for word in (f"--{name}", value)
        ]
        words += ["--steps", str(request.steps)] if request.steps else []
        words += [word for value in request.variants for word in ("--variant", value)]
        words += [word for value in request.overrides for word in ("--override", value)]
        words += [word for value in request.tests for word in ("--bridge-tests", value)]
    words += [word for name, log in request.evidence.items() for word in ("--test-evidence", f"{name}={log}")]
    words += ["--image", request.image] if request.image else []
    words += ["--timeout", f"{request.timeout_s:.12g}", "--stall", f"{request.stall_s:.12g}"]
    return [*words, *(["--json"] if start.json else [])]


def variables(start: Elsewhere, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the procedure there: the checkouts, those that the request passes on, and TRAVEL.

    Raises:
        Blocked, BadInput: ray.sub cannot be started like this.
    """
    request, procedure = start.request, description.load(start.request.description)
    paths = {checkout.variable: request.checkouts[name] for name, checkout in procedure.checkouts.items()}
    # An image may carry the address of a Ray cluster that has nothing to do with this run.
    paths["RAY_ADDRESS"] = env.get("RAY_ADDRESS") or "local"
    paths |= {copy.variable: env[copy.variable] for copy in procedure.local_copies if env.get(copy.variable)}
    own = paths | request.env | {name: env[name] for name in TRAVEL if env.get(name)}
    if start.via in (RAY, RAY_SUB):
        # Its workers or containers have another home, and its Ray is the one to join.
        own = {name: value for name, value in own.items() if name not in ("HOME", "RAY_ADDRESS")}
    if start.via == RAY_SUB:
        own.setdefault("E2E_GPUS", str(_check_ray_sub(start, env) * int(_gpus_per_node(env))))
    return own


def mounts(procedure: Description, request: Request, runs: Path, env: Mapping[str, str]) -> list[str]:
    """Return the folders that the procedure reads or writes; none is inside another."""
    given = [environment.home(env.get(data.variable) or data.default, env) for data in procedure.data]
    given += [
        Path(value)
        for value in (*request.env.values(), request.baseline, *request.evidence.values(), request.description)
        if value.startswith("/")
    ]
    paths = [PROJECT, *map(Path, request.checkouts.values()), environment.hf_home(env)]
    model = environment.model_folder(procedure, {**env, **procedure.env, **request.env}, request.overrides)
    paths += [*([model] if model else []), *given]
    paths += [environment.home(procedure.reward_model.default, env)] if procedure.reward_model else []
    folders = {str(runs), *(str(path if path.is_dir() else path.parent) for path in paths if path.exists())}
    return [path for path in sorted(folders) if not any(path != other and Path(path).is_relative_to(other) for other in folders)]


def fill(template: Sequence[str], lists: Mapping[str, list[str]], texts: Mapping[str, str]) -> list[str]:
    """Return the argv of a template. Raises BadInput for an empty text.

    The word ``{name:-x}`` becomes ``-x`` and a value for each value, ``{name}`` alone a word for each; ``{name:,}`` inside a word
    joins them with commas; any other name is a text.
    """
    argv: list[str] = []
    for word in template:
        if (match := re.fullmatch(r"\{(\w+)(?::(-\S+))?\}", word)) and match[1] in lists:
            argv += [part for value in lists[match[1]] for part in ((match[2], value) if match[2] else (value,))]
            continue

        def value(match: re.Match[str]) -> str:
            if match[2]:
                return match[2].join(lists[match[1]])
            if not (text := texts[match[1]]):
                raise BadInput(
                    f"--{match[1]} is needed", hint=f"--{match[1]} REPOSITORY:TAG: the exact tag, which the report then names"
                )
            return text

        argv.append(re.sub(r"\{(\w+)(?::([^}]+))?\}", value, word))
    return argv


def argv(start: Elsewhere, env: Mapping[str, str]) -> list[str]:
    """Return the exact command of ``--via``. Raises BadInput for an unknown way, or one that needs an image."""
    request, templates = start.request, load()
    procedure = description.load(request.description)
    if start.via not in templates.ways:
        ways = [*templates.ways, RAY]
        raise BadInput(f"--via {start.via}: not one of {', '.join(ways)}{did_you_mean(start.via, ways)}")
    own = variables(start, env)
    lists = {
        "options": start.options,
        "mounts": [f"{path}:{path}" for path in mounts(procedure, request, start.runs, env)],
        "environment": [f"{name}={value}" for name, value in own.items()],
        "arguments": arguments(start),
        "gpus": templates.gpus if procedure.devices == "gpu" else [],
    }
    texts = {
        "image": request.image,
        "workdir": request.checkouts[procedure.wrapper.checkout],
        "script": str(PROJECT / procedure.command.split()[0]),
        "log": _log_file(start),
        "runs": str(start.runs),
        "name": start.name,
        "gpus_per_node": _gpus_per_node(env) if start.via == RAY_SUB else "",
    }
    if start.via == RAY_SUB:
        texts["command"] = f"{RUNNING_RAY} {shlex.join(fill(templates.command, lists, texts))}"
    lists["container"] = fill(templates.pyxis, lists, texts) if request.image else []
    way = templates.ways[start.via]
    for name, inner in templates.ways.items():
        if any(f"{{{name}}}" in word for word in way):
            texts[name] = shlex.join(fill(inner, lists | {"options": []}, texts))
    return fill(way, lists, texts)


def _gpus_per_node(env: Mapping[str, str]) -> str:
    value = env.get("GPUS_PER_NODE") or str(GPUS_PER_NODE)
    if not value.isdecimal() or not int(value):
        raise BadInput(f"GPUS_PER_NODE={value} is not a number of GPUs")
    return value


def _check_ray_sub(start: Elsewhere, env: Mapping[str, str]) -> int:
    """Return the number of nodes that ray.sub is asked for.

    Raises:
        Blocked: the checkout has no ray.sub, or one that does not read a variable that it is given.
        BadInput: an option is missing in whose place ray.sub has a placeholder, or contradicts GPUS_PER_NODE.
    """
    checkout = description.load(start.request.description).wrapper.checkout
    script = Path(start.request.checkouts[checkout]) / RAY_SUB
    if not script.is_file():
        raise Blocked(f"this {checkout} checkout has no ray.sub", hint="--via slurm, which uses srun on one node")
    given = [word.partition("=")[0] for word in load().ways[RAY_SUB] if re.match(r"[A-Z_]+=", word)]
    if unread := [name for name in given if name not in launch_preview.variables(script)]:
        raise Blocked(f"{script} does not read {', '.join(unread)}", hint="--via slurm, or another revision of the checkout")
    options = start.options
    if not (_option(options, "--account", "-A") and _option(options, "--partition", "-p")):
        raise BadInput(
            "--via ray.sub needs an account and a partition: ray.sub has placeholders for them, and reads SLURM_JOB_ACCOUNT",
            hint="--launcher-option --account=NAME --launcher-option --partition=NAME",
        )
    gres = re.fullmatch(r"gpu:(?:[^:(]+:)?(\d+)(?:\(.*)?", _option(options, "--gres"))
    if gres and gres[1] != _gpus_per_node(env):
        raise BadInput(
            f"--gres={gres[0]} is not GPUS_PER_NODE={_gpus_per_node(env)}: ray.sub requires all GPUs of a node",
            hint=f"GPUS_PER_NODE={gres[1]}",
        )
    nodes = _option(options, "--nodes", "-N") or "1"
    if not nodes.isdecimal() or not int(nodes):
        raise BadInput(f"--nodes={nodes} is not a number of nodes")
    return int(nodes)


def _option(options: Sequence[str], *names: str) -> str:
    """Return the value of an option in ``--name=value``, ``--name value`` or ``-nvalue``; "" when it is not there."""
    for word, after in zip(options, [*options[1:], ""], strict=True):
        for name in names:
            if word == name:
                return after
            if word.startswith(f"{name}=") or (len(name) == 2 and word.startswith(name)):
                return word[len(name) :].removeprefix("=")
    return ""


def driver_log(folder: Path) -> Path:
    """Return the log of the command that ray.sub ran, of its last start. Raises Blocked when it ran none."""
    logs = [
        (int(match[1]), int(match[2] or 0), path / "ray-driver.log")
        for path in folder.glob("*-logs")
        if (match := re.fullmatch(r"(\d+)(?:-(\d+))?-logs", path.name)) and (path / "ray-driver.log").is_file()
    ]
    if not logs:
        raise Blocked(
            f"ray.sub ended before it ran the procedure: {folder} has no JOB-logs/ray-driver.log",
            hint=f"{folder}/*-logs/ray-head.log, and {folder.parent}/slurm-{folder.name}.out",
        )
    return max(logs)[2]


def jobspec(start: Elsewhere, env: Mapping[str, str]) -> str:
    """Return a JobSpec (JSON) whose job runs this procedure on a worker of the cluster."""
    passed = {**variables(start, env), "E2E_ARGUMENTS": json.dumps(arguments(start))}
    return json.dumps({"workload": "e2e", "submission_id": start.name, "env_vars": passed})


def _write(runs: Path, file: Path | None = None, text: str = "") -> None:
    try:
        runs.mkdir(parents=True, exist_ok=True)
        if file:
            files.write_bytes(file, text.encode() + b"\n", mode=0o600)
    except OSError as error:
        raise Blocked(f"cannot write {file or runs}: {error.strerror}", hint="--runs-dir FOLDER") from error


def _log_file(start: Elsewhere) -> str:
    template = load().logs.get(start.via)
    return fill([template], {}, {"runs": str(start.runs), "name": start.name})[0] if template else ""
