"""Every edit of a finished job's folder makes 54 fail: by its seal, and without one where the files contradict each other."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_ray import WORKER_1_ID
from truthful_job import (
    STEPS,
    change_bundles,
    change_json,
    change_log,
    change_resolved,
    change_result,
    change_rows,
    change_text,
    good_job,
    seals_of,
)

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import moment_of, seconds_of
from mvp_helpers.plan import plan
from mvp_helpers.proof import verify
from mvp_helpers.proof.evidence import Job
from mvp_helpers.record import job_folder, seal_request
from mvp_helpers.seal.seals import Seals
from mvp_helpers.trainers import hydra
from mvp_helpers.trainers.verl_checkpoints import TRACKER

Edit = Callable[[JobFolder], Any]
RAYS = ("jobs.json", "job.json")
NEWEST = f"global_step_{STEPS}"
SHARD = f"{NEWEST}/actor/model_world_size_2_rank_1.pt"
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nRuntimeError: lost\n'


def half(folder: JobFolder) -> None:
    lines = folder.metrics.read_text().splitlines(keepends=True)[: STEPS // 2]
    folder.metrics.write_text("".join(lines))
    change_result(folder, steps_total=len(lines), steps_done=len(lines), last_metrics=json.loads(lines[-1])["data"])


def last_line_again(folder: JobFolder) -> None:
    text = folder.metrics.read_text()
    folder.metrics.write_text(text + text.splitlines(keepends=True)[-1])


def overwrite(path: Path) -> None:
    """Change a byte in the middle, and neither the length nor the time."""
    facts, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def argv(folder: JobFolder, old: str, new: str) -> list[str]:
    return [text.replace(old, new) for text in plan.read(folder).argv]


def moved_outside(folder: JobFolder) -> None:
    elsewhere = folder.shared.root / "elsewhere"
    shutil.move(folder.checkpoints / NEWEST, elsewhere)
    (folder.checkpoints / NEWEST).symlink_to(elsewhere)


def ends_before_it_starts(folder: JobFolder) -> None:
    started = job_folder.read(folder).started_at
    change_result(folder, ended_at=moment_of(seconds_of(str(started)) - 3600))


def hydra_record(folder: JobFolder) -> Path:
    return hydra.overrides_record(folder.logs / "hydra")


def import_record(folder: JobFolder) -> Path:
    return folder.imports / "vm-11.json"


# What is edited, the check that sees it without any seal ("" when only the seal can), and the file that the seal names.
EDITS: list[tuple[str, Edit, str, str]] = [
    ("metrics cut to half, with steps_total", half, "metrics", "metrics.jsonl"),
    (
        "and the precheck's total",
        lambda f: (half(f), change_json(f.precheck, "steps_total", value=STEPS // 2)),
        "log",
        "metrics.jsonl",
    ),
    ("a loss", lambda f: change_text(f.metrics, ":0.14,", ":0.99,"), "log", "metrics.jsonl"),
    (
        "another job's metrics",
        lambda f: f.metrics.write_text(f.metrics.read_text().replace(":0.", ":1.")),
        "metrics",
        "metrics.jsonl",
    ),
    ("a line repeated", last_line_again, "metrics", "metrics.jsonl"),
    (
        "a step twice, another one missing",
        lambda f: change_text(f.metrics, '{"step":7,', '{"step":6,'),
        "metrics",
        "metrics.jsonl",
    ),
    ("a key renamed", lambda f: change_text(f.metrics, "pg_loss", "loss"), "", "metrics.jsonl"),
    ("metrics emptied", lambda f: f.metrics.write_text(""), "metrics", "metrics.jsonl"),
    ("metrics removed", lambda f: f.metrics.unlink(), "metrics", "metrics.jsonl"),
    ("last_metrics", lambda f: change_result(f, last_metrics={"critic/score/mean": 0.9}), "metrics", "result.json"),
    ("a shard cut to 100 bytes", lambda f: os.truncate(f.checkpoints / SHARD, 100), "checkpoints", SHARD),
    ("data.pt cut to 100 bytes", lambda f: os.truncate(f.checkpoints / NEWEST / "data.pt", 100), "checkpoints", "data.pt"),
    ("a shard missing", lambda f: (f.checkpoints / SHARD).unlink(), "checkpoints", SHARD),
    ("a shard's content", lambda f: overwrite(f.checkpoints / SHARD), "", SHARD),
    (
        "the weights of an earlier step",
        lambda f: shutil.copy2(f.checkpoints / SHARD.replace("25", "10").replace("model", "optim"), f.checkpoints / SHARD),
        "",
        SHARD,
    ),
    ("a checkpoint removed", lambda f: shutil.rmtree(f.checkpoints / NEWEST), "checkpoints", SHARD),
    ("a checkpoint behind a link", moved_outside, "checkpoints", SHARD),
    ("an earlier tracker", lambda f: (f.checkpoints / TRACKER).write_text("10"), "checkpoints", TRACKER),
    ("a later tracker", lambda f: (f.checkpoints / TRACKER).write_text("99"), "checkpoints", TRACKER),
    ("no tracker", lambda f: (f.checkpoints / TRACKER).unlink(), "checkpoints", TRACKER),
    ("no imports", lambda f: change_resolved(f, imports=[]), "as planned", "resolved.yaml"),
    ("no processes", lambda f: change_resolved(f, processes_per_node=0), "as planned", "resolved.yaml"),
    ("one node", lambda f: change_resolved(f, nnodes=1), "as planned", "resolved.yaml"),
    ("save_freq off", lambda f: change_resolved(f, save_freq=-1), "as planned", "resolved.yaml"),
    ("more epochs", lambda f: change_resolved(f, total_epochs=3), "as planned", "resolved.yaml"),
    (
        "save_freq off in argv, too",
        lambda f: change_resolved(f, save_freq=-1, argv=argv(f, "save_freq=10", "save_freq=-1")),
        "as planned",
        "resolved.yaml",
    ),
    ("another override", lambda f: change_resolved(f, argv=argv(f, "lr=1e-6", "lr=1e-2")), "as planned", "resolved.yaml"),
    ("an override more", lambda f: change_resolved(f, argv=[*plan.read(f).argv, "x=1"]), "as planned", "resolved.yaml"),
    ("another workload", lambda f: change_resolved(f, workload="grpo"), "as planned", "resolved.yaml"),
    ("another environment", lambda f: change_resolved(f, env_vars={"A": "1"}), "as planned", "resolved.yaml"),
    ("another code in the plan", lambda f: change_resolved(f, code_id="codeB"), "code from code_path", "resolved.yaml"),
    ("another JobSpec", lambda f: f.job_spec().write_text('{"workload": "sft"}'), "as planned", "job_spec.json"),
    (
        "other overrides in the JobSpec",
        lambda f: change_json(f.job_spec(), "trainer_overrides", value={"trainer.total_epochs": 9}),
        "as planned",
        "job_spec.json",
    ),
    ("a JobSpec that cannot be read", lambda f: f.job_spec().write_text("{"), "as planned", "job_spec.json"),
    ("no JobSpec", lambda f: f.job_spec().unlink(), "as planned", "job_spec.json"),
    ("another runtime_env", lambda f: f.runtime_env.write_text('{"env_vars": {}}'), "as planned", "runtime_env.json"),
    ("another command", lambda f: change_text(f.submit_cmd, "run-job", "run-other"), "submitted from the head", "submit_cmd.txt"),
    (
        "the command to another Ray",
        lambda f: change_text(f.submit_cmd, "8290", "8291"),
        "submitted from the head",
        "submit_cmd.txt",
    ),
    ("Hydra's record", lambda f: change_text(hydra_record(f), "lr=1e-6", "lr=1e-2"), "as planned", "overrides.yaml"),
    (
        "the code's id in the provenance",
        lambda f: change_json(f.provenance, "code", "code_id", value="codeB"),
        "one account",
        "provenance.json",
    ),
    ("Ray's version", lambda f: change_json(f.provenance, "ray", value="2.9.0"), "one account", "provenance.json"),
    ("Python's version", lambda f: change_json(f.provenance, "python", value="3.9.1"), "one account", "provenance.json"),
    ("the user", lambda f: change_json(f.provenance, "submitted_from", "user", value="you"), "", "provenance.json"),
    ("a process's marker", lambda f: change_json(import_record(f), "marker", value="codeB"), "one account", "vm-11.json"),
    ("Ray's exit code", lambda f: change_bundles(f, "job.json", 0, "driver_exit_code", value=1), "one account", "job.json"),
    ("Ray's status", lambda f: change_bundles(f, "job.json", 0, "status", value="FAILED"), "one account", "job.json"),
    ("what Ray ran", lambda f: change_bundles(f, "job.json", 0, "entrypoint", value="true"), "one account", "job.json"),
    (
        "another job's bundles",
        lambda f: change_bundles(f, "bundle.json", "submission_id", value="x"),
        "one account",
        "bundle.json",
    ),
    ("no record of Ray's", lambda f: [change_rows(f, name, lambda rows: []) for name in RAYS], "running", "jobs.json"),
    ("another job's record", lambda f: change_bundles(f, "job.json", 0, "submission_id", value="x"), "one account", "job.json"),
    ("Ray's time", lambda f: change_bundles(f, "job.json", 0, "start_time", value=1), "times in order", "job.json"),
    ("the end before the start", ends_before_it_starts, "times in order", "result.json"),
    ("another driver", lambda f: change_result(f, driver_node_id=WORKER_1_ID), "driver on a worker", "result.json"),
    ("an exit code", lambda f: change_result(f, exit_code=1), "succeeded", "result.json"),
    ("a traceback at the end", lambda f: f.driver_log.write_text(f.driver_log.read_text() + TRACEBACK), "log", "driver.log"),
    ("and its length", lambda f: change_log(f, "100%\n", f"100%\n{TRACEBACK}"), "log", "driver.log"),
    ("a log cut to half", lambda f: os.truncate(f.driver_log, f.driver_log.stat().st_size // 2), "log", "driver.log"),
    (
        "the precheck",
        lambda f: change_json(f.precheck, "driver", "marker", value="codeB"),
        "code from code_path",
        "precheck.json",
    ),
    ("a file more", lambda f: (f.config / "note.txt").write_text("x"), "", "note.txt"),
]


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return good_job(SharedRoot(tmp_path), "job")


def failures(job: JobFolder) -> dict[str, str]:
    [report] = verify.verify([Job(job, job_folder.read(job), seals_of(job))])
    return {check.name: check.reason for check in report.checks if check.verdict == "Fail"}


@pytest.mark.parametrize("case", EDITS, ids=[case[0] for case in EDITS])
def test_an_edit_fails(job: JobFolder, case: tuple[str, Edit, str, str]) -> None:
    _, edit, check, file = case
    seal_request.make(job, "local")
    assert seals_of(job).seal_requested(job) and failures(job) == {}
    edit(job)
    failed = failures(job)
    assert "since it was sealed" in failed["sealed"] and file in failed.pop("sealed")
    # What the other files contradict, without a look at the seal.
    assert check in failed if check else failed == {}
    # An editor who lacks the cluster's key can neither remove the seal nor make another one.
    job.seal.unlink()
    assert "is missing, but the journal has 1 of its lines" in failures(job)["sealed"]
    Seals(job.shared.root / "own", "local").seal_now(job)
    assert "is not among" in failures(job)["sealed"]
