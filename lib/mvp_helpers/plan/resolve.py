"""Find everything that a JobSpec names on the shared root, whole and readable: code, model, data, reward function, checkpoint."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..base.errors import BadInput, Blocked
from ..base.paths import JobFolder, SharedRoot
from ..base.times import stamped
from ..cluster import shape
from ..cluster.cluster_file import Cluster
from ..cluster.shape import Shape
from ..prepare import snapshot
from ..prepare.snapshot import Snapshot
from ..record import chain as chains
from ..record import job_folder, metrics, stall
from ..record.stall import StallLimits
from ..tracking import trackers
from ..tracking.trackers import Tracked
from ..trainers import verl_checkpoints, verl_config
from ..trainers.checkpoint import Resume
from . import inputs, limits, plan, reward, workloads
from .inputs import Missing
from .jobspec import JobSpec
from .reward import RewardFunction
from .workloads import DeviceSettings, Workload

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a job works with. None where the JobSpec names nothing; ``placeholders`` are the values for ``workloads.render``."""

    workload: Workload
    device: DeviceSettings
    shape: Shape
    shared: SharedRoot
    folder: JobFolder
    """The job's own, which does not exist yet."""
    code: Snapshot | None
    model: Path | None
    dataset: Path | None
    data_files: dict[str, str]
    """Path of each file of the dataset, by split."""
    reward: RewardFunction | None
    resume: Resume | None
    tracked: Tracked | None
    """The tracker, and the run that goes on in it."""
    placeholders: dict[str, str]


def resolve(spec: JobSpec, cluster: Cluster, source: str, missing: list[Missing] | None = None) -> Inputs:
    """Find the inputs of ``spec``. Reads a few bytes of each file, writes nothing.

    With a list, inputs that do not exist are added to it instead of raised; their paths are those that they would have. A code
    snapshot that does not exist has no ``content``. Without a shared root on this machine, its files are not looked for.

    Raises:
        Blocked: no worker has a GPU for a training on GPUs, or (without a list) nobody has counted them.
        BadInput: an unknown workload, one without settings for this device, another shared root, a missing or truncated input, a
            folder that is not a code snapshot, or a job that cannot be resumed.
    """
    workload = workloads.load(spec.workload)
    _check_shared_root(spec, cluster, source)
    _check_address(spec.ray.address, cluster, source)
    limits.check_resources(spec.resources.entrypoint_resources or {}, cluster, source)
    device = _device(workload, cluster)
    shared = SharedRoot(Path(cluster.shared_root))
    folder = shared.job(spec.submission_id or stamped(workload.name))
    chosen = _shape(workload, cluster, assume=missing is not None)
    code = _code(spec, workload, shared, source, missing)
    model, dataset = _folders(spec, workload, shared, source, missing)
    data_files = _data_files(workload, dataset, source, missing)
    function, resume = None, None
    if missing is None or shared.root.is_dir():
        function = reward.find(spec.reward_fn_path, shared, source) if spec.reward_fn_path else None
        resume = _resume(spec.resume_from, workload, shared, model, spec.stall, source) if spec.resume_from else None
    else:
        missing += [
            Missing(f"{source}: {field} is not in this plan: {shared.root} does not exist on this machine", shared.root)
            for field in ("reward_fn_path", "resume_from")
            if getattr(spec, field)
        ]
    return Inputs(
        workload=workload,
        device=device,
        shape=chosen,
        shared=shared,
        folder=folder,
        code=code,
        model=model,
        dataset=dataset,
        data_files=data_files,
        reward=function,
        resume=resume,
        tracked=_tracked(spec, cluster, workload, folder, resume, source) if spec.tracking else None,
        placeholders={
            **_placeholders(cluster, chosen, folder, model, dataset, function, resume),
            "rollouts": str(folder.rollouts) if spec.keep_rollouts else "null",
        },
    )


