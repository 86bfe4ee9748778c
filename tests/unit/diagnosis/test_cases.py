"""What to look at where the text of an error says more than the rule that knows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from triaging import triaged

from mvp_helpers.base import documents
from mvp_helpers.diagnosis import signatures

CASES = [case for rule in signatures.load().rules for case in rule.cases]
EXAMPLES = documents.read_yaml(Path(__file__).parent / "cases.yaml")
"""A log of each case in the order of the rules: words of what to look at ``next``; verdict and boundary where it has its own,
phase, code and a call where it asks for them."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: f"{each['rule']}: {each['next']}")
def test_what_to_look_at_follows_from_the_text_of_an_error_that_a_rule_knows(example: dict[str, str], tmp_path: Path) -> None:
    assert example["next"] not in example["log"]
    answer = triaged(tmp_path, example["log"])
    assert answer.rule == example["rule"] and example["next"] in answer.follow_up, answer
    for what in ("verdict", "boundary", "phase"):
        assert getattr(answer, what) == example.get(what, getattr(answer, what)), answer


def test_a_case_says_what_its_error_means_where_the_words_of_its_rule_would_be_wrong(tmp_path: Path) -> None:
    own = [(case, example) for case, example in zip(CASES, EXAMPLES, strict=True) if case.advice]
    assert own
    for case, example in own:
        assert case.advice.partition("{")[0] in triaged(tmp_path, example["log"]).advice, example


def test_every_case_has_an_example_that_no_earlier_case_of_its_rule_takes() -> None:
    cases = [(rule.id, case) for rule in signatures.load().rules for case in rule.cases]
    taken = []
    for each in EXAMPLES:
        own = (case for rule, case in cases if rule == each["rule"])
        facts = each["log"], each.get("phase", "start"), each.get("code", ""), [each.get("call", "")]
        taken.append((each["rule"], next((case for case in own if case.fits(*facts)), None)))
    assert taken == cases
