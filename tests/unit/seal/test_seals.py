"""Seals: made once at a job's end, added to by the toolkit's commands, and believed only when the cluster's key made them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deep_folders import nest
from truthful_job import change_result, good_job, seals_of, write_bundle

from mvp_helpers import cli
from mvp_helpers.base import files
from mvp_helpers.base.errors import Blocked
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.shared_storage import remove_whole
from mvp_helpers.cluster import cluster_file
from mvp_helpers.record import seal_request
from mvp_helpers.seal import contents, key, sealer, statement
from mvp_helpers.seal.contents import Contents, Difference
from mvp_helpers.seal.seals import Forged, NotSealed, Seals


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return good_job(SharedRoot(tmp_path), "job")


@pytest.fixture
def sealed(job: JobFolder) -> JobFolder:
    seal_request.make(job, "local")
    assert seals_of(job).seal_requested(job)
    return job


def difference(job: JobFolder) -> Difference:
    return seals_of(job).compare(seals_of(job).read(job), job)


def lines(job: JobFolder) -> list[bytes]:
    return job.seal.read_bytes().splitlines(keepends=True)


def test_the_statement_is_in_totos_and_names_every_file_with_its_digest(sealed: JobFolder) -> None:
    [line] = lines(sealed)
    envelope = json.loads(line)
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    document = json.loads(base64.b64decode(envelope["payload"]))
    assert (document["_type"], document["predicateType"]) == ("https://in-toto.io/Statement/v1", "urn:mvp:job-seal:v1")
    files = {str(path.relative_to(sealed.path)) for path in sealed.path.rglob("*") if path.is_file()}
    assert {subject["name"] for subject in document["subject"]} == files - {"seal.intoto.jsonl"}
    assert document["predicate"]["provenance"] == json.loads(sealed.provenance.read_bytes())
    assert document["predicate"]["job"]["state"] == "SUCCEEDED" and document["predicate"]["kind"] == "end"


def test_the_key_is_made_once_and_only_its_owner_can_read_it(sealed: JobFolder) -> None:
    folder = seals_of(sealed).folder
    private = (folder / key.PRIVATE).read_bytes()
    assert (folder / key.PRIVATE).stat().st_mode & 0o777 == 0o600
    assert key.Key(folder).keyid == json.loads(lines(sealed)[0])["signatures"][0]["keyid"]
    assert (folder / key.PRIVATE).read_bytes() == private


def test_only_a_job_that_has_ended_and_asked_for_it_is_sealed(job: JobFolder) -> None:
    assert not seals_of(job).seal_requested(job)
    change_result(job, state="RUNNING")
    seal_request.make(job, "local")
    assert not seals_of(job).seal_requested(job) and not job.seal.exists()
    change_result(job, state="SUCCEEDED")
    assert seals_of(job).seal_requested(job) and seal_request.ids(job.shared, "local") == []


def test_a_job_is_never_sealed_again(sealed: JobFolder) -> None:
    before = lines(sealed)
    sealed.metrics.write_text("")
    seal_request.make(sealed, "local")
    assert not seals_of(sealed).seal_requested(sealed)
    assert seals_of(sealed).seal_now(sealed) == [] and lines(sealed) == before
    assert difference(sealed) == Difference(["metrics.jsonl"], [], [])


def test_what_a_command_adds_is_in_a_further_statement(sealed: JobFolder) -> None:
    bundle = write_bundle(sealed, "on-demand", 9)
    assert difference(sealed).added
    (sealed.debug / "strange.txt").write_text("x")
    added = seals_of(sealed).add(sealed, bundle)
    assert added == sorted(str(path.relative_to(sealed.path)) for path in bundle.iterdir())
    assert difference(sealed) == Difference([], [], ["debug/strange.txt"])
    assert [each.kind for each in seals_of(sealed).read(sealed).statements] == ["end", "added"]


def test_a_bundle_that_is_being_written_is_not_sealed_before_it_is_whole(job: JobFolder) -> None:
    bundle = write_bundle(job, "on-demand", 9)
    unfinished = bundle.rename(bundle.with_name(f".{bundle.name}.4711"))
    seals_of(job).seal_now(job)
    assert not difference(job)
    unfinished.rename(bundle)
    assert seals_of(job).add(job, bundle) and not difference(job)


def test_a_command_leaves_a_job_without_a_seal_without_one(job: JobFolder) -> None:
    assert seals_of(job).add(job, job.debug) == [] and not job.seal.exists()


def test_a_later_statement_cannot_replace_what_an_earlier_one_says(sealed: JobFolder) -> None:
    seals, digest = seals_of(sealed), "0" * 64
    seals._append(sealed, "added", Contents({"metrics.jsonl": digest, "new.txt": digest}))
    assert difference(sealed) == Difference([], ["new.txt"], [])


@pytest.mark.parametrize(
    "name",
    [
        *("a name with spaces", "new\nline", "\n", "ümlaut", "💀", os.fsdecode(b"not-utf8-\xff"), "\\udcff", "back\\slash"),
        *("-rf", "--help", "-", "\x1b[2J", "\r", "\x01", "x" * 255, "config/seal.intoto.jsonl"),
    ],
)
def test_any_file_name_is_sealed(job: JobFolder, name: str) -> None:
    (job.path / name).write_text("x")
    assert name in seals_of(job).seal_now(job) and not difference(job)
    (job.path / name).unlink()
    assert difference(job) == Difference([], [name], [])


def test_a_link_is_sealed_by_its_target_and_never_followed(job: JobFolder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("x")
    (job.path / "link").symlink_to(tmp_path / "elsewhere")
    assert "link" in seals_of(job).seal_now(job) and not any("elsewhere" in name for name in contents.of(job.path).files)
    (job.path / "link").unlink()
    (job.path / "link").symlink_to(tmp_path)
    assert difference(job) == Difference(["link"], [], [])


def test_a_file_that_became_a_link_to_the_same_bytes_has_changed(sealed: JobFolder, tmp_path: Path) -> None:
    shutil.move(sealed.metrics, tmp_path / "same")
    sealed.metrics.symlink_to(tmp_path / "same")
    assert difference(sealed) == Difference(["metrics.jsonl"], [], [])


def test_a_job_without_a_seal_is_not_sealed(job: JobFolder) -> None:
    with pytest.raises(NotSealed):
        seals_of(job).read(job)


def forged(change: str, sealed: JobFolder) -> None:
    """Change a seal without its key."""
    seals, [line] = seals_of(sealed), lines(sealed)
    document = json.loads(line)
    payload = json.loads(base64.b64decode(document["payload"]))
    if change == "a digest":
        payload["subject"][0]["digest"]["sha256"] = "0" * 64
    document["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    text = json.dumps(document).encode() + b"\n"
    if change == "not an envelope":
        text = b"{}\n"
    if change == "not JSON":
        text = b"[" * 100_000 + b"\n"
    if change == "no signature":
        text = json.dumps(document | {"signatures": []}).encode() + b"\n"
    if change == "empty":
        text = b""
    if change == "a key that is no text":
        text = json.dumps(document | {"signatures": [{"keyid": ["x"], "sig": ""}]}).encode() + b"\n"
    if change == "a statement cut off":
        seals._append(sealed, "added", Contents({"x": "0" * 64}))
        text = lines(sealed)[0]
    if change in ("reordered", "a statement twice", "a statement left out"):
        for name in "xy":
            seals._append(sealed, "added", Contents({name: "0" * 64}))
        first, second, third = lines(sealed)
        text = {"reordered": first + third + second, "a statement twice": first + second + second + third}.get(
            change, first + third
        )
    if change in ("another job's statement", "of another cluster"):
        other = good_job(sealed.shared, "other" if "job" in change else sealed.submission_id + "2")
        theirs = seals if "job" in change else Seals(sealed.shared.root / "theirs", "theirs")
        theirs.seal_now(other)
        theirs._append(other, "added", Contents({"x": "0" * 64}))
        text = line + lines(other)[1]
    if change == "the first statement cut off":
        seals._append(sealed, "added", Contents({"x": "0" * 64}))
        text = lines(sealed)[1]
    sealed.seal.write_bytes(text)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("a digest", "seal.intoto.jsonl:1: its signature is not that of key"),
        ("not an envelope", "not a DSSE envelope"),
        ("not JSON", "not a DSSE envelope"),
        ("no signature", "with one signature"),
        ("empty", "is empty"),
        ("a statement cut off", "not the seal that was recorded"),
        ("the first statement cut off", "seal.intoto.jsonl:1: it does not follow the line before it"),
        ("reordered", "seal.intoto.jsonl:2: it does not follow the line before it"),
        ("a statement twice", "seal.intoto.jsonl:3: it does not follow the line before it"),
        ("a statement left out", "seal.intoto.jsonl:2: it does not follow the line before it"),
        ("another job's statement", "seal.intoto.jsonl:2: it is the seal of job 'other'"),
        ("of another cluster", "seal.intoto.jsonl:2: its key .* is not among"),
        ("a key that is no text", "seal.intoto.jsonl:1: its key .* is not among"),
    ],
)
def test_a_seal_that_was_changed_is_not_believed(sealed: JobFolder, change: str, why: str) -> None:
    forged(change, sealed)
    with pytest.raises(Forged, match=why):
        seals_of(sealed).read(sealed)


def test_the_seal_of_another_job_is_not_believed(sealed: JobFolder) -> None:
    other = good_job(sealed.shared, "other")
    seals_of(other).seal_now(other)
    shutil.copy(other.seal, sealed.seal)
    with pytest.raises(Forged, match="it is the seal of job 'other'"):
        seals_of(sealed).read(sealed)


def test_the_key_of_another_cluster_is_believed_once_a_person_puts_it_beside_the_own(sealed: JobFolder, tmp_path: Path) -> None:
    here = Seals(tmp_path / "here", "local")
    here.folder.mkdir()
    with pytest.raises(Forged, match=r"is not among .*/here/seal_key\*\.pub"):
        here.read(sealed)
    shutil.copy(seals_of(sealed).folder / key.PUBLIC, here.folder / "seal_key-theirs.pub")
    assert not here.compare(here.read(sealed), sealed)


def test_without_the_package_it_says_so(sealed: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(Blocked, match="lacks the package cryptography"):
        seals_of(sealed).read(sealed)


def test_the_sealer_seals_what_is_requested_and_reports_a_problem_once(job: JobFolder, tmp_path: Path) -> None:
    local = cluster_file.load("local")
    cluster = msgspec.structs.replace(local, shared_root=str(tmp_path), state_dir=str(tmp_path / "state"))
    said: list[str] = []
    damaged = good_job(job.shared, "damaged")
    damaged.result.write_text("{")
    for each in (job, damaged, job.shared.job("removed")):
        seal_request.make(each, "local")
    problems: dict[str, str] = {}
    for _ in range(2):
        sealer._seal_all(cluster, problems, said.append, None)
    assert [text.partition(":")[0] for text in said] == ["damaged", "job"] and "cannot be sealed: cannot read" in said[0]
    assert job.seal.exists() and seal_request.ids(job.shared, "local") == ["damaged"]


def run(job: JobFolder, monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    root = job.shared.root
    local = msgspec.structs.replace(cluster_file.load("local"), shared_root=str(root), state_dir=str(root / "state"))
    monkeypatch.setenv("MVP_CLUSTER_JSON", local.to_json())
    return cli.main(["verify", job.submission_id, "--json", *argv])


def verdict(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    checks: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["jobs"][0]["checks"]
    assert checks[0]["name"] == "sealed"
    return checks[0]["verdict"], checks[0]["reason"]


def test_54_seals_what_was_requested_and_the_rest_when_asked(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(job, monkeypatch) == 0
    assert verdict(capsys)[0] == "Skipped"
    assert run(job, monkeypatch, "--seal") == 0
    kind, reason = verdict(capsys)
    assert kind == "Pass" and "as sealed on request at" in reason and "what changed before is unknown" in reason
    (job.debug / "late.txt").write_text("x")
    assert run(job, monkeypatch) == 1
    assert verdict(capsys) == ("Fail", "added since it was sealed: debug/late.txt")
    assert run(job, monkeypatch, "--seal") == 0
    assert "1 of them sealed later on request" in verdict(capsys)[1]

    other = good_job(job.shared, "other")
    seal_request.make(other, "local")
    assert run(other, monkeypatch) == 0
    assert "after the job's end" in verdict(capsys)[1] and other.seal.exists()


def test_the_signature_is_one_that_openssl_verifies(sealed: JobFolder, tmp_path: Path) -> None:
    if not shutil.which("openssl"):
        pytest.skip("no openssl here")
    envelope = statement.read(lines(sealed)[0])
    (tmp_path / "signed").write_bytes(envelope.signed)
    (tmp_path / "sig").write_bytes(envelope.signature)
    public = seals_of(sealed).folder / key.PUBLIC
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(public), "-rawin", "-in", "signed", "-sigfile", "sig"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout == "Signature Verified Successfully\n"


# -- what a job leaves to be read


def twice_while_it_is_read(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Do something each time that the sealer reads files, the first two times."""
    read, left = contents._read, [1, 1]

    def reading(*arguments: Any) -> Contents:
        found = read(*arguments)
        if left:
            left.pop()
            meanwhile()
        return found

    monkeypatch.setattr(contents, "_read", reading)


