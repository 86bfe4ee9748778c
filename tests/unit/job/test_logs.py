"""A job's log from its folder: byte for byte, to the end, from a moment on; and a progress line that never damages it."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_ray import FakeRay

from mvp_helpers.base import times
from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import now
from mvp_helpers.job import follow, logs
from mvp_helpers.record import job_folder, log_times
from mvp_helpers.record.job_folder import Result

MOMENT = 1_700_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    claimed = job_folder.claim(SharedRoot(tmp_path), Result(submission_id="a", workload="ppo", state="CLAIMED"))
    set_state(claimed, state="RUNNING", started_at=now())
    return claimed


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    monkeypatch.setattr(logs, "POLL_S", 0.01)
    with FakeRay() as server:
        yield server


def set_state(folder: JobFolder, **fields: Any) -> None:
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), **fields))


def log(folder: JobFolder, text: bytes) -> None:
    with folder.driver_log.open("ab") as stream:
        stream.write(text)


def note(folder: JobFolder, seconds: float, size: int) -> None:
    with folder.log_times.open("a") as stream:
        stream.write(f"{int((MOMENT + seconds) * 1000)} {size}\n")


def no_talk(text: str) -> None:
    pytest.fail(f"said {text!r}")


def later(*actions: Callable[[], object]) -> threading.Thread:
    def act() -> None:
        for action in actions:
            time.sleep(0.05)
            action()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_raw_log_comes_byte_for_byte(folder: JobFolder, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    everything = bytes(range(256)) * 5000 + b"\r 10%|#\r 20%|##\nno newline at the end"
    log(folder, everything)
    logs.show(folder, None, no_talk, raw=True)
    assert capfdbinary.readouterr().out == everything


def test_nothing_in_a_log_acts_on_the_terminal(
    folder: JobFolder, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "CHUNK", 3)  # every sequence and character comes in pieces
    text = "\x1b[36m(Worker pid=1)\x1b[0m loss\t漢 10%\r20%\r\n\x1b]0;title\x07 \x1b[2J \x9b31m \u202ereversed\x00\x7f\n"
    log(folder, text.encode() + b"\x9b2J \xe6\xbc cut \x1b[3")
    logs.show(folder, None, no_talk)
    assert capfdbinary.readouterr().out.decode() == (
        "(Worker pid=1) loss\t漢 10%\r20%\r\n\\x1b]0;title\\x07 \\x1b[2J \\x9b31m \\u202ereversed\\x00\\x7f\n"
        "\\x9b2J \\xe6\\xbc cut \\x1b[3"
    )


def test_a_log_that_is_no_file_is_named(folder: JobFolder) -> None:
    os.mkfifo(folder.driver_log)
    with pytest.raises(BadInput, match=r"cannot read .*driver\.log: not a regular file"):
        logs.show(folder, None, no_talk)


def test_a_job_that_logged_nothing_says_its_state(folder: JobFolder) -> None:
    set_state(folder, state="NOT_SUBMITTED", reason="the head had no memory left")
    said: list[str] = []
    logs.show(folder, None, said.append)
    assert said == ["job 'a' has not logged anything: NOT_SUBMITTED, the head had no memory left"]


def test_a_follower_gets_every_byte_and_the_ending(
    folder: JobFolder, ray: FakeRay, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder.driver_log.unlink(missing_ok=True)
    pieces = [b"first\nsecond", b" goes on\r", b"third\n" * 100_000, b"no newline"]

    def end() -> None:
        log(folder, pieces[3])
        set_state(folder, state="FAILED", reason="the trainer ended with exit code 7", ended_at=now())

    thread = later(*(lambda piece=piece: log(folder, piece) for piece in pieces[:3]), end)
    said: list[str] = []
    result = logs.follow(folder, ray.api(), None, said.append)
    thread.join()
    assert capfdbinary.readouterr().out == b"".join(pieces)
    assert result.state == "FAILED"
    assert said[-1].startswith("FAILED in ") and "exit code 7" in said[-1]


def test_what_the_runner_wrote_just_before_its_last_word_is_not_missed(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    look = follow.Watch.look

    def look_late(watch: follow.Watch) -> Result:
        log(folder, b"last words\n")
        set_state(folder, state="SUCCEEDED", ended_at=now())
        monkeypatch.setattr(follow.Watch, "look", look)
        return look(watch)

    monkeypatch.setattr(follow.Watch, "look", look_late)
    logs.follow(folder, ray.api(), None, lambda _: None)
    assert capfdbinary.readouterr().out == b"last words\n"


def test_a_follower_of_a_job_whose_runner_died_hears_of_it_from_ray(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "ASK_RAY_S", 0.05)
    ray.has_job("a", "FAILED", message="the worker node died")
    assert logs.follow(folder, ray.api(), None, lambda _: None).reason == "the worker node died"
    assert job_folder.read(folder).state == "FAILED"


def test_a_ray_that_hangs_does_not_hold_up_the_log(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(follow, "ASK_RAY_S", 0.0)
    ray.has_job("a", "RUNNING")
    ray.delays["/api/jobs/a"] = 30.0
    thread = later(lambda: log(folder, b"x"), lambda: set_state(folder, state="SUCCEEDED", ended_at=now()))
    began = time.monotonic()
    logs.follow(folder, ray.api(timeout_s=60.0), None, lambda _: None)
    thread.join()
    assert ray.asked == ["/api/jobs/a"] and time.monotonic() - began < 25, "the log waited for Ray"
    assert capfdbinary.readouterr().out == b"x"


def test_a_follower_gives_up_when_neither_ray_nor_the_runner_gives_a_sign(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "ASK_RAY_S", 0.0)
    monkeypatch.setattr(follow, "SILENT_S", 0.2)
    api = ray.api()
    ray.close()
    before = folder.result.read_bytes()
    with pytest.raises(
        Blocked, match=r"the state of job 'a' is unknown \(last known: RUNNING\).* its runner has written nothing"
    ):
        logs.follow(folder, api, None, lambda _: None)
    assert folder.result.read_bytes() == before, "what nobody knows was written down"


def test_a_living_runner_is_followed_although_ray_is_gone(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "ASK_RAY_S", 0.0)
    monkeypatch.setattr(follow, "SILENT_S", 0.4)
    api = ray.api()
    ray.close()

    def signs() -> None:
        for number in range(20):
            note(folder, number, 0)
            time.sleep(0.03)
        set_state(folder, state="SUCCEEDED", ended_at=now())

    thread = threading.Thread(target=signs)
    thread.start()
    result = logs.follow(folder, api, None, lambda _: None)
    thread.join()
    assert result.state == "SUCCEEDED"


def test_since_begins_with_the_line_of_that_moment(folder: JobFolder, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log(folder, b"one\ntwo\nthree\nfour\n")
    for seconds, size in ((0, 0), (1, 4), (2, 6), (30, 14), (40, 19)):
        note(folder, seconds, size)
    for seconds, expected in (
        (-10, b"one\ntwo\nthree\nfour\n"),
        (1, b"two\nthree\nfour\n"),
        (2.5, b"two\nthree\nfour\n"),  # in the middle of a line: the whole line
        (35, b"four\n"),
        (50, b""),
    ):
        logs.show(folder, MOMENT + seconds, no_talk)
        assert capfdbinary.readouterr().out == expected, f"since {seconds}"


def test_times_cut_short_by_a_full_disk_are_passed_over(folder: JobFolder) -> None:
    log(folder, b"one\ntwo\nthree\n")
    note(folder, 1, 4)
    with folder.log_times.open("a") as stream:
        stream.write("17000000")
    note(folder, 2, 8)
    note(folder, 3, 8)
    assert logs.start_of(folder, MOMENT + 2.5) == 4
    assert logs.start_of(folder, MOMENT + 3) == 8


def test_since_without_times_is_refused_and_says_what_to_do(folder: JobFolder) -> None:
    log(folder, b"one\n")
    with pytest.raises(BadInput, match="were not recorded") as caught:
        logs.show(folder, MOMENT, no_talk)
    assert caught.value.hint == "./scripts/51_logs.sh a"


def test_since_before_the_first_line_shows_what_comes(folder: JobFolder) -> None:
    assert logs.start_of(folder, MOMENT) == 0


@pytest.mark.parametrize(("text", "ago"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("2d", 172800), ("0s", 0)])
def test_spans(text: str, ago: float) -> None:
    assert times.since(text) == pytest.approx(time.time() - ago, abs=5)


@pytest.mark.parametrize("text", ["2023-11-14T22:13:20", "2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00"])
def test_moments_are_utc_unless_they_say_otherwise(text: str) -> None:
    assert times.since(text) == MOMENT


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "-5m", "yesterday", "2023-13-01"])
def test_what_is_neither_span_nor_moment_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a duration \\(10m\\) or a UTC time"):
        times.since(text)


def test_the_runner_notes_when_the_log_grew_and_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_times, "EVERY_S", 0.01)
    monkeypatch.setattr(log_times, "ALIVE_S", 0.1)
    noted, ended = tmp_path / "driver.times", threading.Event()
    with (tmp_path / "driver.log").open("ab", buffering=0) as stream:
        keeper = threading.Thread(target=log_times.keep, args=(noted, stream, ended))
        keeper.start()
        wait_for(lambda: noted.exists() and b" 0\n" in noted.read_bytes())
        stream.write(b"12345")
        wait_for(lambda: b" 5\n" in noted.read_bytes())
        grown = time.time()
        wait_for(lambda: noted.read_bytes().count(b" 5\n") > 2)
        ended.set()
        keeper.join()
    assert log_times.offset_at(noted, grown + 1) == 5
    assert log_times.offset_at(noted, 0) == 0


def test_a_log_whose_times_cannot_be_kept_is_kept(tmp_path: Path) -> None:
    with (tmp_path / "driver.log").open("ab", buffering=0) as stream:
        log_times.keep(tmp_path / "no" / "driver.times", stream, threading.Event())


def test_on_a_terminal_the_progress_line_never_cuts_into_the_log(
    folder: JobFolder, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """stdout and stderr are one terminal; after every piece the screen is read as a person would see it."""
    master, slave = pty.openpty()
    terminal = os.fdopen(slave, "w", buffering=1)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    seen = io.BytesIO()

    def read() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(master, 65536):
                seen.write(piece)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    thread = later(
        lambda: log(folder, b"loading"),
        lambda: log(folder, b" done\nstep"),
        lambda: log(folder, b" 1\n"),
        lambda: set_state(folder, state="SUCCEEDED", ended_at=now()),
    )
    logs.follow(folder, ray.api(), None, lambda _: None)
    thread.join()
    terminal.close()
    reader.join(120)
    screen = b"\n".join(line.rpartition(b"\r\x1b[K")[2] for line in seen.getvalue().replace(b"\r\n", b"\n").split(b"\n"))
    assert screen == b"loading done\nstep 1\n"
    assert b"a: precheck" in seen.getvalue(), "no progress line was drawn"


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
