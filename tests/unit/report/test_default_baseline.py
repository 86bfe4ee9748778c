"""Without ``--baseline`` a job is compared with ``<device>-<workload>``, as far as that fits; one line says how far."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gated_jobs import run_of
from truthful_job import make_plan, write_plan

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.gates import baseline

Verb = Callable[..., tuple[int, str, str]]
Judge = Callable[[str], tuple[dict[str, dict[str, Any]], str]]
LEARNT, OF_SPEED = {"gate: learning", "gate: rise"}, {"gate: step-time", "gate: tokens", "gate: start"}
HARDWARE = OF_SPEED | {"gate: memory", "gate: learning"}
PACKAGES = {"cpu": "a processor", "python": "3.11.7", "packages": {"torch": "2.11.0"}}


@pytest.fixture
def judge(shared: SharedRoot, three: list[str], verb: Verb) -> Judge:
    """Record ``cpu-ppo``; return what 54 says of a job: its gates by name, and stderr."""
    for name in three:
        shared.job(name).packages.write_text(json.dumps(PACKAGES))
    assert verb("report", "--baseline", "cpu-ppo", *three)[0] == 0
    run_of(shared, "ppo-new").packages.write_text(json.dumps(PACKAGES))

    def run(name: str) -> tuple[dict[str, dict[str, Any]], str]:
        _, out, err = verb("verify", name, "--gates", "--json")
        (job,) = json.loads(out)["jobs"]
        return {check["name"]: check for check in job["checks"] if check["name"].startswith("gate: ")}, err

    return run


def skipped(checks: dict[str, dict[str, Any]]) -> set[str]:
    return {name for name, check in checks.items() if check["verdict"] == "Skipped"}


def test_an_equal_job_is_compared_with_everything(judge: Judge) -> None:
    checks, err = judge("ppo-new")
    assert {check["verdict"] for check in checks.values()} == {"Pass"} and "compared" not in err and "judged" not in err


def test_a_job_that_learns_less_fails_whatever_its_learning_rate(shared: SharedRoot, judge: Judge) -> None:
    folder = run_of(shared, "ppo-still", reward=0.0)
    plan = make_plan(folder)
    write_plan(folder, msgspec.structs.replace(plan, argv=[*plan.argv, "actor_rollout_ref.actor.optim.lr=0"]))
    folder.packages.write_text(json.dumps(PACKAGES))
    checks, _ = judge("ppo-still")
    assert {name for name, check in checks.items() if check["verdict"] == "Fail"} == LEARNT


def test_on_other_hardware_the_rise_is_compared_and_speed_is_not(shared: SharedRoot, judge: Judge) -> None:
    shared.job("ppo-new").packages.write_text(json.dumps(PACKAGES | {"cpu": "another"}))
    checks, err = judge("ppo-new")
    assert skipped(checks) == HARDWARE
    why = "baseline 'cpu-ppo' is of other hardware: cpu a processor, here another"
    assert checks["gate: memory"]["reason"] == why
    assert f"gates of 'ppo-new': learning, step-time, tokens, memory, start were not compared: {why}" in err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"packages": {"torch": "2.12.0"}}, "other versions: torch 2.11.0, here 2.12.0"),
        (["data.max_response_length=64"], "another task: data.max_response_length unknown, here 64"),
        ({"total_training_steps": 7}, "another task: steps None, here 7"),
    ],
)
def test_another_task_or_other_versions_are_not_compared(shared: SharedRoot, judge: Judge, change: Any, why: str) -> None:
    folder = shared.job("ppo-new")
    plan = make_plan(folder)
    if isinstance(change, list):
        write_plan(folder, msgspec.structs.replace(plan, argv=[*plan.argv, *change]))
    elif "packages" in change:
        folder.packages.write_text(json.dumps(PACKAGES | change))
    else:
        write_plan(folder, msgspec.structs.replace(plan, **change))
    checks, err = judge("ppo-new")
    assert skipped(checks) == LEARNT | HARDWARE
    assert f"gates of 'ppo-new': only the absolute ones were judged: baseline 'cpu-ppo' is of {why}" in err


def busy(shared: SharedRoot, name: str, share: float) -> None:
    """Two workers on this machine of two cores; other work takes a share of them."""
    host = {"cpu": {"cores": 2, "busy": 0.8 + 2 * share}, "job": {"processes": 3, "memory": 1 << 30, "cpu": 0.4}}
    lines = [{"at": at, "step": 1, "host": f"worker-{worker}", **host} for at in (10.0, 20.0) for worker in (0, 1)]
    shared.job(name).resources.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_speed_is_not_judged_where_other_work_took_the_cores(
    shared: SharedRoot, three: list[str], judge: Judge, verb: Verb
) -> None:
    for name in [*three, "ppo-new"]:
        busy(shared, name, 0.1)
    assert verb("report", "--baseline", "cpu-ppo", *three)[0] == 0
    assert skipped(judge("ppo-new")[0]) == set()
    busy(shared, "ppo-new", 0.4)
    checks, _ = judge("ppo-new")
    assert skipped(checks) == OF_SPEED
    assert checks["gate: start"]["reason"] == "other work took 40% of the cores, more than 33%"


def test_a_job_slower_than_the_runs_of_a_shipped_baseline_is_not_judged_by_speed(
    shared: SharedRoot, judge: Judge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded = json.loads((shared.baselines / "cpu-ppo.json").read_bytes())
    recorded["gates"]["step-time"]["median"] /= 100
    recorded["gates"]["memory"]["median"] /= 100
    (shared.baselines / "cpu-ppo.json").write_text(json.dumps(recorded))
    failed = {name for name, check in judge("ppo-new")[0].items() if check["verdict"] == "Fail"}
    assert failed == {"gate: step-time", "gate: memory"}
    monkeypatch.setattr(baseline, "SHIPPED", tmp_path / "shipped")
    baseline.SHIPPED.mkdir()
    (shared.baselines / "cpu-ppo.json").rename(baseline.SHIPPED / "cpu-ppo.here.json")
    (baseline.SHIPPED / "cpu-ppo.here.json").write_text(json.dumps(recorded | {"name": "cpu-ppo.here"}))
    checks, _ = judge("ppo-new")
    assert checks["gate: memory"]["verdict"] == "Fail" and skipped(checks) == {"gate: step-time"}
    assert "slower than the runs of another machine with this processor" in checks["gate: step-time"]["reason"]


def test_speed_is_not_recorded_where_other_work_took_the_cores(shared: SharedRoot, three: list[str], verb: Verb) -> None:
    for name in three:
        busy(shared, name, 0.5 if name == three[1] else 0.1)
    code, _, err = verb("report", "--baseline", "mine", *three)
    assert code == 0 and f"gate 'tokens' is not recorded: other work took 50% of the cores, more than 33%: {three[1]}" in err
    assert json.loads((shared.baselines / "mine.json").read_bytes())["gates"].keys() == {"learning", "rise", "memory"}


def test_without_a_default_baseline_only_absolute_gates_are_judged(shared: SharedRoot, verb: Verb) -> None:
    folder = run_of(shared, "ppo-gpu")
    write_plan(folder, msgspec.structs.replace(make_plan(folder), device="cuda"))
    _, out, err = verb("verify", "ppo-gpu", "--gates", "--json")
    checks = {check["name"]: check["verdict"] for check in json.loads(out)["jobs"][0]["checks"]}
    assert checks["gate: learning"] == "Skipped" and checks["gate: critic"] == "Pass"
    assert "no baseline is named 'cuda-ppo' (./scripts/56_report.sh --baseline cuda-ppo ID ID ID records one)" in err


def test_runs_of_different_hardware_are_recorded_together_only_when_asked(
    shared: SharedRoot, three: list[str], verb: Verb
) -> None:
    for name, cpu in zip(three, ("a", "b", "a"), strict=True):
        shared.job(name).packages.write_text(json.dumps(PACKAGES | {"cpu": cpu}))
    code, _, err = verb("report", "--baseline", "both", *three)
    assert code == 2 and "differ in hardware" in err and "--any-hardware records them all the same" in err
    assert verb("report", "--baseline", "both", "--any-hardware", *three)[0] == 0
    assert json.loads((shared.baselines / "both.json").read_bytes())["hardware"]["cpu"] == "a or b"
    code, _, err = verb("verify", three[0], "--gates", "--baseline", "both")
    assert code == 2 and "'both' is of other hardware: cpu a or b, here a" in err
    assert verb("report", three[0], "--against", "both")[0] == 2
    assert verb("report", three[0], "--against", "both", "--any-hardware")[0] == 0


def test_the_page_shows_the_verdicts_of_the_default_baseline(judge: Judge, verb: Verb) -> None:
    _, out, _ = verb("report", "ppo-new", "--gates")
    text = Path(out.strip()).read_text()
    assert "gate: learning" in text and ": gate learning: " in text
