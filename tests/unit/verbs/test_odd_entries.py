"""Entries of a job's folders that no program of ours makes: second names of other jobs' files, odd names, times and modes.

The verbs end in one line, say what is there, and change nothing outside of the job's folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deep_folders import nest
from truthful_job import seals_of
from two_jobs import EXIT_CODES, OTHER, VICTIM, root

from mvp_helpers import cli
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.job import stall_bundle
from mvp_helpers.keep import sizes
from mvp_helpers.record import chain, job_folder, removals
from mvp_helpers.usage import resources

__all__ = ["root"]
BUNDLE = "debug/20260101T000001.000Z-started"
READ = (
    *(("status",), ("list",), ("logs", VICTIM), ("explain", VICTIM), ("verify", VICTIM), ("report", VICTIM), ("trend", VICTIM)),
    *(("checkpoints", VICTIM), ("checkpoints", "--all"), ("remove-jobs", VICTIM, "--check")),
)
WRITE = (
    *(("debug-bundle", VICTIM), ("host-report", "head", VICTIM, BUNDLE), ("pack-bundle", VICTIM, BUNDLE)),
    *(("verify", VICTIM, "--seal"), ("stop", VICTIM), ("remove-checkpoints", VICTIM, f"{VICTIM}:10", "--keep", "1")),
)


def run_all(folder: JobFolder, capfd: pytest.CaptureFixture[str], verbs: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    """Run verbs; yield what is wrong."""
    for verb in verbs:
        try:
            code = cli.main([str(folder.path / word) if word == BUNDLE else word for word in verb])
        except BaseException as error:
            yield f"{verb}: {type(error).__name__}: {error}"
            capfd.readouterr()
            continue
        out, errors = capfd.readouterr()
        if code not in EXIT_CODES or any(sign in out + errors for sign in ("\x1b", "\r", "\udcff", "Traceback")):
            yield f"{verb}: exit code {code}: {out[-300:]!r} {errors[-300:]!r}"
        if verb[0] == "list" and f"{OTHER}\tSUCCEEDED" not in out:
            yield f"{verb}: {out}{errors}"


def facts_of(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Content, mode and time of every file in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.stat()
        found[str(path)] = (path.read_bytes() if path.is_file() else b"", stat.S_IMODE(facts.st_mode), facts.st_mtime_ns)
    return found


# -- second names of other jobs' files


def test_nothing_is_written_through_a_second_name_of_another_jobs_file(
    root: SharedRoot, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, other = root.job(VICTIM), root.job(OTHER)
    target = other.metrics
    for path in [path for path in folder.path.rglob("*") if path.is_file()]:
        theirs = other.path / path.relative_to(folder.path)
        path.unlink()
        path.hardlink_to(theirs if theirs.is_file() and path != folder.result else target)
    folder.result.unlink()
    shutil.copy(other.result, folder.result)
    folder.result.write_text(folder.result.read_text().replace(f'"{OTHER}"', f'"{VICTIM}"'))
    hosts = folder.path / BUNDLE / "hosts" / "head"
    hosts.mkdir(parents=True)
    drafts = (f".{Path(BUNDLE).name}.tar.zst", f".{Path(BUNDLE).name}.tar.gz")
    for name in ("host.json", "gpus.txt", "kernel.txt", "processes.json", "environment.txt", "report.json"):
        (hosts / name).hardlink_to(target)
    for name in drafts:
        (folder.debug / name).hardlink_to(target)
    for lock in (root.jobs / ".removals.lock", root.jobs / ".chains" / ".lock", seals_of(folder).folder / "seals.lock"):
        lock.unlink(missing_ok=True)
        lock.hardlink_to(target)
    before = facts_of(other.path)
    assert not [*run_all(folder, capfd, WRITE)]
    resources.Log(folder.metrics, 10).add(1.0, 1, [{"host": "a"}])
    report = {"host": "head", "stacks": {1: "x"}, "processes": []}
    stall_bundle._write(folder.path / BUNDLE, [report], stall_bundle.analysis.Finding(kind="unknown", text=""), str.encode)
    assert facts_of(other.path) == before
    assert cli.main(["remove-jobs", VICTIM]) in EXIT_CODES
    assert facts_of(other.path) == before


@pytest.mark.parametrize(
    "put", [lambda path, to: path.symlink_to(to), lambda path, to: path.hardlink_to(to), lambda path, _: os.mkfifo(path), None]
)
def test_a_lock_that_a_job_replaced_locks_again(root: SharedRoot, put: Callable[[Path, Path], None] | None) -> None:
    target = root.job(OTHER).metrics
    before = target.read_bytes()
    for place, locked in ((root.jobs / ".removals.lock", removals.locked), (root.jobs / ".chains" / ".lock", chain.locked)):
        place.unlink(missing_ok=True)
        if put:
            put(place, target)
        else:
            (place / "x").mkdir(parents=True)
        with locked(root), place.open() as handle, pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert target.read_bytes() == before


def test_a_hosts_report_is_not_written_into_another_jobs_bundle(root: SharedRoot, capfd: pytest.CaptureFixture[str]) -> None:
    folder, other = root.job(VICTIM), root.job(OTHER)
    (other.path / BUNDLE / "hosts" / "head").mkdir(parents=True)
    (folder.path / BUNDLE / "hosts").symlink_to(other.path / BUNDLE / "hosts")
    before = facts_of(other.path)
    assert cli.main(["host-report", "head", VICTIM, str(folder.path / BUNDLE)]) == 3
    assert "a link leads out of the job folder" in capfd.readouterr().err and facts_of(other.path) == before


def test_what_a_removal_frees_is_what_it_says(tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "global_step_10", tmp_path / "elsewhere"
    place.mkdir()
    (place / "own").write_bytes(b"x" * 10_000)
    elsewhere.write_bytes(b"x" * 50_000)
    (place / "second").hardlink_to(elsewhere)
    with (place / "hole").open("wb") as stream:
        stream.truncate(1 << 40)
    assert sizes.measured(place)[0] == 10_000


# -- names

NAMES = (
    *(
        b"new\nline",
        b"x\n  \xe2\x9c\x93 Pass     sealed   all is well",
        b"\x1b[2J\x1b[31m",
        b"\r",
        b"\xff\xfe",
        b"-rf",
        b"--help",
    ),
    *(
        b"-",
        b"x" * 255,
        "💀".encode(),
        "\u202eabc".encode(),
        b"back\\slash",
        b" ",
        b"*",
        b"global_step_\xff",
        b"20260101T000009.000Z-\xff",
    ),
)
PLACES = ("", "config", "logs", "logs/hydra", "debug", BUNDLE, "imports", "rollouts", "removed", "reports", "control", "tracking")
CHECKPOINT = "checkpoints/global_step_10"


@pytest.mark.parametrize("kind", [Path.touch, Path.mkdir])
def test_any_name_anywhere_is_sealed_shown_escaped_and_removed(
    root: SharedRoot, capfd: pytest.CaptureFixture[str], kind: Callable[[Path], None]
) -> None:
    folder = root.job(VICTIM)
    made = []
    for place in (*PLACES, "checkpoints", CHECKPOINT, f"{CHECKPOINT}/actor"):
        (folder.path / place).mkdir(exist_ok=True)
        for name in NAMES:
            made.append(folder.path / place / os.fsdecode(name))
            kind(made[-1])
            if made[-1].is_dir():
                (made[-1] / "file").touch()
    assert not [*run_all(folder, capfd, READ)]
    assert cli.main(["verify", VICTIM, "--seal"]) in EXIT_CODES
    assert "  ✓ Pass     sealed    " in capfd.readouterr().out
    for path in made:
        (path / "file" if path.is_dir() else path).write_text("edited")
    cli.main(["verify", VICTIM])
    out = capfd.readouterr().out
    assert "  ✗ Fail     sealed    " in out and "✓ Pass     sealed" not in out
    assert not [*run_all(folder, capfd, WRITE)]
    assert (cli.main(["remove-jobs", VICTIM]), folder.path.exists()) == (0, False)


# -- depth


def test_folders_nested_deeply_harm_only_their_job_and_are_removed(root: SharedRoot, capfd: pytest.CaptureFixture[str]) -> None:
    folder = root.job(VICTIM)
    for place in (CHECKPOINT, BUNDLE):
        nest(folder.path / place, 1100)
    assert not [*run_all(folder, capfd, (*READ, *WRITE))]
    assert not (folder.path / CHECKPOINT).exists()
    assert (cli.main(["remove-jobs", VICTIM]), [*root.jobs.glob(f"*{VICTIM}*")]) == (0, [])


# -- times

TIMES = {"before 1970": -(10**9), "of the year 2200": 7_258_118_400, "of no calendar": 1 << 40, "the largest": (1 << 63) // 10**9}


@pytest.mark.parametrize("when", TIMES)
def test_no_time_of_a_file_harms_the_list_of_all_checkpoints(
    root: SharedRoot, capfd: pytest.CaptureFixture[str], when: str
) -> None:
    folder = root.job(VICTIM)
    for path in folder.path.rglob("*"):
        os.utime(path, (TIMES[when], TIMES[when]))  # the file system may have a latest time of its own
    assert not [*run_all(folder, capfd, READ)]
    cli.main(["checkpoints", "--all"])
    assert f"\n{OTHER} " in f"\n{capfd.readouterr().out}"


def test_a_time_that_no_calendar_has_is_shown_as_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(sizes, "_measured", lambda folder, levels: (os.close(folder), (1, float(1 << 60)))[1])
    assert sizes.measured(tmp_path) == (1, sizes.LATEST)


# -- modes


def without_privilege(root: SharedRoot, *verb: str) -> subprocess.CompletedProcess[str]:
    """Run a verb as the owner of the files for whom their modes count: root's do not."""
    argv = [sys.executable, "-m", "mvp_helpers", *verb]
    if not os.geteuid():
        if not shutil.which("setpriv"):
            pytest.skip("no setpriv here")
        argv = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--", *argv]
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "lib")}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "name", ["logs/driver.log", "logs", "metrics.jsonl", CHECKPOINT, "config/resolved.yaml", "debug", "removed"]
)
def test_what_a_job_made_unreadable_is_named_and_the_rest_is_sealed(root: SharedRoot, name: str) -> None:
    folder = root.job(VICTIM)
    folder.seal.unlink()
    (seals_of(folder).folder / "seals" / VICTIM).unlink()
    (folder.path / "removed").mkdir()
    (folder.path / name).chmod(0)
    done = without_privilege(root, "verify", VICTIM, "--seal")
    (folder.path / name).chmod(0o700)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert (
        f"✗ Fail     sealed                   not sealed, the sealer could not read it: {name} (Permission denied)" in done.stdout
    )
    sealed = seals_of(folder).read(folder).contents
    assert sealed.unread == {name: "Permission denied"} and "result.json" in sealed.files
    # What can be read now was not sealed.
    assert name in seals_of(folder).compare(seals_of(folder).read(folder), folder).changed or (folder.path / name).is_dir()


@pytest.mark.parametrize("place", ["", CHECKPOINT, f"{CHECKPOINT}/actor", "logs"])
def test_a_job_of_mode_000_can_be_listed_and_removed(root: SharedRoot, place: str) -> None:
    folder = root.job(VICTIM)
    for path in (*(folder.path / place).iterdir(), folder.path / place):
        if path != folder.result:
            path.chmod(0)
    for verb in (("checkpoints", "--all"), ("list",), ("status",)):
        done = without_privilege(root, *verb)
        assert done.returncode == 0 and OTHER in done.stdout, done.stderr
    if place:
        done = without_privilege(root, "remove-jobs", VICTIM)
        assert done.returncode == 0 and not folder.path.exists() and not [*root.jobs.glob(f".*{VICTIM}*")], done.stderr
        assert job_folder.read(root.job(OTHER)).ended
    else:
        folder.path.chmod(0o700)
