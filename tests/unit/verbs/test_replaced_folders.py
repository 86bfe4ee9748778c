"""A job that puts something else in the place of its folders and files: the verbs end in one line, and no other job is touched.

Links are the dangerous kind: what the verbs write or remove below one would be in another job's folder.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from truthful_job import seals_of
from two_jobs import EXIT_CODES, OTHER, VICTIM, root

from mvp_helpers import cli
from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.cluster import cluster_file
from mvp_helpers.record import control, job_folder, seal_request
from mvp_helpers.seal import sealer
from mvp_helpers.trainers import verl_rollouts
from mvp_helpers.usage import resources

__all__ = ["root"]
FOLDERS = ("", "config", "logs", "debug", "checkpoints", "imports", "rollouts", "control", "removed", "reports")
BUNDLE = "debug/20260101T000001.000Z-started"
VERBS = (
    *(("status",), ("list",), ("logs", VICTIM), ("explain", VICTIM), ("verify", VICTIM), ("verify", VICTIM, "--seal")),
    *(("report", VICTIM), ("trend", VICTIM), ("samples", VICTIM), ("debug-bundle", VICTIM)),
    *(("checkpoints", VICTIM, "--keep", "1"), ("remove-checkpoints", VICTIM, f"{VICTIM}:10", "--keep", "1")),
    ("remove-jobs", VICTIM, "--check"),
)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # the path of a socket has 107 bytes at most
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


def no_folder(path: Path, _: Path) -> None:
    """Put a pipe, a socket, a device or a file there, another one for each name."""
    kinds: tuple[Callable[[Path], object], ...] = (os.mkfifo, a_socket, Path.touch, an_endless_device)
    kinds[FOLDERS.index(path.name if path.name in FOLDERS else "") % len(kinds)](path)


def an_endless_device(path: Path) -> None:
    try:
        os.mknod(path, 0o20666, os.makedev(1, 5))
    except PermissionError:  # only root can
        path.symlink_to("/dev/zero")


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "a link to the other job's": lambda path, other: path.symlink_to(other),
    "a link to everything": lambda path, _: path.symlink_to("/"),
    "no folder": no_folder,
}


def state_of(folder: Path) -> dict[str, bytes | str]:
    """Everything in a folder: the content of each file, the target of each link."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()} | {
        str(path): "folder" for path in sorted(folder.rglob("*")) if path.is_dir()
    }


def run_all(bundle: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[str]:
    """Run every verb; yield what is wrong."""
    for verb in (*VERBS, ("host-report", "head", VICTIM, str(bundle)), ("pack-bundle", VICTIM, str(bundle))):
        try:
            code = cli.main(list(verb))
        except BaseException as error:
            yield f"{verb}: {type(error).__name__}: {error}"
            continue
        out, errors = capfd.readouterr()
        if code not in EXIT_CODES or "Traceback" in out + errors:
            yield f"{verb}: exit code {code}: {errors[-300:]}"
        elif verb == ("list",) and f"{OTHER}\tSUCCEEDED" not in out:
            yield f"{verb}: {out}{errors}"


@pytest.mark.parametrize("kind", KINDS)
def test_no_folder_of_a_job_that_was_replaced_harms_another_job(
    root: SharedRoot, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    folder, other, aside = root.job(VICTIM).path, root.job(OTHER).path, root.root / "aside"
    (other / "rollouts").mkdir()
    (other / "rollouts" / "10.jsonl").write_text('{"input": "1+1", "output": "2", "score": 1.0}\n')
    before, problems = state_of(other), []
    for name in FOLDERS:
        place = folder / name
        if there := place.exists():
            place.rename(aside)
        KINDS[kind](place, other / name)
        problems += [f"{name or 'the whole folder'} is {kind}: {problem}" for problem in run_all(folder / BUNDLE, capfd)]
        problems += [f"{name or 'the whole folder'} is {kind}: the other job changed"] * (state_of(other) != before)
        shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink(missing_ok=True)
        if there:
            aside.rename(place)
    assert not problems, "\n".join(problems)


def test_a_job_that_replaced_its_folder_by_another_jobs_is_not_sealed_there(root: SharedRoot) -> None:
    folder, other = root.job(VICTIM), root.job(OTHER)
    other.seal.unlink()
    shutil.rmtree(folder.path)
    folder.path.symlink_to(other.path)
    before = state_of(other.path)
    seal_request.make(folder, "local")
    sealer._seal_all(cluster_file.from_environment(), {}, lambda _: None, None)
    with pytest.raises(BadInput, match=f"it is of job '{OTHER}'"):
        seals_of(folder).seal_now(folder)
    assert state_of(other.path) == before


def test_what_a_running_job_linked_to_another_jobs_files_stays_as_it_is(root: SharedRoot) -> None:
    folder, other = root.job(VICTIM), root.job(OTHER)
    (other.rollouts).mkdir()
    (other.rollouts / "1.jsonl").write_text("{}\n")
    before = state_of(other.path)
    folder.rollouts.symlink_to(other.rollouts)
    verl_rollouts.prune(folder.rollouts, 0)
    folder.resources.symlink_to(other.metrics)
    resources.Log(folder.resources, 10).add(1.0, 1, [{"host": "a"}])
    shutil.rmtree(folder.control)
    folder.control.symlink_to(other.control)
    with pytest.raises(OSError, match="a link leads out of the job folder"):
        control.ask_save(folder)
    assert state_of(other.path) == before


def test_a_pipe_in_the_place_of_the_samples_holds_up_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "resources.jsonl")
    resources.Log(tmp_path / "resources.jsonl", 10).add(1.0, 1, [{"host": "a"}])


def test_a_job_folder_on_another_disk_is_still_its_own(root: SharedRoot, tmp_path: Path) -> None:
    folder = root.job(VICTIM)
    shutil.move(folder.path, tmp_path / "larger" / VICTIM)
    folder.path.symlink_to(tmp_path / "larger" / VICTIM)
    assert job_folder.read(folder).submission_id == VICTIM
    JobFolder(folder.path).check_own(folder.checkpoints)