def test_while_a_job_is_read_another_one_is_sealed(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    other, sealed = good_job(job.shared, "other"), []
    seal_request.make(job, "local")
    twice_while_it_is_read(monkeypatch, lambda: sealed.append(seals_of(other).seal_now(other)))
    assert seals_of(job).seal_requested(job) and sealed[0] and not difference(job) and not difference(other)


def test_a_bundle_that_is_added_while_the_job_is_read_is_sealed_with_it(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    seal_request.make(job, "local")
    moments = iter((7, 8))

    def add() -> None:
        assert seals_of(job).add(job, write_bundle(job, "on-demand", next(moments))) == [], "there is no seal yet"

    twice_while_it_is_read(monkeypatch, add)
    assert seals_of(job).seal_requested(job) and not difference(job)
    assert [each.kind for each in seals_of(job).read(job).statements] == ["end"]


def test_a_job_that_is_sealed_by_two_at_once_has_one_seal(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    seal_request.make(job, "local")
    twice_while_it_is_read(monkeypatch, lambda: seals_of(job).seal_requested(job))
    assert not seals_of(job).seal_requested(job)
    assert [each.kind for each in seals_of(job).read(job).statements] == ["end"] and not difference(job)


def test_what_vanishes_while_the_job_is_read_is_not_in_its_seal(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    (job.logs / "scratch").write_text("x")
    sha256 = files.sha256

    def vanishing(path: Path, *more: Any) -> str:
        if path.name == "scratch":
            path.unlink()
        return sha256(path, *more)

    monkeypatch.setattr(files, "sha256", vanishing)
    assert "logs/scratch" not in seals_of(job).seal_now(job) and not difference(job)


def test_the_digest_of_a_file_that_grows_faster_than_it_is_read_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (3 << 20))

    class Growing(threading.Event):
        def is_set(self) -> bool:
            with path.open("ab") as stream:
                stream.write(b"y" * (2 << 20))
            return False

    assert files.sha256(path, Growing()) == hashlib.sha256(b"x" * (3 << 20)).hexdigest()


def test_a_file_that_was_added_is_named_and_not_read(sealed: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with (sealed.logs / "hole").open("wb") as stream:
        stream.truncate(1 << 43)
    assert difference(sealed).added == ["logs/hole"]


def test_a_file_of_another_size_has_changed_and_is_not_read(sealed: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with sealed.metrics.open("r+b") as stream:
        stream.truncate(1 << 40)
    sha256, read = files.sha256, list[str]()
    monkeypatch.setattr(files, "sha256", lambda path, *more: read.append(path.name) or sha256(path, *more))
    assert difference(sealed) == Difference(["metrics.jsonl"], [], [])
    assert read and "metrics.jsonl" not in read


def test_a_job_with_large_holes_does_not_hold_up_the_others(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    root, said, hollow, reading = job.shared.root, [], good_job(job.shared, "hollow"), threading.Event()
    cluster = msgspec.structs.replace(cluster_file.load("local"), shared_root=str(root), state_dir=str(root / "state"))
    with (hollow.logs / "hole").open("wb") as stream:
        stream.truncate(1 << 40)
    sha256, go_on = files.sha256, threading.Event()

    def patient(path: Path, *more: Any) -> str:
        if path.name != "hole":
            return sha256(path, *more)
        reading.set()
        assert go_on.wait(60)
        return "0" * 64

    monkeypatch.setattr(files, "sha256", patient)
    for each in (hollow, job):
        seal_request.make(each, "local")
    sealer._seal_all(cluster, {}, said.append, None)
    assert said == ["hollow: not sealed, its files have large holes: ./scripts/54_verify.sh hollow seals it", "job: sealed"]
    aside: list[threading.Thread] = []
    for _ in range(2):
        sealer._seal_all(cluster, {}, said.append, aside)
    assert reading.wait(60) and not hollow.seal.exists()
    later = good_job(job.shared, "later")
    seal_request.make(later, "local")
    sealer._seal_all(cluster, {}, said.append, aside)
    assert said[2:] == ["later: sealed"]
    go_on.set()
    aside[0].join()
    assert said[3:] == ["hollow: sealed"] and hollow.seal.exists()


def test_a_job_cannot_make_its_seal_too_large_to_be_read(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    job.provenance.write_text(json.dumps({"x": "y" * (9 << 20)}))
    assert seals_of(job).seal_now(job) and job.seal.stat().st_size < 1 << 20
    monkeypatch.setattr("mvp_helpers.seal.seals.MOST_BYTES", 1 << 18)
    for at in range(1_500):
        (job.logs / f"{at}{'x' * 100}").touch()
    with pytest.raises(Blocked, match="would have more than 0 MiB"):
        seals_of(job).seal_now(job)
    assert not [name for name in os.listdir(job.path) if name.startswith(f".{job.seal.name}")]


def test_lines_of_somebody_else_in_a_seal_take_no_memory(sealed: JobFolder) -> None:
    sealed.seal.write_bytes(b"x\n" * (8 << 20))
    tracemalloc.start()
    with pytest.raises(Forged, match="not a DSSE envelope"):
        seals_of(sealed).read(sealed)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 * (16 << 20)


def test_a_folder_nested_deeper_than_anyone_looks_is_named_and_the_rest_is_sealed(job: JobFolder) -> None:
    nest(job.checkpoints, 3000)
    seal_request.make(job, "local")
    assert seals_of(job).seal_requested(job)
    [(name, why)] = seals_of(job).read(job).contents.unread.items()
    assert name.startswith("checkpoints/d/d/") and why == "nested too deeply" and not difference(job)
    remove_whole(job.checkpoints)
