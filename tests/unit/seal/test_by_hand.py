"""The commands of docs/evidence.md that check a seal without this toolkit work when pasted."""

from __future__ import annotations

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

    sealed.metrics.write_text("")
    sealed.precheck.unlink()
    (sealed.config / "note.txt").write_text("x")
    lines = paste(sealed, public)
    assert "metrics.jsonl: FAILED" in lines and "precheck.json: FAILED open or read" in lines
    assert lines[-1] == "added: config/note.txt" and "every sealed file is unchanged" not in lines


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
