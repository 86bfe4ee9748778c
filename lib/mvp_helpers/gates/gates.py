"""The gates of a workload, ``templates/gates/<workload>.yaml``, and their verdicts on one job. Nothing in them is executed.

A gate is an assertion (see ``assertions``). The words ``baseline`` and ``spread`` in it are the median and the spread of its left
side over the runs of a baseline.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ..base import documents, files
from ..base.errors import BadInput, did_you_mean
from ..base.project import PROJECT
from ..base.verdict import Check, Evidence
from . import assertions
from .baseline import Baseline, differing

SHIPPED = PROJECT / "templates" / "gates"
MOST_BYTES = 64 << 10
RELATIVE = ("baseline", "spread")
PLACEHOLDERS = dict.fromkeys(RELATIVE, 1.0)
OF_JOB = "job/"
"""Begins the names of what is measured of a job as a whole, which a job may lack: its runner was killed."""
Subject = Literal["learning", "numerics", "throughput", "memory", "start"]


class Gate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One gate. ``hardware``: the baseline must be of the same hardware."""

    subject: Subject
    expect: str
    why: str
    hardware: bool = False

    @property
    def relative(self) -> bool:
        return bool(set(RELATIVE) & assertions.words(self.expect)[1])


class Gates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All gates of a workload, by name."""

    workload: str
    gates: dict[str, Gate]

    @property
    def metrics(self) -> set[str]:
        """The names of all metrics that the gates read."""
        return {name for gate in self.gates.values() for name in assertions.words(gate.expect)[0]}


def load(workload: str, file: Path | None = None) -> Gates:
    """Return the gates of a workload. Raises BadInput when there are none, or one is not in the grammar."""
    path = file or SHIPPED / f"{workload}.yaml"
    try:
        data = files.read(path, MOST_BYTES)
    except FileNotFoundError:
        known = sorted(each.stem for each in SHIPPED.glob("*.yaml"))
        raise BadInput(
            f"workload '{workload}' has no gates: {path}{did_you_mean(workload, known)}", hint=f"gates of: {', '.join(known)}"
        ) from None
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    return parse(data, str(path))


def parse(data: bytes, source: str) -> Gates:
    """Return the gates in the YAML bytes of ``source``. Raises BadInput."""
    found = documents.convert(documents.parse(data, source), Gates, source)
    for name, gate in found.gates.items():
        try:
            assertions.parse(gate.expect, PLACEHOLDERS)
        except BadInput as error:
            raise BadInput(f"{source}: gate '{name}': {error.what}", hint=error.hint) from None
    return found


def judge(
    gates: Gates,
    data: assertions.Data,
    baseline: Baseline | None,
    hardware: Mapping[str, str],
    *,
    any_hardware: bool = False,
    skipped: Mapping[str, str] | None = None,
) -> list[Check]:
    """Return a check for each gate, in their order; ``skipped`` has the reasons not to judge some, by name.

    Raises BadInput for a gate whose metric the job does not have, and for a baseline of another workload or hardware.
    """
    _check_metrics(gates, data)
    if baseline:
        _check_baseline(gates, baseline, hardware, any_hardware)
    reasons = skipped or {}
    return [
        Check(title(name), "Skipped", reasons[name]) if name in reasons else _judge(name, gate, data, baseline)
        for name, gate in gates.gates.items()
    ]


def title(name: str) -> str:
    """Return the name of a gate's check."""
    return f"gate: {name}"


def _judge(name: str, gate: Gate, data: assertions.Data, baseline: Baseline | None) -> Check:
    constants: dict[str, float] = {}
    if gate.relative:
        if baseline is None:
            return Check(title(name), "Skipped", f"{gate.expect}: no baseline was named")
        recorded = baseline.gates.get(name)
        if recorded is None:
            return Check(title(name), "Skipped", f"{gate.expect}: baseline '{baseline.name}' did not record it")
        constants = {"baseline": recorded.median, "spread": recorded.spread}
    try:
        holds, text = assertions.parse(gate.expect, constants)(data)
    except assertions.Undecided as error:
        holds, text = False, f"{gate.expect}: {error}"
    except (ArithmeticError, ValueError) as error:
        holds, text = False, f"{gate.expect}: {type(error).__name__}: {error}"
    known = ", ".join(f"{word} {value:.6g}" for word, value in constants.items())
    reason = f"{text}{f' ({known})' if known else ''}: {gate.why}"
    return Check(title(name), "Pass" if holds else "Fail", reason, [Evidence("metrics.jsonl", None, text)])


def unjudged(gates: Gates, why: str) -> list[Check]:
    """Return a Skipped check for each gate, of a job that has no run to judge."""
    return [Check(title(name), "Skipped", why) for name in gates.gates]


def values(gates: Gates, data: assertions.Data, left_out: Container[str] = ()) -> dict[str, float]:
    """Return the left side of each relative gate but those left out. Raises BadInput when one has no finite value."""
    _check_metrics(gates, data)
    found = {}
    for name, gate in gates.gates.items():
        if gate.relative and name not in left_out and (value := assertions.left(gate.expect, PLACEHOLDERS)):
            try:
                number = value(data)
            except (assertions.Undecided, ArithmeticError, ValueError) as error:
                raise BadInput(f"gate '{name}' has no value: {error}") from None
            if not math.isfinite(number):
                raise BadInput(f"gate '{name}' has no finite value")
            found[name] = number
    return found


def _check_metrics(gates: Gates, data: assertions.Data) -> None:
    for name, gate in gates.gates.items():
        for metric in assertions.words(gate.expect)[0]:
            if metric not in data and not metric.startswith(OF_JOB):
                raise BadInput(
                    f"gate '{name}' of workload '{gates.workload}': the job has no metric '{metric}'{did_you_mean(metric, data)}",
                    hint=f"templates/gates/{gates.workload}.yaml",
                )


def _check_baseline(gates: Gates, baseline: Baseline, hardware: Mapping[str, str], any_hardware: bool) -> None:
    if baseline.workload != gates.workload:
        raise BadInput(f"baseline '{baseline.name}' is of workload '{baseline.workload}', the job of '{gates.workload}'")
    needed = any(gate.hardware and gate.relative for gate in gates.gates.values())
    if needed and not any_hardware and (others := differing(baseline.hardware, hardware)):
        raise BadInput(f"baseline '{baseline.name}' is of other hardware: {others}", hint="--any-hardware compares all the same")


def limits(gates: Gates, baseline: Baseline | None, skipped: Container[str] = ()) -> Iterable[tuple[str, str, float, str]]:
    """Yield metric, comparison, number and text of each gate that a chart can show as a line, but of the skipped ones."""
    for name, gate in gates.gates.items():
        if name in skipped:
            continue
        constants: dict[str, float] = {}
        if gate.relative:
            recorded = baseline.gates.get(name) if baseline else None
            if not recorded:
                continue
            constants = {"baseline": recorded.median, "spread": recorded.spread}
        if shown := assertions.limit(gate.expect, constants):
            yield (*shown, f"gate {name}: {gate.expect}")
