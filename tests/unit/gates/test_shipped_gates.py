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
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.gates import baseline, gates, judging
from mvp_helpers.gates.baseline import Baseline

Change = Callable[[Data], Data]
RUNS = Path(__file__).parent / "runs"
"""What gates read of real jobs, one a line; ``benchmarks/bench_gates.sh`` writes it with the baselines."""
WORKLOADS = sorted(path.stem for path in gates.SHIPPED.glob("*.yaml"))
RECORDED = sorted(path.stem for path in baseline.SHIPPED.glob("*.json"))
"""One for each workload and kind of hardware, ``cpu-ppo.amd-epyc``."""
SETS = [*RECORDED, *(f"cpu-{each}.made" for each in WORKLOADS if not any(name.startswith(f"cpu-{each}.") for name in RECORDED))]
"""What the gates are tried on: a set of equal runs, by its name."""


def workload_of(name: str) -> str:
    return name.partition("-")[2].partition(".")[0]


@cache
def equal_runs(name: str) -> list[Data]:
    """What gates read of equal jobs, by step from 1: real ones where the project ships their baseline."""
    if name not in RECORDED:
        return [run(seed) for seed in range(10)]
    kept = json.loads((RUNS / f"{name}.json").read_bytes())
    return [{metric: dict(enumerate(values, 1)) for metric, values in each.items()} for each in kept]


@cache
def shipped(name: str) -> Baseline:
    return read_as(baseline.SHIPPED / f"{name}.json", Baseline)


@cache
def compared_with(name: str) -> Baseline:
    """The shipped baseline; gates that it did not record, because other work took the cores, are those of one of its runs."""
    values = gates.values(gates.load(workload_of(name)), equal_runs(name)[0])
    made = baseline.make("made", workload_of(name), ["id"] * 3, {}, {}, {gate: [value] * 3 for gate, value in values.items()})
    return msgspec.structs.replace(shipped(name), gates=made.gates | shipped(name).gates) if name in RECORDED else made


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
    "start": times("job/start_up_s", 3),
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
        "start": times("job/start_up_s", 3),
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


@pytest.mark.parametrize(("name", "gate"), [(name, gate) for name in SETS for gate in DOCTORED[workload_of(name)]])
def test_a_doctored_run_fails_the_gate(name: str, gate: str) -> None:
    doctored = DOCTORED[workload_of(name)][gate](equal_runs(name)[0])
    assert gates.title(gate) in failed(workload_of(name), doctored, compared_with(name))


@pytest.mark.parametrize("name", SETS)
def test_every_gate_holds_over_equal_runs(name: str) -> None:
    runs, workload = equal_runs(name), workload_of(name)
    values = [gates.values(gates.load(workload), each) for each in runs]
    by_gate = {gate: [each[gate] for each in values] for gate in values[0]}
    made = baseline.make("all", workload, ["id"] * len(runs), {}, {}, by_gate)
    assert [failed(workload, each, made) for each in runs] == [set()] * len(runs)


@pytest.mark.parametrize("name", RECORDED)
def test_a_shipped_baseline_says_what_it_is_of(name: str) -> None:
    recorded, found = shipped(name), gates.load(workload_of(name))
    missing = {gate for gate, each in found.gates.items() if each.relative} - recorded.gates.keys()
    assert {found.gates[gate].subject for gate in missing} <= set(judging.OF_SPEED)
    assert (recorded.name, recorded.workload) == (name, workload_of(name)) and len(recorded.jobs) >= baseline.FEWEST
    assert recorded.hardware.keys() == {"device", "processes", "cpu", "cores"}
    assert {"python", "verl", "torch", "ray"} <= recorded.versions.keys()
    assert {"model", "dataset", "reward", "steps"} <= recorded.task.keys()


@pytest.mark.parametrize("name", RECORDED)
def test_a_shipped_baseline_is_of_the_runs_of_these_tests(name: str) -> None:
    measured = [gates.values(gates.load(workload_of(name)), each) for each in equal_runs(name)]
    for gate, recorded in shipped(name).gates.items():
        assert recorded.values == pytest.approx([each[gate] for each in measured], rel=1e-5)


@pytest.mark.parametrize("name", RECORDED)
def test_the_shipped_baseline_of_the_same_hardware_is_compared_with(tmp_path: Path, name: str) -> None:
    own = shipped(name).hardware
    assert baseline.default(SharedRoot(tmp_path), "cpu", workload_of(name), own) == shipped(name)
    others = baseline.default(SharedRoot(tmp_path), "cpu", workload_of(name), own | {"cores": "512"})
    assert others and baseline.differing(others.hardware, own | {"cores": "512"})