def _check_shared_root(spec: JobSpec, cluster: Cluster, source: str) -> None:
    if spec.shared_root and Path(spec.shared_root) != Path(cluster.shared_root):
        raise BadInput(
            f"{source}: shared_root is {spec.shared_root!r} but cluster '{cluster.name}' has '{cluster.shared_root}'",
            hint="leave shared_root out, or choose the cluster with --cluster",
        )


def _check_address(given: str | None, cluster: Cluster, source: str) -> None:
    """The dashboard is the cluster's, which the head also sees on 127.0.0.1: any other would be sent the cluster's token."""
    names = {"127.0.0.1", "localhost", cluster.head.name, cluster.head.ip or cluster.head.name}
    own = {f"http://{name}:{cluster.ray.dashboard_port}" for name in names}
    # Before the head runs, its address may not be known: nothing is sent to the one that is given then.
    if given and cluster.head.ip and given.rstrip("/") not in own:
        raise BadInput(
            f"{source}: ray.address {given[:200]!r} is not the dashboard of cluster '{cluster.name}' ({cluster.dashboard})",
            hint="leave ray out, or choose the cluster with --cluster",
        )


def _device(workload: Workload, cluster: Cluster) -> DeviceSettings:
    if workload.devices and cluster.device not in workload.devices:
        raise BadInput(
            f"workload '{workload.name}' has no settings for device '{cluster.device}' of cluster '{cluster.name}'",
            hint=f"a cluster with device {' or '.join(workload.devices)}",
        )
    return workloads.adapted(workload.devices.get(cluster.device, DeviceSettings()), installed)


def installed(package: str) -> bool:
    """Tell whether the hosts have ``package``, as far as can be known here: a machine without torch is none of them."""
    return bool(importlib.util.find_spec(package)) or not importlib.util.find_spec("torch")


def _shape(workload: Workload, cluster: Cluster, assume: bool) -> Shape:
    counts = shape.counts(cluster)
    chosen = shape.choose(cluster, counts)
    uncounted = [name for name, count in counts.items() if count is None and cluster.device == "cuda"]
    if workload.hydra and uncounted and not assume:
        raise Blocked(f"cluster '{cluster.name}': the GPUs of {uncounted[0]} are not counted yet", hint="./scripts/01_up.sh")
    if workload.hydra and not chosen.nnodes:
        hint = "./scripts/00_prereq_check.sh says why; ./scripts/01_up.sh counts them again"
        raise Blocked(f"cluster '{cluster.name}': {chosen.reason}", hint=hint)
    return chosen


def _unless_missing(missing: list[Missing] | None, find: Callable[[], T], otherwise: Callable[[Path], T]) -> T:
    """Return what ``find`` finds; with a list, add to it what does not exist and return ``otherwise`` of its path."""
    try:
        return find()
    except Missing as error:
        if missing is None:
            raise
        missing.append(error)
        return otherwise(error.path)


def _code(spec: JobSpec, workload: Workload, shared: SharedRoot, source: str, missing: list[Missing] | None) -> Snapshot | None:
    if code_path := spec.code_path:
        return _unless_missing(
            missing,
            lambda: snapshot.check(inputs.resolve(code_path, "code_path", shared.root, source)),
            lambda path: Snapshot(code_id="", path=path, created=False, content=""),
        )
    if workload.needs_code:
        raise BadInput(f"{source}: workload '{workload.name}' needs code_path", hint="code_path: common/code/verl/current")
    return None


def _folders(
    spec: JobSpec, workload: Workload, shared: SharedRoot, source: str, missing: list[Missing] | None
) -> tuple[Path | None, Path | None]:
    """Return the model's and the dataset's folder; a workload that uses one of them needs it."""
    texts = " ".join([*workload.overrides, *workload.entry.command])
    for field in ("model", "dataset"):
        if f"{{{field}}}" in texts and not getattr(spec, field):
            raise BadInput(f"{source}: workload '{workload.name}' needs {field}", hint=inputs.MISSING_HINTS[field])

    def find(value: str, field: str) -> Path:
        return _unless_missing(missing, lambda: inputs.resolve(value, field, shared.root, source), lambda path: path)

    model = find(spec.model, "model") if spec.model else None
    dataset = find(spec.dataset, "dataset") if spec.dataset else None
    if model and model.exists():
        inputs.check_model(model, source)
    return model, dataset


