"""The check of a job's plan: against the JobSpec, the workload, the command line, and what the trainer recorded of itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..base import documents, files
from ..base.errors import BadInput
from ..plan import jobspec, workloads
from ..plan.jobspec import JobSpec
from ..trainers import hydra, verl_config
from .evidence import Fail, Job, need

NUMBERS = {
    "nnodes": verl_config.NNODES,
    "processes_per_node": verl_config.PROCESSES_PER_NODE,
    "save_freq": verl_config.SAVE_FREQ,
    "train_batch_size": verl_config.TRAIN_BATCH_SIZE,
    "total_epochs": verl_config.TOTAL_EPOCHS,
    "total_training_steps": verl_config.TOTAL_TRAINING_STEPS,
}
"""Fields of the plan, and the override that each of them comes from."""


def as_planned(job: Job, _: Sequence[Job]) -> str:
    """The plan is what the JobSpec asks for, what the command line says, and what Hydra recorded in the trainer's process."""
    _check_workload(job)
    _check_spec(job, _spec(job))
    _check_numbers(job)
    recorded, planned = job.read_json(job.folder.runtime_env), job.plan.runtime_env()
    need(recorded == planned, f"config/runtime_env.json is not that of resolved.yaml: {_first_difference(recorded, planned)}")
    hydra_says = _check_hydra(job)
    job.cite(job.folder.resolved, "argv:")
    return f"resolved.yaml agrees with the JobSpec, its own command line, runtime_env.json and {hydra_says}"


def _check_workload(job: Job) -> None:
    """Compare imports and entry module with the workload's own file; a plan cannot claim that the job does not train."""
    plan = job.plan
    try:
        workload = workloads.load(plan.workload)
    except BadInput:  # a workload of the user's own, whose file this host does not have
        records = list(job.folder.imports.glob("*.json"))
        need(bool(plan.imports) or not records, f"resolved.yaml: imports is empty, but imports/ has {len(records)} records")
        return
    need(
        plan.imports == workload.imports,
        f"resolved.yaml: imports {plan.imports}, but '{plan.workload}' imports {workload.imports}",
    )
    if module := workload.entry.module:
        need(plan.argv[1:3] == ["-m", module], f"resolved.yaml: argv starts {' '.join(plan.argv[:3])}, not the module {module}")


def _spec(job: Job) -> JobSpec:
    paths = [path for suffix in (".json", ".yaml") if (path := job.folder.job_spec(suffix)).is_file()]
    need(len(paths) == 1, f"config/: {len(paths)} files job_spec.json or job_spec.yaml, expected one")
    job.cite(paths[0], "workload")
    try:
        return jobspec.load(files.read(paths[0], documents.MOST_BYTES), job.name_of(paths[0]))
    except BadInput as error:
        raise Fail(error.what) from None


def _check_spec(job: Job, spec: JobSpec) -> None:
    plan = job.plan
    asked = {"workload": spec.workload, "secrets": spec.secrets, "stall": spec.stall, "retry": spec.retry}
    asked |= {"submission_id": spec.submission_id} if spec.submission_id else {}
    asked |= {"stop_wait_s": spec.stop_wait_s} if spec.stop_wait_s else {}
    for name, value in asked.items():
        need(getattr(plan, name) == value, f"resolved.yaml: {name} {getattr(plan, name)}, but the JobSpec asks for {value}")
    resumed = plan.resume.submission_id if plan.resume else None
    need(resumed == spec.resume_from, f"resolved.yaml: it resumes {resumed}, but the JobSpec names {spec.resume_from}")
    need(
        bool(plan.reward) == bool(spec.reward_fn_path), "resolved.yaml: reward is not what the JobSpec's reward_fn_path asks for"
    )
    for name, text in spec.env_vars.items():
        value = plan.env_vars.get(name)
        need(name == "PYTHONPATH" or value == text, f"resolved.yaml: env_vars {name}={value}, but the JobSpec sets {text}")
    planned = {text.lstrip("+") for text in plan.argv}
    own = {hydra.key_of(text): text for text in hydra.texts(spec.trainer_overrides, "the JobSpec")}
    if (text := own.pop(verl_config.LOGGER, "")) and "${" not in text:
        found = f"{verl_config.LOGGER}={job.given.get(verl_config.LOGGER)}"
        missing = _words(text) - _words(found)  # the plan may add one
        need(not missing, f"resolved.yaml: argv has {found}, without {', '.join(sorted(missing))} of the JobSpec")
    for text in own.values():
        need(text.lstrip("+") in planned, f"resolved.yaml: argv lacks {text}, which the JobSpec asks for")


def _words(override: str) -> set[str]:
    return set(re.findall(r"\w+", override.partition("=")[2]))


def _check_numbers(job: Job) -> None:
    """The sizes and the schedule that other checks rely on are those of the command line."""
    for field, key in NUMBERS.items():
        planned, text = getattr(job.plan, field), job.given.get(key)
        if text is None:
            continue
        asked = int(text) if re.fullmatch(r"-?\d+", text) else None
        need(
            planned == asked or (asked is None and field in ("nnodes", "processes_per_node")),
            f"resolved.yaml: {field} {planned}, but argv has {key}={text}",
        )
    need(job.plan.world_size > 0, f"resolved.yaml: {job.plan.nnodes} nodes with {job.plan.processes_per_node} processes each")


def _check_hydra(job: Job) -> str:
    """Compare the plan's overrides with those that Hydra wrote in the trainer's process; return what was compared."""
    record = hydra.overrides_record(job.folder.logs / "hydra")
    if not record.is_file():
        return "no record of Hydra's, which this trainer did not leave"
    try:
        recorded = hydra.recorded(record)
    except BadInput as error:
        raise Fail(error.what) from None
    job.cite(record, "- ")
    planned = [text for text in job.plan.overrides if not hydra.is_for_hydra(text)]
    if recorded != planned:
        differing = [*(text for text in planned if text not in recorded), *(text for text in recorded if text not in planned)]
        raise Fail(
            f"resolved.yaml: argv is not what {job.name_of(record)} records: {', '.join(differing[:3]) or 'another order'}"
        )
    return f"Hydra's own record ({len(recorded)} overrides)"


def _first_difference(recorded: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(recorded, dict):
        return "not a mapping"
    ours, theirs = (dict(each.get("env_vars") or {}) for each in (recorded, wanted))
    names = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    return f"env_vars {', '.join(names[:3])}" if names else f"keys {sorted(recorded)}, not {sorted(wanted)}"
