"""The Definition of Done: its file names checks that exist, and a line passes only when nothing speaks against it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder
from mvp_helpers.base.verdict import Check, Evidence
from mvp_helpers.proof import definition_of_done, verify
from mvp_helpers.proof.verify import Report


def report(name: str, **changed: str) -> Report:
    """A job of the workload that its name begins with; every check passes but those named (``_`` for a space)."""
    verdicts = {check: "Pass" for check in verify.CHECKS} | {check.replace("_", " "): to for check, to in changed.items()}
    lines = [Evidence("result.json", 3, "x")]
    checks = [Check(check, verdict, f"evidence of {check}", lines) for check, verdict in verdicts.items()]  # type: ignore[arg-type]
    return Report(JobFolder(Path("/jobs") / name), name.partition("-")[0], checks)


def verdicts(*reports: Report) -> dict[str, str]:
    return {line.name.partition(" ")[0]: line.verdict for line in definition_of_done.judge(reports)}


def reason(line: str, *reports: Report) -> str:
    return next(check.reason for check in definition_of_done.judge(reports) if check.name.startswith(line))


def test_every_line_of_the_plan_is_there_once_and_names_checks_that_exist() -> None:
    lines = definition_of_done.load()
    assert [line.line for line in lines] == [f"5.1.{n}" for n in range(1, 8)] + [f"5.2.{n}" for n in range(1, 5)]


def test_all_pass_when_every_check_of_every_job_does() -> None:
    jobs = [report("ppo-1"), report("ppo-2"), report("grpo-1"), report("sft-1")]
    assert set(verdicts(*jobs).values()) == {"Pass"}
    assert reason("5.1.2", *jobs) == "sft-1 and 3 more: evidence of driver on a worker"
    assert reason("5.2.1", *jobs) == "grpo-1: evidence of running; evidence of succeeded; evidence of metrics"


def test_the_evidence_of_a_line_names_the_job_it_is_from() -> None:
    [line] = [check for check in definition_of_done.judge([report("ppo-1"), report("ppo-2")]) if check.name.startswith("5.1.2")]
    assert line.evidence == [Evidence("/jobs/ppo-2/result.json", 3, "x")]


def test_one_job_that_fails_a_check_fails_its_lines_and_no_others() -> None:
    found = verdicts(report("ppo-1"), report("grpo-1", checkpoints="Fail"), report("sft-1"))
    assert {line for line, verdict in found.items() if verdict == "Fail"} == {"5.1.5", "5.2.2"}
    assert reason("5.1.5", report("ppo-1"), report("grpo-1", checkpoints="Fail")) == (
        "grpo-1: checkpoints: evidence of checkpoints"
    )


def test_a_check_that_applied_to_some_jobs_only_counts_where_it_did() -> None:
    first, second = report("ppo-1", data_and_model_reused="Skipped"), report("ppo-2")
    assert verdicts(first, second)["5.1.4"] == "Pass"
    assert verdicts(first)["5.1.4"] == "Skipped"


def test_a_line_without_a_job_is_skipped_with_the_reason() -> None:
    assert verdicts(report("ppo-1"))["5.2.3"] == "Skipped"
    assert reason("5.2.3", report("ppo-1")) == "no sft job among those given"


def test_a_check_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadInput, match="line 9: no check 'metrix' \\(did you mean 'metrics'"):
        definition_of_done.load(b"lines: [{line: '9', says: x, checks: [metrix]}]")
