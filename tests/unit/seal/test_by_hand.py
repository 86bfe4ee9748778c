"""The commands of docs/evidence.md that check a seal without this toolkit work when pasted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from truthful_job import good_job, seals_of, write_bundle

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.record import removals
from mvp_helpers.seal import key

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("jq", "openssl"))), reason="no jq or no openssl here")


@pytest.fixture
def sealed(tmp_path: Path) -> JobFolder:
    """A job that was sealed in two statements."""
    job = good_job(SharedRoot(tmp_path), "job")
    seals_of(job).seal_now(job)
    seals_of(job).add(job, write_bundle(job, "on-demand", 9))
    return job


def paste(job: JobFolder, public: Path) -> list[str]:
    """Return the lines that the documented commands print for a job."""
    text = (PROJECT / "docs" / "evidence.md").read_text()
    [block] = re.findall(r"^```bash\n(job=.*?)^```$", text, re.MULTILINE | re.DOTALL)
    _, _, commands = block.partition("\n")
    script = f"job={job.path} key={public}\n{commands}"
    run = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.stdout.splitlines()


def test_they_accept_a_seal_and_name_every_edit(sealed: JobFolder, tmp_path: Path) -> None:
    public = seals_of(sealed).folder / key.PUBLIC
    lines = paste(sealed, public)
    assert lines.count("Signature Verified Successfully") == 2 and lines[-1] == "every sealed file is unchanged"
    assert [line.partition(",")[0] for line in lines if line.startswith("job: ")] == ["job: later", "job: added"]

    (sealed.config / "twin").write_bytes(sealed.metrics.read_bytes())
    sealed.metrics.write_text("")
    sealed.precheck.unlink()
    sealed.result.rename(tmp_path / "result.json")
    sealed.result.symlink_to(tmp_path / "result.json")
    (sealed.config / sealed.seal.name).write_text("x")
    lines = paste(sealed, public)
    named = sorted(line.split()[0] + " " + line.split()[-1] for line in lines if line.startswith(("sealed: ", "present: ")))
    assert named == [
        *("present: ./config/seal.intoto.jsonl", "present: ./config/twin", "present: ./metrics.jsonl", "present: ./result.json"),
        *("sealed: ./metrics.jsonl", "sealed: ./precheck.json", "sealed: ./result.json"),
    ]
    assert "every sealed file is unchanged" not in lines


NAMES = [
    b"new\nline",
    b"\x1b[31mred",
    b"\xff\xfe",
    b"-",
    b"--help",
    b"x" * 255,
    b"back\\slash",
    b"\\n",
    b"\\udcff",
    b"\\x41",
    b" a ",
]


def test_they_know_a_file_or_link_of_any_name(tmp_path: Path) -> None:
    job = good_job(SharedRoot(tmp_path), "job")
    names = [os.fsdecode(name) for name in (*NAMES, "💀ü".encode())]
    for place in (job.path, job.checkpoints / "global_step_10"):
        for name in names:
            (place / name).write_text("x")
            (place / f"l{name}"[:250]).symlink_to(name)
    seals_of(job).seal_now(job)
    public = seals_of(job).folder / key.PUBLIC
    assert paste(job, public)[-1] == "every sealed file is unchanged"
    for name in names:
        (job.path / name).write_text("y")
        (job.checkpoints / "global_step_10" / f"l{name}"[:250]).unlink()
    lines = paste(job, public)
    assert sum(line.startswith("present: ") for line in lines) == len(names), lines
    assert sum(line.startswith("sealed:  ") for line in lines) == 2 * len(names), lines
    assert "\x1b" not in "".join(lines)


def test_they_accept_what_was_removed_on_request(sealed: JobFolder) -> None:
    place = sealed.checkpoints / "global_step_10"
    record = removals.record(sealed, "57_checkpoints.sh job --keep 2", [removals.Gone(step=10, bytes=1)])
    seals_of(sealed).remove(sealed, record, [place])
    lines = paste(sealed, seals_of(sealed).folder / key.PUBLIC)
    assert "job: removed" in [line.partition(",")[0] for line in lines] and lines[-1] == "every sealed file is unchanged"


def test_they_refuse_the_seal_of_another_key(sealed: JobFolder, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    key.Key(tmp_path / "other")
    assert "Signature Verified Successfully" not in paste(sealed, tmp_path / "other" / key.PUBLIC)
