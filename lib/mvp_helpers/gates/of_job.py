"""What gates read of one job: its metrics, series of the job as a whole, what it was taught, and the hardware and versions."""

from __future__ import annotations

import bisect
import contextlib
import statistics
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from ..base import files
from ..base.documents import Damaged, as_number, read_json
from ..base.paths import JobFolder
from ..plan.plan import Plan
from ..record import metrics
from ..record.job_folder import Result
from ..usage import resources
from ..usage.resources import Sample

START_UP, STEP, MEMORY = "job/start_up_s", "job/step_s", "job/memory_gib"
"""Series of a single value: seconds from the job's start to its first step; seconds of a step, saves left out, over all of them;
the most memory of its processes on one host."""
IN_STEPS = ("generation", "training", "weight_sync")
AMOUNT = (
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "data.max_length",
    "actor_rollout_ref.rollout.n",
)
"""Overrides that decide how much a model sees in a step."""
LAST_STEP = (1 << 63) - 1
ON_ONE_MACHINE = ("local", "docker")
"""Host drivers whose hosts share the cores of one machine."""


class Column(Mapping[int, float]):
    """One metric by step, in the order of the steps; sixteen bytes each, so that a very long job fits into memory."""

    def __init__(self) -> None:
        self._steps, self._numbers = array("q"), array("d")

    def add(self, step: int, number: float) -> None:
        """Set the number of a step; steps mostly rise."""
        at = bisect.bisect_left(self._steps, step)
        if step in self._steps[at : at + 1]:
            self._numbers[at] = number
        else:
            self._steps.insert(at, step)
            self._numbers.insert(at, number)

    def __getitem__(self, step: int) -> float:
        at = bisect.bisect_left(self._steps, step)
        if step not in self._steps[at : at + 1]:
            raise KeyError(step)
        return self._numbers[at]

    def __iter__(self) -> Iterator[int]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)


def data(folder: JobFolder, result: Result, wanted: Set[str]) -> dict[str, Mapping[int, float]]:
    """Return the wanted metrics by name and step, with those of the job as a whole at step 1; every other name with no step."""
    columns: defaultdict[str, Column] = defaultdict(Column)
    others: set[str] = set()
    with contextlib.suppress(OSError), files.opened(folder.metrics) as stream:
        for step, values in filter(None, metrics.records(stream)):
            if 0 < step <= LAST_STEP:
                others |= values.keys() - wanted
                for name in wanted & values.keys():
                    if (number := as_number(values[name])) is not None:
                        columns[name].add(step, number)
    found: dict[str, Mapping[int, float]] = {**{name: {} for name in others}, **columns}
    if result.wall_time:
        seconds = result.wall_time.seconds
        found[START_UP] = {1: seconds.get("precheck", 0.0) + seconds.get("start_up", 0.0)}
        if worked := sum(seconds.get(part, 0.0) for part in IN_STEPS):
            found[STEP] = {1: worked / max(1, result.wall_time.last_step)}
    if used := [sample.job.memory for sample in resources.read(folder.resources)]:
        found[MEMORY] = {1: max(used) / (1 << 30)}
    return found


def hardware(folder: JobFolder, plan: Plan) -> dict[str, str]:
    """Return what the speed of a job depends on; unknown facts are left out."""
    found = {"device": plan.device, "processes": f"{plan.nnodes} x {plan.processes_per_node}"}
    record = _facts(folder.packages)
    if gpus := record.get("gpus"):
        found["gpus"] = ", ".join(map(str, gpus))
    elif cpu := record.get("cpu"):
        found["cpu"] = str(cpu)
    if cores := {sample.cpu.cores for sample in resources.read(folder.resources)}:
        found["cores"] = ", ".join(map(str, sorted(cores)))
    return found


def versions(folder: JobFolder) -> dict[str, str]:
    """Return the versions of Python, CUDA and the packages that matter most; those that are recorded."""
    record = _facts(folder.packages)
    packages = record.get("packages") or {}
    named = {name: packages.get(name) for name in ("verl", "torch", "ray", "vllm", "transformers")}
    python = ".".join(str(record.get("python") or "").split(".")[:2])
    known = {"python": python, "cuda": record.get("cuda"), **named}
    return {name: str(value) for name, value in known.items() if value}


def task(folder: JobFolder, plan: Plan) -> dict[str, str]:
    """Return what the model was taught, and how much of it: only jobs of one task can be compared by what they learned.

    How it was taught (learning rates, the trainer's code) is left out: that is what a regression changes.
    """
    found = {name: _made_from(facts) for name, facts in (_facts(folder.provenance).get("inputs") or {}).items()}
    found["reward"] = plan.reward.path if plan.reward else plan.given.get("reward.custom_reward_function.path", "of the data")
    found |= {"processes": str(plan.world_size), "steps": str(plan.steps_total())}
    found |= {key: plan.given[key] for key in AMOUNT if key in plan.given}
    return found | ({"resumed after step": str(plan.resume.step)} if plan.resume else {})


def other_work(folder: JobFolder, plan: Plan) -> float | None:
    """Return the share of the cores, from 0 to 1, that work outside of the job took; None where that was not measured.

    The median over the moments at which every host was measured. Time that a hypervisor gave to others counts as work.
    """
    moments: dict[float, list[Sample]] = {}
    for sample in resources.read(folder.resources):
        if sample.cpu.busy is not None and sample.job.cpu is not None:
            moments.setdefault(sample.at, []).append(sample)
    whole = [hosts for hosts in moments.values() if len(hosts) >= plan.nnodes]
    return statistics.median(_others(hosts, plan.host_driver) for hosts in whole) if whole else None


def _others(hosts: list[Sample], host_driver: str) -> float:
    pairs = [(sample.cpu.busy or 0.0, sample.job.cpu or 0.0, sample.cpu.cores) for sample in hosts]
    if host_driver in ON_ONE_MACHINE:
        pairs = [(max(busy for busy, _, _ in pairs), sum(own for _, own, _ in pairs), pairs[0][2])]
    return max(max(0.0, busy - own) / cores for busy, own, cores in pairs)


def _made_from(facts: Any) -> str:
    """Return how an input was made, where that says what it is; else its identity."""
    facts = facts if isinstance(facts, dict) else {}
    made = facts.get("made_from")
    if isinstance(made, dict) and made.get("source") == "generated":
        return ", ".join(f"{name} {made[name]}" for name in sorted(made))
    return str(facts.get("identity") or facts.get("path"))


def _facts(file: Path) -> dict[str, Any]:
    try:
        value = read_json(file)
    except (OSError, Damaged):
        return {}
    return value if isinstance(value, dict) else {}
