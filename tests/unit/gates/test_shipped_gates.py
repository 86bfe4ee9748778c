"""Every gate that the project ships fails for a doctored run, and the shipped baselines hold for the runs that they are of."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from gated_jobs import Data, run

from mvp_helpers.base.documents import read_as
from mvp_helpers.gates import baseline, gates, judging
from mvp_helpers.gates.baseline import Baseline

Change = Callable[[Data], Data]
RUNS = Path(__file__).parent / "runs"
"""What gates read of real jobs, one a line; ``benchmarks/bench_gates.sh`` writes it with the baselines."""
WORKLOADS = sorted(path.stem for path in gates.SHIPPED.glob("*.yaml"))
RECORDED = [workload for workload in WORKLOADS if (baseline.SHIPPED / f"cpu-{workload}.json").is_file()]


@cache
def equal_runs(workload: str) -> list[Data]:
    """What gates read of equal jobs, by step from 1: real ones where the project ships their baseline."""
    if workload not in RECORDED:
        return [run(seed) for seed in range(10)]
    kept = json.loads((RUNS / f"cpu-{workload}.json").read_bytes())
    return [{name: dict(enumerate(values, 1)) for name, values in each.items()} for each in kept]


@cache
def shipped(workload: str) -> Baseline:
    return read_as(baseline.SHIPPED / f"cpu-{workload}.json", Baseline)


@cache
def compared_with(workload: str) -> Baseline:
    """The shipped baseline; gates that it did not record, because other work took the cores, are those of one of its runs."""
    values = gates.values(gates.load(workload), equal_runs(workload)[0])
    made = baseline.make("made", workload, ["id"] * 3, {}, {}, {name: [value] * 3 for name, value in values.items()})
    return (
        msgspec.structs.replace(shipped(workload), gates=made.gates | shipped(workload).gates) if workload in RECORDED else made
    )


def times(name: str, factor: float) -> Change:
    return lambda data: {**data, name: {step: value * factor for step, value in data[name].items()}}


def spoilt(name: str) -> Change:
    return lambda data: {**data, name: data[name] | {12: math.nan}}


def unlearnt(name: str, share: float = 0.0) -> Change:
    """Only this share of what was learnt, by the same way."""

    def change(data: Data) -> Data:
        first = data[name][1]
        return {**data, name: {step: first + share * (value - first) for step, value in data[name].items()}}

    return change


OF_RL: dict[str, Change] = {
    "gradients": spoilt("actor/grad_norm"),
    "loss": spoilt("actor/pg_loss"),
    "learning": unlearnt("critic/score/mean"),
    "rise": unlearnt("critic/score/mean"),
    "step-time": times("perf/time_per_step", 2),
    "tokens": times("perf/throughput", 0.5),
    "memory": times("actor/perf/max_memory_allocated_gb", 1.5),
    "start": times("job/start_up_s", 2),
}
DOCTORED: dict[str, dict[str, Change]] = {
    "ppo": OF_RL | {"critic": spoilt("critic/vf_loss")},
    "grpo": OF_RL,
    "sft": {
        "gradients": spoilt("train/grad_norm"),
        "loss": spoilt("train/loss"),
        "falls": unlearnt("train/loss"),
        "learning": unlearnt("train/loss", 0.8),
        "step-time": times("job/step_s", 2),
        "tokens": times("train/global_tokens", 0.5),
        "memory": times("perf/max_memory_allocated_gb", 1.5),
        "start": times("job/start_up_s", 2),
    },
}
"""For each shipped gate what makes it fail."""


def failed(workload: str, data: Data, recorded: Baseline) -> set[str]:
    checks = gates.judge(gates.load(workload), data, recorded, recorded.hardware, any_hardware=True)
    return {check.name for check in checks if check.verdict == "Fail"}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_shipped_gate_has_a_doctored_run(workload: str) -> None:
    assert gates.load(workload).gates.keys() == DOCTORED[workload].keys()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_gates_cover_learning_numerics_speed_memory_and_the_start(workload: str) -> None:
    assert {gate.subject for gate in gates.load(workload).gates.values()} == set(get_args(gates.Subject))


@pytest.mark.parametrize(("workload", "name"), [(workload, name) for workload in DOCTORED for name in DOCTORED[workload]])
def test_a_doctored_run_fails_the_gate(workload: str, name: str) -> None:
    doctored = DOCTORED[workload][name](equal_runs(workload)[0])
    assert gates.title(name) in failed(workload, doctored, compared_with(workload))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_gate_holds_over_equal_runs(workload: str) -> None:
    runs = equal_runs(workload)
    values = [gates.values(gates.load(workload), each) for each in runs]
    by_gate = {name: [each[name] for each in values] for name in values[0]}
    made = baseline.make("all", workload, ["id"] * len(runs), {}, {}, by_gate)
    assert [failed(workload, each, made) for each in runs] == [set()] * len(runs)


@pytest.mark.parametrize("workload", RECORDED)
def test_a_shipped_baseline_says_what_it_is_of(workload: str) -> None:
    recorded, found = shipped(workload), gates.load(workload)
    missing = {name for name, gate in found.gates.items() if gate.relative} - recorded.gates.keys()
    assert {found.gates[name].subject for name in missing} <= set(judging.OF_SPEED)
    assert (recorded.name, recorded.workload) == (f"cpu-{workload}", workload) and len(recorded.jobs) >= baseline.FEWEST
    assert recorded.hardware.keys() == {"device", "processes", "cpu", "cores"}
    assert {"python", "verl", "torch", "ray"} <= recorded.versions.keys()
    assert {"model", "dataset", "reward", "steps"} <= recorded.task.keys()


@pytest.mark.parametrize("workload", RECORDED)
def test_a_shipped_baseline_is_of_the_runs_of_these_tests(workload: str) -> None:
    measured = [gates.values(gates.load(workload), each) for each in equal_runs(workload)]
    for name, recorded in shipped(workload).gates.items():
        assert recorded.values == pytest.approx([each[name] for each in measured], rel=1e-5)
