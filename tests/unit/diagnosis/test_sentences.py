"""What to look at after errors that a library raises for one reason only, and the verdict and boundary that they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from triaging import triaged

from mvp_helpers.base import documents
from mvp_helpers.diagnosis import signatures

EXAMPLES = [each for file in sorted((Path(__file__).parent / "sentences").glob("*.yaml")) for each in documents.read_yaml(file)]
"""One of each, in the order of the files: words of what to look at ``next``; verdict and boundary, unless its place decides."""
ERRORS = [each["error"] for each in EXAMPLES]

OWN, TRAINER = "/work/own/steps.py", "/opt/venv/lib/python3.12/site-packages/transformers/trainer.py"
STEP = "(TaskRunner pid=1) step:1 - actor/loss:0.5 - training/global_step:1\n"


def raised(error: str, file: str, call: str = "work", code: str = "x()") -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line 11, in {call}\n    {code}\n{error}\n'


def files(example: dict[str, str]) -> list[str]:
    """Return the code that raises the example."""
    return [example["file"]] if "file" in example else [TRAINER] if example["error"].startswith("KeyError") else [OWN, TRAINER]


@pytest.mark.parametrize("example", EXAMPLES, ids=ERRORS)
def test_what_to_look_at_follows_from_the_sentence_wherever_it_is_raised(example: dict[str, str], tmp_path: Path) -> None:
    error, word, verdict = example["error"], example["next"], example.get("verdict")
    assert word not in error
    for file in files(example):
        answer = triaged(tmp_path, raised(error, file, example.get("call", "work"), example.get("code", "x()")))
        assert not answer.rule and word in answer.follow_up, answer
        assert answer.verdict in ("Fail", "Blocked")
        assert verdict is None or (answer.verdict, answer.boundary) == (verdict, example["boundary"])


AROUND = {
    "dependency",
    "host",
    "rollout engine",
    "model hub",
    "launcher",
    "tracker",
    "network",
    "disk",
    "container",
    "cluster",
    "Ray",
    "Slurm",
}
"""Boundaries around the code under test, whatever was trained before."""


@pytest.mark.parametrize("error", [each["error"] for each in EXAMPLES if each.get("boundary", "host") not in AROUND])
def test_after_a_step_no_sentence_about_inputs_makes_it_blocked(error: str, tmp_path: Path) -> None:
    assert triaged(tmp_path, STEP + raised(error, TRAINER)).verdict == "Fail"


def test_every_sentence_has_an_example_that_no_earlier_one_takes() -> None:
    known = signatures.load().sentences
    patterns = [(re.compile(each.evidence), re.compile(each.code)) for each in known]  # more than re keeps
    raising = [f"{files(each)[0]}:{each.get('call', 'work')}\n{each.get('code', 'x()')}" for each in EXAMPLES]
    first = [
        next((at for at, (evidence, by) in enumerate(patterns) if evidence.search(error) and by.search(code)), None)
        for error, code in zip(ERRORS, raising, strict=True)
    ]
    assert first == list(range(len(known)))
    assert all(bool(each.verdict) == bool(each.boundary) for each in known)
