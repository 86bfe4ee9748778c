"""Gates are judged against a baseline of the same workload and hardware; what is wrong with either is said in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from gated_jobs import run

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.gates import baseline, gates, of_job
from mvp_helpers.gates.baseline import Baseline
from mvp_helpers.record.job_folder import Result

HERE = {"device": "cpu", "processes": "2 x 1"}
WORKLOADS = sorted(path.stem for path in gates.SHIPPED.glob("*.yaml"))


def recorded(workload: str, runs: int = 3, **facts: Any) -> Baseline:
    values = [gates.values(gates.load(workload), run(seed)) for seed in range(runs)]
    by_gate = {gate: [each[gate] for each in values] for gate in values[0]}
    return baseline.make("cpu", workload, [f"job-{at}" for at in range(runs)], facts.get("hardware", HERE), {}, by_gate)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_without_a_baseline_relative_gates_are_skipped_with_the_reason(workload: str) -> None:
    checks = {check.name: check for check in gates.judge(gates.load(workload), run(1), None, HERE)}
    assert checks["gate: learning"].verdict == "Skipped" and "no baseline was named" in checks["gate: learning"].reason
    assert checks["gate: gradients"].verdict == "Pass"


def test_a_baseline_of_other_hardware_is_refused_unless_asked() -> None:
    other = recorded("ppo", hardware={"device": "cuda", "gpus": "NVIDIA H200"})
    with pytest.raises(BadInput, match="'cpu' is of other hardware: device cuda, here cpu; gpus NVIDIA H200, here unknown"):
        gates.judge(gates.load("ppo"), run(1), other, HERE)
    assert all(check.met for check in gates.judge(gates.load("ppo"), run(1), other, HERE, any_hardware=True))


def test_a_baseline_of_another_workload_is_refused() -> None:
    with pytest.raises(BadInput, match="is of workload 'grpo', the job of 'ppo'"):
        gates.judge(gates.load("ppo"), run(1), recorded("grpo"), HERE)


def test_a_metric_that_the_job_does_not_have_is_named_with_the_nearest() -> None:
    data = run(1)
    data["critic/scores/mean"] = data.pop("critic/score/mean")
    with pytest.raises(BadInput, match=r"no metric 'critic/score/mean' \(did you mean 'critic/scores/mean'\?\)"):
        gates.judge(gates.load("ppo"), data, None, HERE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max(data['a']) < __import__('os').getpid()", "is not a comparison of metrics"),
        ("max(data['a']) < basline", r"unknown function basline \(did you mean 'baseline'\?\)"),
        ("medain(data['a']) < 1", r"unknown function medain \(did you mean 'median'\?\)"),
        ("baseline < 1", "it names no metric"),
    ],
)
def test_a_gate_outside_of_the_grammar_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "toy.yaml"
    gate = {"subject": "learning", "expect": text, "why": "x"}
    file.write_text(json.dumps({"workload": "toy", "gates": {"g": gate}}))
    with pytest.raises(BadInput, match=message) as raised:
        gates.load("toy", file)
    assert "gate 'g'" in raised.value.what


def test_a_workload_without_gates_is_named() -> None:
    with pytest.raises(BadInput, match="workload 'pop' has no gates") as raised:
        gates.load("pop")
    assert "did you mean 'ppo'?" in raised.value.what


def test_fewer_than_three_runs_are_no_baseline() -> None:
    with pytest.raises(BadInput, match="at least 3 runs, got 2"):
        recorded("ppo", runs=2)


def test_a_baseline_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    shared, made = SharedRoot(tmp_path), recorded("ppo")
    baseline.write(shared, made)
    assert baseline.find(shared, "cpu") == made
    with pytest.raises(BadInput, match=r"no baseline is named 'cpus' \(did you mean 'cpu'\?\)"):
        baseline.find(shared, "cpus")


def test_a_job_gives_the_wanted_series_and_only_the_names_of_all_others(tmp_path: Path) -> None:
    """Whatever the order of the steps; of a step in two lines the later value counts, as everywhere."""
    folder = SharedRoot(tmp_path).job("a")
    folder.path.mkdir(parents=True)
    rows = [
        (0, {"a": 9}),
        (3, {"a": 3.5, "b": 1}),
        (1, {"a": None}),
        (2, {"a": 7, "c": "text"}),
        (2, {"a": 2}),
        (1 << 70, {"a": 5}),
    ]
    folder.metrics.write_text("".join(json.dumps({"step": step, "data": values}) + "\n" for step, values in rows) + "damaged\n")
    data = of_job.data(folder, Result(submission_id="a", workload="ppo", state="SUCCEEDED"), {"a", "c", "gone"})
    assert {name: list(series.items())[1:] for name, series in data.items()} == {"a": [(2, 2.0), (3, 3.5)], "b": []}
    assert math.isnan(data["a"][1]) and 4 not in data["a"]
