"""A terabyte that a job has not written: a sparse file costs it nothing, and must cost those who read it little.

Each file that is read back gets a hole of a terabyte behind its content, or is one, or has its content behind one.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from truthful_job import change_result, seals_of
from two_jobs import EXIT_CODES, OTHER, VICTIM, root

from mvp_helpers import cli
from mvp_helpers.base import files
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.record import metrics
from mvp_helpers.trainers import verl_rollouts

__all__ = ["root"]
HOLE = 1 << 40
ENDLESS_S = 60
"""When a verb is called endless: reading the hole takes ten minutes, what the verb does a fraction of a second."""
ROOM = 2 << 30
BUNDLE = "debug/20260101T000001.000Z-started"
SHAPES = ("only a hole", "a hole behind it", "a hole before it")
VERIFY, REPORT, EXPLAIN, STATUS = ("verify", VICTIM), ("report", VICTIM), ("explain", VICTIM), ("status", "--json")
LIST, CHECKPOINTS, PACK = ("list",), ("checkpoints", VICTIM), ("pack-bundle", VICTIM, BUNDLE)
VERBS: dict[str, tuple[tuple[str, ...], ...]] = {
    "logs/driver.log": (VERIFY, REPORT, EXPLAIN, PACK, ("logs", VICTIM), ("logs", VICTIM, "--since", "1h")),
    "logs/driver.times": (VERIFY, REPORT, ("logs", VICTIM, "--since", "1h")),
    "metrics.jsonl": (STATUS, VERIFY, ("report", VICTIM, OTHER), EXPLAIN, PACK, ("trend", VICTIM)),
    "rollouts/10.jsonl": (REPORT, ("samples", VICTIM), ("samples", VICTIM, "--json")),
    "resources.jsonl": (REPORT,),
    "result.json": (STATUS, LIST, VERIFY, EXPLAIN, ("logs", VICTIM), ("remove-jobs", VICTIM, "--check")),
    "precheck.json": (VERIFY, PACK),
    "config/resolved.yaml": (STATUS, VERIFY, EXPLAIN, CHECKPOINTS, ("samples", VICTIM)),
    "config/job_spec.json": (VERIFY, ("report", VICTIM, OTHER)),
    "config/provenance.json": (VERIFY, ("report", VICTIM, OTHER), CHECKPOINTS),
    "config/submit_cmd.txt": (VERIFY, REPORT, PACK),
    "imports/vm-10.json": (VERIFY,),
    "control/trainer.json": (STATUS, EXPLAIN),
    "checkpoints/global_step_25/actor/model_world_size_2_rank_0.pt": (VERIFY, CHECKPOINTS, ("checkpoints", "--all")),
    "checkpoints/global_step_25/actor/fsdp_config.json": (VERIFY, CHECKPOINTS),
    "checkpoints/latest_checkpointed_iteration.txt": (VERIFY, CHECKPOINTS),
    f"{BUNDLE}/job.json": (VERIFY, EXPLAIN, PACK),
    f"{BUNDLE}/bundle.json": (VERIFY, PACK),
}


class Endless(BaseException):
    """Not an Exception: a verb may survive any of those."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Let what reads a whole hole, or keeps it in memory, end."""

    def end(*_: Any) -> None:
        raise Endless

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, end)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, limits[1]))
    signal.alarm(ENDLESS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def hollow(path: Path, shape: str) -> None:
    """Add a hole to a file. Skip the test where the file system has none."""
    good = path.read_bytes()
    path.write_bytes(good if shape == "a hole behind it" else b"")
    os.truncate(path, HOLE)
    with path.open("r+b") as stream:
        if os.lseek(stream.fileno(), 1 << 30, os.SEEK_HOLE) != 1 << 30:
            pytest.skip("this file system has no holes")
        if shape == "a hole before it":
            stream.seek(0, os.SEEK_END)
            stream.write(b"\n" + good)


def refused(verb: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> str:
    """Run a verb; return what is wrong with how it ended."""
    try:
        with bounded():
            code = cli.main(list(verb))
    except BaseException as error:
        capfd.readouterr()
        return f"{verb}: {type(error).__name__}: {error}"
    out, errors = capfd.readouterr()
    if code not in EXIT_CODES or "Traceback" in out + errors or len(out) > 200_000:
        return f"{verb}: exit code {code}, {len(out)} characters: {errors[-300:]}"
    if code in (2, 3) and len(errors.splitlines()) > 2:
        return f"{verb}: {errors}"
    return f"{verb}: {out}" if verb == ("list",) and f"{OTHER}\tSUCCEEDED" not in out else ""


@pytest.fixture
def unsealed(root: SharedRoot) -> SharedRoot:
    """The victim has no seal: 54 reads a sealed job's files whole, by design."""
    folder = root.job(VICTIM)
    folder.rollouts.mkdir()
    (folder.rollouts / "10.jsonl").write_text('{"input": "1+1", "output": "2", "score": 1.0}\n')
    folder.resources.write_text('{"at": 1, "host": "a"}\n')
    folder.seal.unlink()
    (seals_of(folder).folder / "seals" / VICTIM).unlink()
    return root


def test_a_hole_in_a_file_of_a_job_costs_its_readers_nothing(unsealed: SharedRoot, capfd: pytest.CaptureFixture[str]) -> None:
    folder, problems = unsealed.job(VICTIM), []
    for name, verbs in VERBS.items():
        path = folder.path / name
        good = path.read_bytes()
        hollow(path, "a hole behind it")
        for verb in verbs:
            argv = tuple(str(folder.path / word) if word == BUNDLE else word for word in verb)
            problems += [f"{name}: {problem}" for problem in [refused(argv, capfd)] if problem]
        path.unlink()
        path.write_bytes(good)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hole_in_the_log_of_a_failed_job_hides_nothing_and_costs_nothing(
    unsealed: SharedRoot, capfd: pytest.CaptureFixture[str], shape: str
) -> None:
    folder = unsealed.job(VICTIM)
    change_result(folder, state="FAILED", exit_code=1, reason="the trainer ended with exit code 1")
    log = folder.driver_log.read_text() + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    folder.driver_log.write_text(log)
    hollow(folder.driver_log, shape)
    hollow(folder.metrics, shape)
    for verb in (
        VERIFY,
        ("logs", VICTIM),
        ("trend", VICTIM),
        ("triage", str(folder.driver_log)),
        ("triage", str(folder.metrics)),
    ):
        assert not refused(verb, capfd)
    with bounded():
        cli.main(["explain", VICTIM, "--json"])
    assert ("gpu-memory" in capfd.readouterr().out) == (shape != "only a hole")


def test_lines_around_a_hole_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    os.truncate(path, HOLE)
    with path.open("ab") as stream:
        stream.write(b"o\nthree\n")
    with bounded(), path.open("rb") as stream:
        assert list(files.lines(stream, 1 << 16)) == [(1, b"one\n"), (2, b"tw"), (2, b"o\n"), (3, b"three\n")]


def test_zeros_that_were_written_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" + bytes(100_000) + b"b\n")
    with path.open("rb") as stream:
        assert b"".join(piece for _, piece in files.lines(stream, 1 << 10)) == path.read_bytes()


READERS: dict[str, Callable[[Path], object]] = {
    "the job runner's watch for stalls": lambda path: metrics.Metrics(path).refresh(),
    "the job runner's look at the last step": metrics.tail,
    "the job runner's limit of samples": lambda path: verl_rollouts.prune(path.parent, 1),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_job_runner_outlives_a_hole_in_what_its_trainer_writes(tmp_path: Path, reader: str, shape: str) -> None:
    path = tmp_path / "7.jsonl"
    path.write_text('{"step": 1, "data": {"critic/score/mean": 0.5}}\n')
    hollow(path, shape)
    with bounded():
        READERS[reader](path)


def test_steps_behind_a_hole_are_found(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "data": {"critic/score/mean": 0.5}}\n')
    hollow(path, "a hole behind it")
    with path.open("ab") as stream:
        stream.write(b'\n{"step": 2, "data": {"critic/score/mean": 0.7}}\n')
    with bounded():
        found = metrics.read(path)
    assert (found.trained, found.damaged, found.lines[2]) == ([1, 2], [2], 3)
