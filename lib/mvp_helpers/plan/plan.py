"""The plan: everything a submission will do, computed without side effects."""

from __future__ import annotations

import datetime as dt
import re
import secrets
import shlex
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..base.errors import BadInput
from ..base.paths import JobFolder, SharedRoot
from ..base.project import PROJECT
from ..cluster.cluster_file import GPU_SELECTORS, Cluster
from ..record import job_folder
from . import checkpoints, deadline, inputs, overrides, snapshot, workloads
from . import reward as reward_function
from .checkpoints import Resume
from .jobspec import JobSpec, override_texts
from .reward import RewardFunction
from .workloads import Workload

SECRETS_FILE = "MVP_SECRETS_FILE"
"""Tells a job's processes where the values of its secrets lie."""
SETUP_HOOK = "mvp_helpers.job.job_secrets.setup_worker"

Via = Literal["cli", "sdk"]
VIAS: tuple[Via, ...] = ("cli", "sdk")

JOB_FOLDER = "MVP_JOB_FOLDER"
"""In the environment of every process of a job, wherever Ray starts it: what tells its processes from those of others."""
LAST_WORD_S = 20
"""How long the job runner outlives a trainer that was killed because its time to stop was over: for the last bundle and word."""

PLACEHOLDERS = (
    "model",
    "dataset",
    "job_folder",
    "checkpoints",
    "metrics",
    "nnodes",
    "processes_per_worker",
    "worker_resource",
    "device",
    "reward_path",
    "reward_file",
    "reward_name",
    "resume_path",
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``config/resolved.yaml``: what the job is, where everything lies, and the trainer's exact argv."""

    submission_id: str
    workload: str
    source: str
    cluster: str
    device: str
    host_driver: str
    shared_root: str
    job_folder: str
    code_path: str | None
    code_id: str | None
    model: str | None
    dataset: str | None
    data_files: dict[str, str]
    reward: RewardFunction | None = None
    address: str
    entrypoint_resources: dict[str, int | float]
    entrypoint_num_cpus: int | float
    entrypoint: list[str]
    nnodes: int
    processes_per_node: int
    cpus_per_process: int = 1
    save_freq: int | None
    train_batch_size: int | None
    total_epochs: int | None
    total_training_steps: int | None
    argv: list[str]
    imports: list[str]
    env_vars: dict[str, str]
    secrets: list[str] = []
    """Names only; see ``job_secrets``."""
    resume: Resume | None = None
    """The checkpoint that training goes on from; without it nothing is ever resumed."""
    stop_wait_s: int
    save_by: float | None = None
    """Unix time before which the trainer must have saved and ended."""

    @property
    def world_size(self) -> int:
        return self.nnodes * self.processes_per_node

    @property
    def first_step(self) -> int:
        return self.resume.step + 1 if self.resume else 1

    @property
    def overrides(self) -> list[str]:
        """The trainer's Hydra overrides: what follows ``python3 -m <module>``."""
        return self.argv[3:] if self.argv[1:2] == ["-m"] else []

    @property
    def folder(self) -> JobFolder:
        return JobFolder(Path(self.job_folder))

    def runtime_env(self) -> dict[str, Any]:
        return {"env_vars": self.env_vars} | ({"worker_process_setup_hook": SETUP_HOOK} if self.secrets else {})

    def submit_argv(self, via: Via = "cli") -> list[str]:
        """The exact command that hands the job to Ray: ``ray job submit``, or the same through Ray's Python SDK."""
        encode = msgspec.json.encode
        command = ("ray", "job", "submit") if via == "cli" else (self.entrypoint[0], "-m", "mvp_helpers.job.sdk_submit")
        return [
            *(*command, "--address", self.address, "--submission-id", self.submission_id),
            *("--entrypoint-resources", encode(self.entrypoint_resources).decode()),
            *("--entrypoint-num-cpus", f"{self.entrypoint_num_cpus:g}"),
            *("--runtime-env-json", encode(self.runtime_env()).decode()),
            *("--no-wait", "--", *self.entrypoint),
        ]


def new_id(workload: str) -> str:
    """``ppo-20260131-235959-1a2b``: sorts by time, and two made in one second differ."""
    stamp = dt.datetime.now(dt.timezone.utc).strftime("%Y%m%d-%H%M%S")
    return f"{workload}-{stamp}-{secrets.token_hex(2)}"


def make(spec: JobSpec, cluster: Cluster, source: str, *, remember: bool = True) -> Plan:
    """Plan one submission of ``spec`` on ``cluster``; reads the shared root and the code snapshot's config, writes nothing
    but (with ``remember``) the memory of accepted overrides.

    Raises:
        BadInput: anything wrong with the spec: unknown workload, missing or truncated inputs, a snapshot without marker, an
            override the snapshot's config does not accept, batch sizes that do not divide, nothing to resume.
    """
    workload = workloads.load(spec.workload)
    if spec.shared_root and Path(spec.shared_root) != Path(cluster.shared_root):
        raise BadInput(
            f"{source}: shared_root is '{spec.shared_root}' but cluster '{cluster.name}' has '{cluster.shared_root}'",
            hint="leave shared_root out, or choose the cluster with --cluster",
        )
    if cluster.device not in workload.devices and workload.devices:
        raise BadInput(f"workload '{workload.name}' has no settings for device '{cluster.device}' of cluster '{cluster.name}'")
    shared = SharedRoot(Path(cluster.shared_root))
    folder = shared.job(spec.submission_id or new_id(workload.name))
    own = override_texts(spec.trainer_overrides, source)
    _refuse_forced(own, workload, source)

    code = _resolve_code(spec, workload, shared, source)
    model, dataset, data_files = _resolve_data(spec, workload, shared, source)
    reward = reward_function.find(spec.reward_fn_path, shared, source) if spec.reward_fn_path else None
    resume = _resume(spec, workload, shared, model, source) if spec.resume_from else None
    values = {
        "model": str(model or ""),
        "dataset": str(dataset or ""),
        "job_folder": str(folder.path),
        "checkpoints": str(folder.checkpoints),
        "metrics": str(folder.metrics),
        "nnodes": str(len(cluster.workers)),
        "processes_per_worker": str(cluster.worker.trainer_processes),
        "worker_resource": cluster.worker_resource,
        "device": cluster.device,
        "reward_path": reward.path if reward else "",
        "reward_file": reward.file if reward else "",
        "reward_name": reward.name if reward else "",
        "resume_path": resume.path if resume else "",
    }
    device = workload.devices.get(cluster.device, workloads.DeviceSettings())
    defaults = [f"{key}={value}" for key, value in workload.defaults.items()]

    def merged(values: dict[str, str], wiring: list[str]) -> list[str]:
        toolkit = [*workload.overrides, *device.overrides, *cluster.trainer_overrides, *defaults, *wiring]
        forced = [*workload.forced, *(workload.resume if resume else [])]
        return overrides.merge([_render(text, values) for text in toolkit], own, [_render(text, values) for text in forced])

    # The job's own folder is left out of the question, or no set of overrides would ever be asked twice.
    anywhere = values | dict.fromkeys(("job_folder", "checkpoints", "metrics", "resume_path"), "JOB_FOLDER")

    def composed(wiring: list[str]) -> dict[str, Any]:
        if not workload.hydra or not code:
            return {}
        config_dir, texts = code.path / workload.hydra.config_dir, merged(anywhere, wiring)
        return overrides.compose(config_dir, workload.hydra.config_name, texts, code.content, shared.override_cache, remember)

    config, wiring = composed([]), []
    if reward:
        wiring = _wiring(workload, config, own, source)
        config = composed(wiring)
        reward = _called(reward, wiring, config)
        reward_function.check_source(reward, source)
    nnodes = int(_config_value(config, "trainer.nnodes") or (1 if not workload.hydra else values["nnodes"]))
    processes = int(
        _config_value(config, "trainer.n_gpus_per_node") or (1 if not workload.hydra else values["processes_per_worker"])
    )
    _check_batches(workload, config, nnodes * processes)
    final = merged(values, wiring)
    python_path = [*([str(code.path)] if code else []), str(PROJECT / "lib"), *([str(shared.user_code)] if reward else [])]
    made = Plan(
        submission_id=folder.submission_id,
        workload=workload.name,
        source=source,
        cluster=cluster.name,
        device=cluster.device,
        host_driver=cluster.host_driver,
        shared_root=str(shared.root),
        job_folder=str(folder.path),
        code_path=str(code.path) if code else None,
        code_id=code.code_id if code else None,
        model=str(model) if model else None,
        dataset=str(dataset) if dataset else None,
        data_files=data_files,
        reward=reward,
        address=spec.ray.address or cluster.dashboard,
        entrypoint_resources=spec.resources.entrypoint_resources or cluster.entrypoint.resources,
        entrypoint_num_cpus=_first(spec.resources.entrypoint_num_cpus, cluster.entrypoint.num_cpus),
        entrypoint=[cluster.python, "-m", "mvp_helpers", "run-job", str(folder.path)],
        nnodes=nnodes,
        processes_per_node=processes,
        cpus_per_process=device.cpus_per_process,
        save_freq=_config_value(config, "trainer.save_freq"),
        train_batch_size=_config_value(config, "data.train_batch_size"),
        total_epochs=_config_value(config, "trainer.total_epochs"),
        total_training_steps=_config_value(config, "trainer.total_training_steps"),
        argv=_trainer_argv(workload, final, cluster, values),
        imports=workload.imports,
        env_vars=_environment(spec, cluster, workload, device, values, python_path, source)
        # Ray's timeline would keep what tasks raise, in full.
        | ({SECRETS_FILE: str(folder.secrets), "RAY_enable_timeline": "0"} if spec.secrets else {}),
        secrets=spec.secrets,
        resume=resume,
        stop_wait_s=spec.stop_wait_s or cluster.stop_wait_s,
        save_by=deadline.save_by(spec.save_by, source),
    )
    if resume:
        _check_resume(made, resume, source)
    return made


def steps_total(plan: Plan) -> int | None:
    """Optimiser steps from the very first: the trainer's own limit, or whole batches of the training file times epochs."""
    if plan.total_training_steps:
        return plan.total_training_steps
    if not (plan.train_batch_size and plan.total_epochs and "train" in plan.data_files):
        return None
    from pyarrow import parquet

    rows = parquet.read_metadata(plan.data_files["train"]).num_rows
    return int(rows // plan.train_batch_size * plan.total_epochs)


def _resume(spec: JobSpec, workload: Workload, shared: SharedRoot, model: Path | None, source: str) -> Resume:
    """The checkpoint that ``resume_from`` means. Raises BadInput when that job cannot be gone on with."""
    folder = shared.job(str(spec.resume_from))
    what = f"{source}: resume_from: job '{folder.submission_id}'"
    if not workload.checkpoint:
        raise BadInput(f"{source}: resume_from: workload '{workload.name}' does not say how to resume")
    result, before = job_folder.read(folder), read(folder)
    if not result.ended:
        raise BadInput(
            f"{what} has not ended ({result.state})",
            hint=f"./scripts/52_stop.sh {folder.submission_id}; when its cluster is gone, ./scripts/50_status.sh",
        )
    if before.workload != workload.name:
        raise BadInput(f"{what} is of workload '{before.workload}', not '{workload.name}'", hint="its exported weights as model")
    if before.model != (str(model) if model else None):
        raise BadInput(f"{what} trains {before.model}, not {model}", hint="its own model, or leave resume_from out")
    found = checkpoints.last_whole(folder, workload.checkpoint)
    if found.path.count("global_step_") != 1:
        raise BadInput(f"{what}: verl would misread the step in {found.path}", hint="no 'global_step_' in ids and folders")
    return found


def _check_resume(plan: Plan, resume: Resume, source: str) -> None:
    what = f"{source}: resume_from: step {resume.step} of job '{resume.submission_id}'"
    if resume.world_size != plan.world_size:
        raise BadInput(
            f"{what} was written by {resume.world_size} trainer processes; this job would have {plan.world_size} "
            f"({plan.nnodes} nodes with {plan.processes_per_node})",
            hint="trainer.nnodes and trainer.n_gpus_per_node as in that job",
        )
    total = steps_total(plan)
    if total is not None and total <= resume.step:
        raise BadInput(
            f"{what} is all there is to do: this job would train up to step {total}",
            hint="more trainer.total_epochs or trainer.total_training_steps: both count from the very first step",
        )


def _first(value: int | float | None, default: int | float) -> int | float:
    return default if value is None else value


def _trainer_argv(workload: Workload, final: list[str], cluster: Cluster, values: dict[str, str]) -> list[str]:
    if workload.entry.module:
        return [cluster.python, "-m", workload.entry.module, *final]
    return [_render(text, values) for text in workload.entry.command] + final


def _refuse_forced(own: list[str], workload: Workload, source: str) -> None:
    forced = {overrides.key_of(text) for text in [*workload.forced, *workload.resume]}
    for text in own:
        if (key := overrides.key_of(text)) in forced:
            raise BadInput(f"{source}: trainer_overrides: '{key}' keeps the job in its own folder and cannot be changed")


def _resolve_code(spec: JobSpec, workload: Workload, shared: SharedRoot, source: str) -> snapshot.Snapshot | None:
    if not spec.code_path:
        if not workload.needs_code:
            return None
        raise BadInput(f"{source}: workload '{workload.name}' needs code_path", hint="code_path: common/code/verl/current")
    return snapshot.check(inputs.resolve(spec.code_path, "code_path", shared.root, source))


def _resolve_data(
    spec: JobSpec, workload: Workload, shared: SharedRoot, source: str
) -> tuple[Path | None, Path | None, dict[str, str]]:
    texts = " ".join([*workload.overrides, *workload.entry.command])
    for field in ("model", "dataset"):
        if f"{{{field}}}" in texts and not getattr(spec, field):
            raise BadInput(f"{source}: workload '{workload.name}' needs {field}", hint=inputs.MISSING_HINTS[field])
    model = inputs.resolve(spec.model, "model", shared.root, source) if spec.model else None
    dataset = inputs.resolve(spec.dataset, "dataset", shared.root, source) if spec.dataset else None
    if model:
        inputs.check_model(model, source)
    files = {split: str(dataset / name) for split, name in workload.data.items()} if dataset else {}
    for path in files.values():
        inputs.check_parquet(Path(path), "dataset", source)
    return model, dataset, files


def _render(text: str, values: dict[str, str]) -> str:
    return re.sub(rf"\{{({'|'.join(PLACEHOLDERS)})\}}", lambda match: values[match[1]], text)


def _config_value(config: dict[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _wiring(workload: Workload, config: dict[str, Any], own: list[str], source: str) -> list[str]:
    """The overrides that tell this version of verl of the reward function. Raises BadInput when there are none, or ``own`` do."""
    for texts in workload.reward:
        keys = [overrides.key_of(text) for text in texts]
        if all(last in (_config_value(config, parent) or {}) for parent, _, last in (key.rpartition(".") for key in keys)):
            if twice := {overrides.key_of(text) for text in own}.intersection(keys):
                raise BadInput(f"{source}: trainer_overrides: '{min(twice)}' is what reward_fn_path sets", hint="leave one out")
            return texts
    why = "takes no reward function" if not workload.reward else "finds no option for it in the config of this code snapshot"
    raise BadInput(f"{source}: reward_fn_path: workload '{workload.name}' {why}", hint="leave reward_fn_path out")


def _called(reward: RewardFunction, wiring: list[str], config: dict[str, Any]) -> RewardFunction:
    """``reward`` with what the config tells of its calls: further arguments, and who makes them (the older option wins)."""
    option = overrides.key_of(wiring[0]).rpartition(".")[0]
    manager = _config_value(config, "reward_model.reward_manager") or _config_value(config, "reward.reward_manager.name")
    own_call = manager not in (None, *reward_function.ONE_BY_ONE) or _config_value(config, "reward.reward_model.enable")
    return msgspec.structs.replace(reward, kwargs=_config_value(config, f"{option}.reward_kwargs") or {}, one_by_one=not own_call)


def _check_batches(workload: Workload, config: dict[str, Any], world_size: int) -> None:
    for rule in workload.batch_rules:
        names = [*rule.product, *rule.divisible_by, *rule.at_least]
        numbers = {name: world_size if name == "world_size" else _config_value(config, name) for name in names}
        lifted = (rule.unless and _config_value(config, rule.unless)) or any(
            _config_value(config, key) != value for key, value in rule.only_if.items()
        )
        if lifted or not all(isinstance(number, int) for number in numbers.values()):
            continue

        def times(keys: list[str], numbers: dict[str, Any] = numbers) -> int:
            result = 1
            for key in keys:
                result *= numbers[key]
            return result

        shown = ", ".join(f"{name}={number}" for name, number in numbers.items())
        product = " * ".join(rule.product)
        if rule.divisible_by and times(rule.product) % times(rule.divisible_by):
            raise BadInput(
                f"{product} must be divisible by {' * '.join(rule.divisible_by)} ({shown})", hint="change trainer_overrides"
            )
        if rule.at_least and times(rule.product) < times(rule.at_least):
            raise BadInput(f"{product} must be at least {' * '.join(rule.at_least)} ({shown})", hint="change trainer_overrides")


def _environment(
    spec: JobSpec,
    cluster: Cluster,
    workload: Workload,
    device: workloads.DeviceSettings,
    values: dict[str, str],
    python_path: list[str],
    source: str,
) -> dict[str, str]:
    """``runtime_env.env_vars``: later layers win; PYTHONPATH begins with ``python_path`` and has no empty entry."""
    layers = {**workload.env_vars, **device.env_vars, **cluster.env_vars}
    merged = {key: _render(value, values) for key, value in layers.items()} | spec.env_vars
    if cluster.device == "cuda" and (chosen := [name for name in GPU_SELECTORS if name in merged]):
        raise BadInput(
            f"{source}: env_vars.{chosen[0]} (the JobSpec's, the cluster file's or the workload's): Ray gives every process of a "
            "job its GPUs, and would count them wrongly",
            hint="leave it out; which GPUs a worker has is set where its Ray node is started",
        )
    extra = [part for part in merged.pop("PYTHONPATH", "").split(":") if part and "$" not in part]
    for part in extra:
        if not part.startswith("/"):
            raise BadInput(f"{source}: env_vars.PYTHONPATH: '{part}' is not an absolute path")
    return {
        "PYTHONPATH": ":".join([*python_path, *extra]),
        # Without it the working directory (or a driver script's folder) stands before PYTHONPATH and can shadow the snapshot.
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        **merged,
        # Ray signals every process below its own: SIGINT, which the trainer does not get to see, so that the job runner's SIGTERM
        # is the only one. Of two the second often means "now, without a checkpoint".
        "RAY_JOB_STOP_SIGNAL": "SIGINT",
        "RAY_JOB_STOP_WAIT_TIME_S": str((spec.stop_wait_s or cluster.stop_wait_s) + LAST_WORD_S),
        JOB_FOLDER: values["job_folder"],
    }


def read(folder: JobFolder) -> Plan:
    """The plan a job folder was made with. Raises BadInput when it is missing or damaged."""
    import yaml

    try:
        return msgspec.convert(yaml.load(folder.resolved.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)), Plan)
    except (OSError, yaml.YAMLError, msgspec.MsgspecError) as error:
        raise BadInput(f"cannot read {folder.resolved}: {error}") from None


def to_yaml(plan: Plan) -> str:
    import yaml

    return str(yaml.dump(msgspec.to_builtins(plan), sort_keys=False, allow_unicode=True, width=1000))


def describe(plan: Plan, via: Via = "cli") -> str:
    """The whole plan for a person, as YAML: ids, folders, runtime_env, and the final command line."""
    import yaml

    extra = {"runtime_env": plan.runtime_env(), "submit_cmd": shlex.join(plan.submit_argv(via))}
    return to_yaml(plan) + str(yaml.dump(extra, sort_keys=False, allow_unicode=True, width=100_000))
