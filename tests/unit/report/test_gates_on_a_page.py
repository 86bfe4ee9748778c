"""Gates of a job: recorded by 56, judged by 54, and drawn into its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from gated_jobs import run_of
from truthful_job import change_result

from mvp_helpers.base.paths import SharedRoot

Verb = Callable[..., tuple[int, str, str]]


def test_a_baseline_is_recorded_and_a_job_that_learns_less_fails_against_it(
    shared: SharedRoot, three: list[str], verb: Verb
) -> None:
    code, out, _ = verb("report", "--baseline", "cpu", *three)
    assert code == 0 and Path(out.strip()) == shared.baselines / "cpu.json"
    recorded = json.loads(Path(out.strip()).read_bytes())
    assert recorded["jobs"] == three and recorded["gates"]["learning"]["median"] == pytest.approx(0.46)
    run_of(shared, "ppo-worse", reward=0.0)
    _, out, _ = verb("verify", "ppo-worse", three[0], "--gates", "--baseline", "cpu", "--json")
    worse, same = (
        {check["name"]: check["verdict"] for check in job["checks"] if check["name"].startswith("gate: ")}
        for job in json.loads(out)["jobs"]
    )
    assert [name for name, verdict in worse.items() if verdict != "Pass"] == ["gate: learning", "gate: rise"]
    assert set(same.values()) == {"Pass"}


def test_the_page_shows_the_verdicts_and_the_limits(three: list[str], verb: Verb) -> None:
    verb("report", "--baseline", "cpu", *three)
    _, out, _ = verb("report", three[0], "--against", "cpu")
    text = Path(out.strip()).read_text()
    assert "gate: learning" in text and ": gate learning: " in text
    limits = json.loads(text.partition('id="data">')[2].partition("</script>")[0])["limits"]
    assert limits["perf/time_per_step"][0]["high"] == pytest.approx(1.2)
    assert 0.3 < limits["critic/score/mean"][0]["low"] < 0.46, "below the median of the recorded runs"


def test_unequal_or_failed_runs_are_no_baseline(shared: SharedRoot, three: list[str], verb: Verb) -> None:
    run_of(shared, "ppo-failed", state="FAILED")
    code, out, err = verb("report", "--baseline", "cpu", *three, "ppo-failed")
    assert (code, out) == (2, "") and "job 'ppo-failed' is FAILED" in err
    spec = shared.job(three[2]).job_spec()
    before = spec.read_text()
    spec.write_text(before.rstrip("}") + ', "model": "another"}')
    code, out, err = verb("report", "--baseline", "cpu", *three)
    assert (code, out) == (2, "") and "differ in toolkit, JobSpec, code, data, model or reward function" in err
    spec.write_text(before)
    provenance = json.loads(shared.job(three[2]).provenance.read_text())
    shared.job(three[2]).provenance.write_text(json.dumps({**provenance, "toolkit": {"commit": "f00"}}))
    code, out, err = verb("report", "--baseline", "cpu", *three)
    assert (code, out) == (2, "") and "differ in toolkit" in err
    shared.job(three[2]).provenance.write_text(json.dumps(provenance))
    change_result(shared.job(three[1]), workload="grpo")
    code, out, err = verb("report", "--baseline", "cpu", *three)
    assert (code, out) == (2, "") and "differ in workload" in err
    change_result(shared.job(three[1]), workload="ppo")
    shared.job(three[1]).packages.write_text(json.dumps({"gpus": ["NVIDIA H200"], "packages": {}}))
    code, out, err = verb("report", "--baseline", "cpu", *three)
    assert (code, out) == (2, "") and "differ in hardware" in err
    assert not shared.baselines.exists()


def test_the_gates_of_a_failed_job_take_no_verdict_of_another_along(shared: SharedRoot, three: list[str], verb: Verb) -> None:
    failed = run_of(shared, "ppo-failed", state="FAILED")
    failed.metrics.unlink()
    code, out, _ = verb("verify", three[0], "ppo-failed", "--gates", "--json")
    good, bad = ({check["name"]: check for check in job["checks"]} for job in json.loads(out)["jobs"])
    assert code == 1 and good["gate: loss"]["verdict"] == "Pass"
    assert bad["gate: loss"]["verdict"] == "Skipped" and bad["gate: loss"]["reason"] == "the job is FAILED"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["verify", "ppo-0", "--baseline", "cpu"], "--baseline needs --gates"),
        (["verify", "ppo-0", "--gates", "--baseline", "gone"], "no baseline is named 'gone'"),
        (["report", "--baseline", "cpu", "ppo-0"], "at least 3 runs, got 1"),
        (["report", "--baseline", "../cpu", "ppo-0", "ppo-1", "ppo-2"], "is not a name for a baseline"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(three: list[str], verb: Verb, argv: list[str], message: str) -> None:
    code, out, err = verb(*argv)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) <= 2