def _data_files(workload: Workload, dataset: Path | None, source: str, missing: list[Missing] | None) -> dict[str, str]:
    if not dataset:
        return {}
    paths = {split: dataset / name for split, name in workload.data.items()}
    for path in paths.values() if dataset.exists() else ():
        _unless_missing(missing, functools.partial(inputs.check_parquet, path, "dataset", source), lambda _: None)
    return {split: str(path) for split, path in paths.items()}


def _resume(
    resume_from: str, workload: Workload, shared: SharedRoot, model: Path | None, limits: StallLimits, source: str
) -> Resume:
    """Return the newest whole checkpoint of the job to resume. Raises BadInput when that job cannot be resumed."""
    folder = shared.job(resume_from)
    origin = f"{source}: resume_from: job '{resume_from}'"
    if not workload.checkpoint:
        raise BadInput(f"{source}: resume_from: workload '{workload.name}' does not say how to resume")
    result, earlier = job_folder.read(folder), plan.read(folder)
    if not result.ended:
        raise BadInput(
            f"{origin} has not ended ({result.state})",
            hint=f"./scripts/52_stop.sh {resume_from}; if its cluster no longer runs, ./scripts/50_status.sh",
        )
    if earlier.workload != workload.name:
        raise BadInput(
            f"{origin} has workload '{earlier.workload}', not '{workload.name}'", hint="use its exported weights as model"
        )
    if earlier.model != (str(model) if model else None):
        raise BadInput(f"{origin} trains {earlier.model}, not {model}", hint="name the same model, or leave resume_from out")
    stall.check_step(limits, stall.usual_step_s(folder, metrics.read(folder.metrics)), source, resume_from)
    resume = verl_checkpoints.last_whole(folder, workload.checkpoint)
    if verl_config.misreads_step(resume.path):
        raise BadInput(
            f"{origin}: verl would misread the step in {resume.path}",
            hint=f"use ids and folders without '{verl_config.STEP_FOLDER}'",
        )
    return resume


def _tracked(
    spec: JobSpec, cluster: Cluster, workload: Workload, folder: JobFolder, resume: Resume | None, source: str
) -> Tracked:
    """Return the tracker of the job, with the run of the first attempt. Raises BadInput for one that cannot be used."""
    assert spec.tracking
    if not any("{metrics}" in text for text in workload.env_vars.values()):
        raise BadInput(f"{source}: tracking: workload '{workload.name}' has no loggers", hint="leave tracking out")
    trackers.check(spec.tracking, spec.secrets, cluster.env_vars | spec.env_vars, installed, source)
    run = folder.submission_id
    if resume:
        earlier = plan.read(folder.shared.job(resume.submission_id)).tracking
        run = earlier.run if earlier and earlier.tracker == spec.tracking else run
    else:  # an attempt that begins anew
        first = re.sub(r"\.\d+$", "", run)
        run = first if first != run and chains.find(folder.shared, first) else run
    return Tracked(tracker=spec.tracking, run=run)


def _placeholders(
    cluster: Cluster,
    chosen: Shape,
    folder: JobFolder,
    model: Path | None,
    dataset: Path | None,
    function: RewardFunction | None,
    resume: Resume | None,
) -> dict[str, str]:
    return {
        "model": str(model or ""),
        "dataset": str(dataset or ""),
        "job_folder": str(folder.path),
        "checkpoints": str(folder.checkpoints),
        "metrics": str(folder.metrics),
        "nnodes": str(chosen.nnodes),
        "processes_per_worker": str(chosen.processes),
        "worker_resource": cluster.worker_resource,
        "device": cluster.device,
        "reward_path": function.path if function else "",
        "reward_file": function.file if function else "",
        "reward_name": function.name if function else "",
        "resume_path": resume.path if resume else "",
    }
