"""The gates of one job, as 54 and 56 judge them: against a named baseline, or that of its device and workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ..base.paths import JobFolder
from ..base.verdict import Check
from ..plan import plan
from ..plan.plan import Plan
from ..record.job_folder import Result
from . import baseline, gates, of_job
from .baseline import Baseline
from .gates import Gate, Gates

MOST_OTHER_WORK = 1 / 3
"""Of the cores; with more, a job's speed depends on the other work."""
OF_SPEED = ("throughput", "start")


@dataclass(frozen=True)
class Judged:
    """The checks of one job, the limits that its curves can show, and what was not compared with recorded runs ("": nothing)."""

    checks: list[Check]
    limits: list[tuple[str, str, float, str]] = field(default_factory=list)
    note: str = ""


def judge(folder: JobFolder, result: Result, name: str | None = None, *, any_hardware: bool = False) -> Judged:
    """Judge the gates of a job's workload. Raises BadInput when it has none, or when the named baseline does not fit.

    Without a name the baseline ``<device>-<workload>`` is used, and what it cannot be compared with is Skipped with the reason.
    """
    found = gates.load(result.workload)
    if result.state != "SUCCEEDED":
        return Judged(gates.unjudged(found, f"the job is {result.state}"))
    the_plan = plan.read(folder)
    hardware = of_job.hardware(folder, the_plan)
    skipped: dict[str, str] = {}
    note = ""
    recorded: Baseline | None
    if name is not None:
        recorded = baseline.find(folder.shared, name)
    else:
        recorded = baseline.default(folder.shared, the_plan.device, result.workload, hardware)
        any_hardware = True  # what hardware decides is skipped
        skipped, note = _unfit(found, recorded, folder, the_plan, hardware)
    skipped |= of_a_busy_machine(found, folder, the_plan)
    checks = gates.judge(
        found, of_job.data(folder, result, found.metrics), recorded, hardware, any_hardware=any_hardware, skipped=skipped
    )
    if recorded and name is None and not baseline.of_this_root(folder.shared, recorded):
        checks = [_of_another_machine(check, gate, recorded) for check, gate in zip(checks, found.gates.values(), strict=True)]
    return Judged(checks, list(gates.limits(found, recorded, skipped)), note)


def _of_another_machine(check: Check, gate: Gate, recorded: Baseline) -> Check:
    """Return a speed gate that failed by a baseline that the project ships as Skipped: processors of one name differ in speed."""
    if check.verdict != "Fail" or not gate.relative or gate.subject not in OF_SPEED:
        return check
    record = f"./scripts/56_report.sh --baseline {recorded.name} ID ID ID"
    why = f"slower than the runs of another machine with this processor; to judge speed, record some here ({record})"
    return msgspec.structs.replace(check, verdict="Skipped", reason=f"{check.reason}; {why}")


def of_a_busy_machine(found: Gates, folder: JobFolder, the_plan: Plan) -> dict[str, str]:
    """Return the gates of speed with the reason not to judge them, where other work took the cores."""
    share = of_job.other_work(folder, the_plan)
    if share is None or share <= MOST_OTHER_WORK:
        return {}
    why = f"other work took {share:.0%} of the cores, more than {MOST_OTHER_WORK:.0%}"
    return {name: why for name, gate in found.gates.items() if gate.relative and gate.subject in OF_SPEED}


def _unfit(
    found: Gates, recorded: Baseline | None, folder: JobFolder, the_plan: Plan, hardware: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """Return why gates are not compared with the default baseline, by name, and the same as one line."""
    every = [name for name, gate in found.gates.items() if gate.relative]
    about, start = f"gates of '{folder.submission_id}'", "./scripts/56_report.sh --baseline"
    if recorded is None:
        name = baseline.default_name(the_plan.device, found.workload)
        why = f"no baseline is named '{name}' ({start} {name} ID ID ID records one)"
        return dict.fromkeys(every, why), f"{about}: only the absolute ones were judged: {why}"
    for what, theirs, own in (
        ("another task", recorded.task, of_job.task(folder, the_plan)),
        ("other versions", recorded.versions, of_job.versions(folder)),
    ):
        if others := baseline.differing(theirs, own):
            why = f"baseline '{recorded.name}' is of {what}: {others}"
            return dict.fromkeys(every, why), f"{about}: only the absolute ones were judged: {why}"
    if others := baseline.differing(recorded.hardware, hardware):
        why = f"baseline '{recorded.name}' is of other hardware: {others}"
        bound = [name for name in every if found.gates[name].hardware]
        return dict.fromkeys(bound, why), f"{about}: {', '.join(bound)} were not compared: {why}"
    return {}, ""
