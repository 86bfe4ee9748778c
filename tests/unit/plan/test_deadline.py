"""Deadlines of a job: what a JobSpec may say, which of several counts, and the end of a Slurm allocation."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.plan import deadline

NEW_YEAR = 4102444800.0  # 2100-01-01T00:00:00Z


@pytest.mark.parametrize(
    "value",
    [NEW_YEAR, int(NEW_YEAR), "4102444800", "2100-01-01", "2100-01-01T00:00Z", "2100-01-01T00:00", "2100-01-01T01:00+01:00"],
)
def test_a_moment_is_unix_time_or_utc(value: float | str) -> None:
    assert deadline.save_by(value, "job.json") == NEW_YEAR


@pytest.mark.parametrize("value", ["", "soon", "10m", "-1", 0, 3600, "nan", "inf", 4102444800000, "2100-13-01", "٣"])
def test_anything_else_is_bad_input_with_the_value_and_what_to_write(value: int | str) -> None:
    with pytest.raises(BadInput) as error:
        deadline.save_by(value, "job.json")
    assert error.value.what.startswith(f"job.json: save_by: {value!r} is not a ") and "UTC" in error.value.hint


def test_a_moment_in_the_past_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"job\.json: save_by '2020-01-01T00:00' is in the past"):
        deadline.save_by("2020-01-01T00:00", "job.json")


def test_without_any_there_is_no_deadline() -> None:
    assert deadline.save_by(None, "job.json") is None and deadline.nearest(None, {}) is None


def test_the_earliest_counts_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "slurm_end", lambda _: 3e9)
    environment = {"MVP_DEADLINE": "2100-01-01T00:00", "SLURM_JOB_ID": "7"}
    found = deadline.nearest(NEW_YEAR + 1, environment)
    assert found and (found.at, found.source) == (3e9, "the end of Slurm allocation 7")
    found = deadline.nearest(2e9, environment)
    assert found and (found.at, found.source) == (2e9, "save_by of the JobSpec")
    monkeypatch.setattr(deadline, "slurm_end", lambda _: None)
    found = deadline.nearest(NEW_YEAR + 1, environment)
    assert found and (found.at, found.source) == (NEW_YEAR, "MVP_DEADLINE")


def test_a_variable_that_is_not_a_moment_is_named() -> None:
    with pytest.raises(BadInput, match="MVP_DEADLINE: 'tomorrow' is not a UTC time"):
        deadline.nearest(None, {"MVP_DEADLINE": "tomorrow"})


def test_the_end_of_a_slurm_allocation_is_asked_of_slurm_in_its_local_time() -> None:
    asked = []

    def squeue(argv: list[str]) -> str:
        asked.append(argv)
        return "2100-01-01T00:00:00\n"

    end = deadline.slurm_end({"SLURM_JOB_ID": "4711"}, squeue)
    assert end == dt.datetime(2100, 1, 1).timestamp()
    assert asked == [["squeue", "--noheader", "--jobs=4711", "--format=%e"]]


@pytest.mark.parametrize("answer", ["", "N/A\n", "NONE", "slurm_load_jobs error: Unable to contact slurm controller"])
def test_an_allocation_without_an_end_is_no_deadline(answer: str) -> None:
    assert deadline.slurm_end({"SLURM_JOB_ID": "4711"}, lambda _: answer) is None


def test_outside_of_slurm_nothing_is_asked() -> None:
    def ask(argv: list[str]) -> str:
        raise AssertionError(argv)

    assert deadline.slurm_end({}, ask) is None and deadline.slurm_end({"SLURM_JOB_ID": "; rm"}, ask) is None


def test_a_slurm_that_is_not_there_or_hangs_is_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    began = time.monotonic()
    assert deadline.slurm_end({"SLURM_JOB_ID": "4711"}) is None
    assert time.monotonic() - began < 5
