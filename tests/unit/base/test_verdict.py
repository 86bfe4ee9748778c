"""The shape of every check: one JSON form, and one table for people."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from mvp_helpers.base import verdict
from mvp_helpers.base.verdict import Check, Evidence


def test_a_check_has_the_documented_json_form() -> None:
    check = Check(
        "metrics", "Fail", "step 3: loss is None", [Evidence("metrics.jsonl", 3, '{"step": 3}')], 0.25, "lower the rate"
    )
    assert json.loads(msgspec.json.encode(check)) == {
        "name": "metrics",
        "verdict": "Fail",
        "reason": "step 3: loss is None",
        "evidence": [{"file": "metrics.jsonl", "line": 3, "text": '{"step": 3}'}],
        "seconds": 0.25,
        "hint": "lower the rate",
    }
    assert msgspec.json.decode(msgspec.json.encode(check), type=Check) == check


def test_every_field_is_in_the_json_form_of_the_shortest_check() -> None:
    assert list(json.loads(msgspec.json.encode(Check("x", "Pass")))) == [
        "name",
        "verdict",
        "reason",
        "evidence",
        "seconds",
        "hint",
    ]


@pytest.mark.parametrize(
    ("evidence", "shown"),
    [
        (Evidence("logs/driver.log", 12, "KeyError: 'x'"), "logs/driver.log:12: KeyError: 'x'"),
        (Evidence("result.json", None, "state FAILED"), "result.json: state FAILED"),
        (Evidence("", None, "git 2.43"), "git 2.43"),
    ],
)
def test_evidence_is_shown_with_its_place(evidence: Evidence, shown: str) -> None:
    assert evidence.show() == shown


def test_only_fail_and_blocked_are_not_met() -> None:
    met = {name: Check("x", name).met for name in verdict.SIGNS}
    assert met == {"Pass": True, "Fail": False, "Blocked": False, "Skipped": True, "Not requested": True}
    assert verdict.all_met([Check("a", "Pass"), Check("b", "Skipped")]) and verdict.all_met([])
    assert not verdict.all_met([Check("a", "Pass"), Check("b", "Blocked")])


def test_the_table_folds_reasons_and_shows_hints_of_checks_that_are_not_met() -> None:
    checks = [
        Check("disk", "Blocked", "1.0 GiB free, 5.0 GiB wanted on every host of the cluster", hint="free some disk space"),
        Check("memory", "Pass", "20 GiB", hint="never shown"),
        Check("NVLink", "Skipped", ""),
    ]
    assert verdict.table(checks, 60).splitlines() == [
        "✗ Blocked  disk    1.0 GiB free, 5.0 GiB wanted on every",
        "                   host of the cluster",
        "                   → free some disk space",
        "✓ Pass     memory  20 GiB",
        "– Skipped  NVLink",
    ]
    assert verdict.table(checks[1:2], 60, "worker-0").splitlines() == ["worker-0", "  ✓ Pass     memory  20 GiB"]


def test_the_table_of_no_checks_is_empty() -> None:
    assert verdict.table([], 80) == "" and verdict.table([], 80, "title") == "title"


def test_verdicts_have_colour_only_when_asked() -> None:
    checks = [Check("a", "Pass", "well"), Check("b", "Fail", "ill")]
    plain, coloured = verdict.table(checks, 80), verdict.table(checks, 80, colour=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert "\x1b[32m✓ Pass\x1b[0m" in coloured and "\x1b[31m✗ Fail\x1b[0m" in coloured


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("SUCCEEDED in 1m12s: 20 steps", "\x1b[32mSUCCEEDED\x1b[0m in 1m12s: 20 steps"),
        ("Fail: bridge\n  cause    Fail", "\x1b[31mFail\x1b[0m: bridge\n  cause    Fail"),
        ("Result: Blocked - a step", "Result: \x1b[31mBlocked\x1b[0m - a step"),
        ("- Log capture: Pass - kept", "- Log capture: \x1b[32mPass\x1b[0m - kept"),
        ("the Pass of a step", "the Pass of a step"),
        ("Passed: 3", "Passed: 3"),
    ],
)
def test_the_verdict_of_a_line_has_a_colour_where_colour_is_wanted(text: str, seen: str) -> None:
    assert verdict.painted(text, True) == seen
    assert verdict.painted(text, False) == text
