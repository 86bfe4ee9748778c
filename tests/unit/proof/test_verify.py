"""Every check of verify passes on truthful evidence, and fails, alone, when one thing in it is doctored."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_ray import HEAD_ID, WORKER_0_ID, WORKER_1_ID
from truthful_job import (
    JOB_ID,
    change_argv,
    change_bundles,
    change_json,
    change_log,
    change_plan,
    change_result,
    change_rows,
    change_text,
    good_job,
    seals_of,
    write_log,
)

from mvp_helpers import cli
from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import moment_of, now
from mvp_helpers.cluster.cluster_file import load as load_cluster
from mvp_helpers.job import import_proof
from mvp_helpers.plan import plan
from mvp_helpers.proof import training_log, verify
from mvp_helpers.proof.evidence import Job
from mvp_helpers.record import chain as chains
from mvp_helpers.record import job_folder, removals, seal_request
from mvp_helpers.record.chain import Attempt, Chain, Retry
from mvp_helpers.trainers import hydra, verl_checkpoints
from mvp_helpers.trainers.checkpoint import Resume
from mvp_helpers.trainers.verl_checkpoints import RL, TRACKER

Doctor = Callable[[JobFolder], Any]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[JobFolder, JobFolder]:
    """Two truthful jobs, one after the other."""
    shared = SharedRoot(tmp_path)
    first = good_job(shared, "first")
    time.sleep(0.002)  # claimed_at counts milliseconds
    return first, good_job(shared, "second")


def seal(folder: JobFolder) -> None:
    """Seal the folder as the head does when its runner has ended."""
    seal_request.make(folder, "local")
    assert seals_of(folder).seal_requested(folder)


def judge(*folders: JobFolder) -> list[verify.Report]:
    return verify.verify([Job(folder, job_folder.read(folder), seals_of(folder)) for folder in folders])


def verdicts(*folders: JobFolder) -> list[dict[str, tuple[str, str]]]:
    reports = judge(*folders)
    return [{check.name: (check.verdict, check.reason) for check in report.checks} for report in reports]


def test_everything_passes_on_truthful_evidence(pair: tuple[JobFolder, JobFolder]) -> None:
    for folder in pair:
        seal(folder)
    first, second = verdicts(*pair)
    assert {name: evidence for name, (verdict, evidence) in second.items() if verdict != "Pass"} == {}
    assert [name for name, (verdict, _) in first.items() if verdict != "Pass"] == ["data and model reused"]
    assert first["data and model reused"] == ("Skipped", "the first of the jobs given: reuse shows from the second on")
    assert second["checkpoints"][1] == "checkpoints/: steps 10, 20, 25 (save_freq 10, last step 25)"
    assert second["metrics"][1] == "metrics.jsonl: steps 1-25, as expected; 50 values, all finite"


def test_the_order_of_claims_decides_which_job_reuses(pair: tuple[JobFolder, JobFolder]) -> None:
    second, first = verdicts(*reversed(pair))
    assert second["data and model reused"][0] == "Pass" and first["data and model reused"][0] == "Skipped"


def old(path: Path) -> None:
    os.utime(path, (time.time() - 3600,) * 2)


def link_outside(folder: JobFolder) -> None:
    elsewhere = folder.path.parent.parent / "elsewhere"
    shutil.move(folder.checkpoints / "global_step_10", elsewhere)
    (folder.checkpoints / "global_step_10").symlink_to(elsewhere)


def rename_bundle(folder: JobFolder, event: str) -> None:
    (bundle,) = folder.debug.glob(f"*-{event}")
    bundle.rename(bundle.with_name(bundle.name.replace(event, "manual")))


def claimed_twice(folder: JobFolder) -> None:
    (folder.path.parent / ".index" / f"2026-01-01T000000.000Z_{folder.submission_id}").touch()


def resumed(folder: JobFolder) -> None:
    """The first step is 11: metrics, checkpoints and the expected number of steps are as a resumed run would leave them."""
    lines = folder.metrics.read_text().splitlines(keepends=True)
    folder.metrics.write_text("".join(lines[10:]))
    log = folder.driver_log.read_text().splitlines(keepends=True)
    write_log(folder, "".join([*log[:2], *log[12:]]))


def goes_on(folder: JobFolder) -> None:
    """A truthful job that resumed step 10 of ``first``."""
    resumed(folder)
    shutil.rmtree(folder.checkpoints / "global_step_10")
    source = folder.path.parent / "first" / "checkpoints" / "global_step_10"
    resume = {"submission_id": "first", "step": 10, "path": str(source), "world_size": 2}
    overrides = ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={source}"]
    kept = [text for text in plan.read(folder).argv if "resume_mode" not in text]
    change_plan(folder, argv=[*kept, *overrides], resume=Resume(**resume))
    change_json(folder.provenance, "resumed_from", value={**resume, "lineage": [{"submission_id": "first", "step": 10}]})


def without_line(path: Path, number: int) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: number - 1] + lines[number:]))


SHARD = "global_step_10/actor/model_world_size_2_rank_1.pt"

ALSO_SHOWS = {"metrics": {"log"}, "code from code_path": {"metrics", "one account"}}
"""Checks that may fail beside the one that is meant, because they compare its evidence with theirs."""

# What is doctored, the check that must fail (alone), and what its evidence must name.
DOCTORED: list[tuple[str, Doctor, str, str]] = [
    (
        "a file added to a sealed folder",
        lambda f: (seal(f), (f.debug / "note.txt").write_text("x")),
        "sealed",
        "added since it was sealed: debug/note.txt",
    ),
    ("another override", lambda f: change_text(f.resolved, "lr=1e-6", "lr=1e-2"), "as planned", "lr=1e-2"),
    (
        "Ray says that it failed",
        lambda f: change_bundles(f, "job*.json", 0, "driver_exit_code", value=1),
        "one account",
        "driver_exit_code 1, result.json has 0",
    ),
    ("a last step that was not logged", lambda f: change_log(f, "step:25 ", "step:24 "), "log", "the last step is 24"),
    (
        "failed",
        lambda f: change_result(f, state="FAILED", exit_code=1, reason="boom"),
        "succeeded",
        "state FAILED, exit_code 1, boom",
    ),
    ("exit code", lambda f: change_result(f, exit_code=3), "succeeded", "exit_code 3"),
    (
        "from a worker's node",
        lambda f: change_json(f.provenance, "submitted_from", "node_id", value=WORKER_0_ID),
        "submitted from the head",
        "submitted_from.node_id",
    ),
    (
        "from a host that is not the head",
        lambda f: change_json(f.provenance, "submitted_from", "host", value="worker-1"),
        "submitted from the head",
        "submitted_from.host worker-1, but the head's is head",
    ),
    (
        "from an unknown host",
        lambda f: change_json(f.provenance, "submitted_from", "ip", value=None),
        "submitted from the head",
        "submitted_from.ip None",
    ),
    (
        "a head that Ray does not call one",
        lambda f: change_bundles(f, "nodes.json", 0, "is_head_node", value=False),
        "submitted from the head",
        "is not Ray's head",
    ),
    (
        "another command",
        lambda f: change_text(f.submit_cmd, "ray job submit", "python submit.py"),
        "submitted from the head",
        "config/submit_cmd.txt",
    ),
    (
        "another id submitted",
        lambda f: change_text(f.submit_cmd, "-id second", "-id other"),
        "submitted from the head",
        "--submission-id second",
    ),
    ("no command", lambda f: f.submit_cmd.unlink(), "submitted from the head", "submit_cmd.txt: No such file"),
    (
        "driver on the head",
        lambda f: (
            change_result(f, driver_node_id=HEAD_ID, driver_node_ip="127.0.0.10"),
            change_bundles(f, "job*.json", 0, "driver_node_id", value=HEAD_ID),
        ),
        "driver on a worker",
        "is the head",
    ),
    ("driver unknown", lambda f: change_result(f, driver_node_id=None), "driver on a worker", "driver_node_id None"),
    (
        "driver's address",
        lambda f: change_result(f, driver_node_ip="127.0.0.12"),
        "driver on a worker",
        "nodes.json has 127.0.0.11",
    ),
    (
        "driver's node is no node",
        lambda f: change_result(f, driver_node_id="f" * 56),
        "driver on a worker",
        "no node ffffffffffff…",
    ),
    (
        "Ray recorded another node",
        lambda f: change_bundles(f, "job*.json", 0, "driver_node_id", value=WORKER_1_ID),
        "driver on a worker",
        "Ray's driver_node_id",
    ),
    (
        "never running",
        lambda f: change_bundles(f, "job*.json", 0, "status", value="PENDING"),
        "running",
        "Ray never reported RUNNING (PENDING)",
    ),
    (
        "trained elsewhere",
        lambda f: change_rows(f, "actors.json", lambda rows: [row for row in rows if row["job_id"] != JOB_ID]),
        "trained on this cluster",
        "0 processes of this job's driver, expected 2 or more",
    ),
    (
        "a process on the head",
        lambda f: change_bundles(f, "actors.json", 0, "node_id", value=HEAD_ID),
        "trained on this cluster",
        "Trainer on node",
    ),
    (
        "another driver's processes",
        lambda f: change_bundles(f, "actors.json", 0, "job_id", value="09000000"),
        "trained on this cluster",
        "1 processes of this job's driver, expected 2",
    ),
    (
        "a worker that is not on the node list",
        lambda f: change_bundles(f, "nodes.json", 2, "state", value="DEAD"),
        "trained on this cluster",
        "(worker-1)",
    ),
    (
        "driver's address on hosts of their own",
        lambda f: (
            change_plan(f, host_driver="ssh"),
            change_bundles(f, "job*.json", 0, "driver_info", "node_ip_address", value="127.0.0.10"),
        ),
        "driver on a worker",
        "driver_info.node_ip_address 127.0.0.10",
    ),
    (
        "driver's address never recorded on hosts of their own",
        lambda f: (change_plan(f, host_driver="docker"), change_bundles(f, "job*.json", 0, "driver_info", value=None)),
        "driver on a worker",
        "not recorded",
    ),
    ("claimed twice", claimed_twice, "own folder", "2 claims of this id"),
    ("never claimed", lambda f: shutil.rmtree(f.path.parent / ".index"), "own folder", "0 claims of this id"),
    ("another job's id", lambda f: change_plan(f, submission_id="first"), "own folder", "resolved.yaml: submission_id first"),
    (
        "another job's plan",
        lambda f: change_plan(f, job_folder=str(f.path.parent / "first")),
        "own folder",
        "resolved.yaml: job_folder",
    ),
    (
        "started before the claim",
        lambda f: change_result(f, started_at=moment_of(time.time() - 60)),
        "times in order",
        "started_at",
    ),
    (
        "an older checkpoint",
        lambda f: old(f.checkpoints / SHARD),
        "nothing older in it",
        SHARD,
    ),
    ("older metrics", lambda f: old(f.metrics), "nothing older in it", "metrics.jsonl is 3"),
    ("an older log", lambda f: old(f.driver_log), "nothing older in it", "logs/driver.log"),
    (
        "checkpoints elsewhere",
        lambda f: change_argv(f, str(f.checkpoints), "/tmp/shared"),
        "nothing resumed unasked",
        "default_local_dir=/tmp/shared",
    ),
    (
        "resume mode",
        lambda f: change_argv(f, "resume_mode=disable", "resume_mode=auto"),
        "nothing resumed unasked",
        "resume_mode=auto",
    ),
    (
        "another model",
        lambda f: change_json(f.provenance, "inputs", "model", "identity", value="other"),
        "data and model reused",
        "identity other",
    ),
    (
        "unknown data",
        lambda f: change_json(f.provenance, "inputs", "dataset", "identity", value=None),
        "data and model reused",
        "identity None",
    ),
    (
        "data made again",
        lambda f: change_json(f.provenance, "inputs", "dataset", "made_at", value=now()),
        "data and model reused",
        "after first was claimed",
    ),
    ("a checkpoint missing", lambda f: shutil.rmtree(f.checkpoints / "global_step_10"), "checkpoints", "steps 20, 25"),
    ("a checkpoint too many", lambda f: (f.checkpoints / "global_step_7").mkdir(), "checkpoints", "expected 10, 20, 25"),
    (
        "an empty shard",
        lambda f: (f.checkpoints / SHARD).write_bytes(b""),
        "checkpoints",
        "checkpoints/global_step_10 is not whole: actor/model_world_size_2_rank_1.pt is cut short or damaged (0 bytes)",
    ),
    ("a checkpoint outside", link_outside, "checkpoints", "leads out of the job folder"),
    (
        "another save_freq",
        lambda f: change_argv(f, "save_freq=10", "save_freq=5", save_freq=5),
        "checkpoints",
        "expected 5, 10, 15, 20, 25",
    ),
    ("no bundle at the start", lambda f: rename_bundle(f, "started"), "Ray snapshots", "no bundle of the job's start"),
    ("no bundle at the end", lambda f: rename_bundle(f, "succeeded"), "Ray snapshots", "no bundle of the job's end"),
    (
        "one kind of snapshot",
        lambda f: [path.unlink() for path in f.debug.glob("*-submitted/*") if path.name != "ray_status.txt"],
        "Ray snapshots",
        "1 kinds of Ray snapshots",
    ),
    ("precheck not ok", lambda f: change_json(f.precheck, "ok", value=False), "code from code_path", "not ok"),
    ("no precheck", lambda f: f.precheck.unlink(), "code from code_path", "precheck.json is missing"),
    ("damaged precheck", lambda f: f.precheck.write_text("{"), "code from code_path", "precheck.json cannot be read"),
    *(
        (
            f"another {name} in {where}",
            lambda f, name=name, where=where: change_json(f.path / where, "versions", name, value="1.0"),
            "one account",
            f"has {name} 1.0, {first} has ",
        )
        for where in ("imports/vm-10.json", "imports/vm-12.json")
        for name, first in (
            ("python", "provenance.json"),
            ("ray", "provenance.json"),
            ("torch", "precheck.json"),
            ("verl", "precheck.json"),
        )
    ),
    (
        "another torch in the precheck",
        lambda f: change_json(f.precheck, "versions", "torch", value="2.0.0"),
        "one account",
        "imports/: driver pid 10 on vm has torch 2.11.0, precheck.json has 2.0.0",
    ),
    (
        "another torch in a Ray worker that the precheck asked",
        lambda f: change_json(f.precheck, "ray_workers", 1, "versions", value={"torch": "2.0.0"}),
        "one account",
        "has torch 2.0.0, precheck.json has 2.11.0",
    ),
    (
        "the image's verl in the driver",
        lambda f: change_json(f.precheck, "driver", "modules", "verl", value="/usr/lib/verl/__init__.py"),
        "code from code_path",
        "driver: verl from /usr/lib/verl",
    ),
    (
        "the image's verl in a Ray worker",
        lambda f: change_json(f.precheck, "ray_workers", 1, "modules", "verl", value="/usr/lib/verl/__init__.py"),
        "code from code_path",
        "Ray worker on 127.0.0.12: verl from",
    ),
    (
        "another marker in a Ray worker",
        lambda f: change_json(f.precheck, "ray_workers", 0, "marker", value="codeB"),
        "code from code_path",
        "marker codeB, but code_id is codeA",
    ),
    (
        "a worker not looked at",
        lambda f: change_json(f.precheck, "ray_workers", value=[]),
        "code from code_path",
        "not checked on",
    ),
    (
        "another marker printed",
        lambda f: change_log(f, "=codeA", "=codeB"),
        "code from code_path",
        "MVP_PRECHECK_MARKER=codeB",
    ),
    (
        "nothing printed",
        lambda f: write_log(f, "step:25\n"),
        "code from code_path",
        "MVP_PRECHECK_VERL_FILE=(not printed)",
    ),
    (
        "another PYTHONPATH",
        lambda f: change_plan(f, env_vars={"PYTHONPATH": "/toolkit/lib"}),
        "code from code_path",
        "begins with /toolkit/lib",
    ),
    ("a step missing", lambda f: without_line(f.metrics, 7), "metrics", "steps 1-6, 8-25, expected 1-25"),
    (
        "fewer steps than expected",
        lambda f: change_result(f, steps_total=30),
        "metrics",
        "result.json: steps_total 30; precheck.json: steps_total 25",
    ),
    (
        "NaN, as verl writes it",
        lambda f: change_text(f.metrics, ":0.02,", ":null,"),
        "metrics",
        "step 1: critic/score/mean is None",
    ),
    ("NaN", lambda f: change_text(f.metrics, ":0.02,", ":NaN,"), "metrics", "step 1: critic/score/mean is nan"),
    ("NaN in a text", lambda f: change_text(f.metrics, ":0.02,", ':"nan",'), "metrics", "step 1: critic/score/mean is nan"),
    (
        "infinity",
        lambda f: change_text(f.metrics, "-1e-3", "-Infinity"),
        "metrics",
        "actor/pg_loss is -inf (1 values not finite)",
    ),
    ("half a line", lambda f: change_text(f.metrics, '{"step":3,"data"', '{"st'), "metrics", "line 3 is not a step"),
]


@pytest.mark.parametrize(("doctor", "check", "evidence"), [case[1:] for case in DOCTORED], ids=[case[0] for case in DOCTORED])
def test_a_doctored_folder_fails_exactly_that_check(
    pair: tuple[JobFolder, JobFolder], doctor: Doctor, check: str, evidence: str
) -> None:
    doctor(pair[1])
    failed = {name: told for name, (verdict, told) in verdicts(*pair)[1].items() if verdict == "Fail"}
    assert check in failed and failed.keys() - {check} <= ALSO_SHOWS.get(check, set()), failed
    assert evidence in failed[check]


def test_another_jobs_result_is_not_judged(pair: tuple[JobFolder, JobFolder]) -> None:
    change_result(pair[1], submission_id="first")
    with pytest.raises(BadInput, match="it is of job 'first'"):
        verdicts(*pair)


def test_every_check_is_among_the_doctored_ones() -> None:
    assert {case[2] for case in DOCTORED} == set(verify.CHECKS)


def test_a_resumed_run_fails_where_it_shows(pair: tuple[JobFolder, JobFolder]) -> None:
    resumed(pair[1])
    failed = [name for name, (verdict, _) in verdicts(*pair)[1].items() if verdict == "Fail"]
    assert failed == ["nothing resumed unasked", "metrics"]


def test_a_job_that_goes_on_from_a_named_checkpoint_passes(pair: tuple[JobFolder, JobFolder]) -> None:
    goes_on(pair[1])
    second = verdicts(*pair)[1]
    assert not [name for name, (verdict, _) in second.items() if verdict == "Fail"], second
    assert "resumed step 10 of first, as provenance.json says" in second["nothing resumed unasked"][1]
    assert "steps 20, 25" in second["checkpoints"][1] and "steps 11-25" in second["metrics"][1]


@pytest.mark.parametrize(
    ("doctor", "evidence"),
    [
        (lambda f: change_json(f.provenance, "resumed_from", value=None), "resumed_from None, but"),
        (lambda f: change_json(f.provenance, "resumed_from", "step", value=20), "step 20 of first, but"),
        (lambda f: change_json(f.provenance, "resumed_from", "submission_id", value="x"), "step 10 of x, but"),
        (lambda f: change_argv(f, "resume_mode=resume_path", "resume_mode=auto"), "resume_mode=auto"),
        (lambda f: change_argv(f, "/first/", "/other/"), "resume_from_path="),
        (lambda f: change_argv(f, "step_10", "step_20"), "resume_from_path="),
    ],
)
def test_a_doctored_lineage_fails(pair: tuple[JobFolder, JobFolder], doctor: Doctor, evidence: str) -> None:
    goes_on(pair[1])
    doctor(pair[1])
    failed = {name: told for name, (verdict, told) in verdicts(*pair)[1].items() if verdict == "Fail"}
    assert list(failed) == ["nothing resumed unasked"] and evidence in failed["nothing resumed unasked"]


def test_a_job_that_was_to_go_on_and_began_anew_fails(pair: tuple[JobFolder, JobFolder]) -> None:
    whole = pair[1].metrics.read_text()
    goes_on(pair[1])
    pair[1].metrics.write_text(whole)
    failed = {name: told for name, (verdict, told) in verdicts(*pair)[1].items() if verdict == "Fail"}
    assert "the first step is 1, expected 11" in failed["nothing resumed unasked"] and "metrics" in failed


def test_a_job_that_resumes_nothing_names_nothing(pair: tuple[JobFolder, JobFolder]) -> None:
    change_json(pair[1].provenance, "resumed_from", value={"submission_id": "first", "step": 10})
    assert "but the plan resumes nothing" in verdicts(*pair)[1]["nothing resumed unasked"][1]


def test_a_job_that_ray_never_recorded_has_no_place(pair: tuple[JobFolder, JobFolder]) -> None:
    change_bundles(pair[1], "job*.json", 0, "submission_id", value="x")
    failed = {name: told for name, (verdict, told) in verdicts(*pair)[1].items() if verdict == "Fail"}
    assert list(failed) == ["one account", "running", "driver on a worker", "trained on this cluster"]
    assert "driver_node_id none" in failed["driver on a worker"]


def test_without_its_plan_nothing_that_needs_it_passes(pair: tuple[JobFolder, JobFolder]) -> None:
    pair[1].resolved.unlink()
    second = verdicts(*pair)[1]
    assert {name for name, (verdict, _) in second.items() if verdict == "Pass"} == {
        "succeeded",
        "times in order",
        "running",
        "nothing older in it",
        "data and model reused",
        "Ray snapshots",
    }


def test_evidence_of_another_shape_fails_without_a_traceback(pair: tuple[JobFolder, JobFolder]) -> None:
    pair[1].provenance.write_text('{"submitted_from": "somewhere"}')
    second = verdicts(*pair)[1]
    assert second["submitted from the head"][0] == second["data and model reused"][0] == "Fail"


def test_on_one_machine_the_drivers_address_is_shown_but_decides_nothing(pair: tuple[JobFolder, JobFolder]) -> None:
    change_bundles(pair[0], "job*.json", 0, "driver_info", "node_ip_address", value="127.0.0.10")
    verdict, evidence = verdicts(pair[0])[0]["driver on a worker"]
    assert verdict == "Pass" and "127.0.0.10 (decides nothing where nodes share a machine)" in evidence


def test_a_step_that_no_training_reaches_is_told_at_once(pair: tuple[JobFolder, JobFolder]) -> None:
    with pair[0].metrics.open("a") as metrics:
        metrics.write('{"step":99999999999999999999999,"data":{"critic/score/mean":0.5}}\n')
    first = verdicts(pair[0])[0]
    assert first["checkpoints"] == ("Fail", "metrics.jsonl: 99999999999999999999999 steps, which no training reaches")
    assert first["metrics"][0] == "Fail"


def test_validation_before_training_is_no_step(pair: tuple[JobFolder, JobFolder]) -> None:
    pair[0].metrics.write_text('{"step":0,"data":{"val-core/acc":0.5}}\n' + pair[0].metrics.read_text())
    first = verdicts(pair[0])[0]
    assert first["metrics"][0] == first["nothing resumed unasked"][0] == first["checkpoints"][0] == "Pass"


def test_a_plain_command_skips_what_only_a_trainer_has(pair: tuple[JobFolder, JobFolder]) -> None:
    folder = pair[0]
    change_plan(folder, imports=[], workload="true", save_freq=None, argv=["true"])
    change_json(folder.provenance, "inputs", value={})
    folder.metrics.unlink()
    skipped = {name: told for name, (verdict, told) in verdicts(folder)[0].items() if verdict == "Skipped"}
    trainer_only = ["trained on this cluster", "nothing resumed unasked"]
    others = ["data and model reused", "checkpoints", "code from code_path", "metrics", "log"]
    assert list(skipped) == ["sealed", *trainer_only, *others]
    assert all(skipped.values())


def test_a_command_that_is_no_module_is_planned_with_its_overrides(pair: tuple[JobFolder, JobFolder]) -> None:
    folder, override = pair[0], '+a=it\'s "$(id)"\n`id` ü'
    change_plan(folder, imports=[], workload="mine", save_freq=None, argv=["python3", "/mine/train.py", override])
    change_json(folder.job_spec(), "trainer_overrides", value=[override])
    hydra.overrides_record(folder.logs / "hydra").unlink()
    shutil.rmtree(folder.imports)
    assert verdicts(folder)[0]["as planned"][0] == "Pass"
    change_json(folder.job_spec(), "trainer_overrides", value=[override, "b=1"])
    assert verdicts(folder)[0]["as planned"] == ("Fail", "resolved.yaml: argv lacks b=1, which the JobSpec asks for")


@pytest.mark.parametrize(("beside", "verdict"), [("TransferQueueController", "Pass"), ("AgentLoopWorker", "Fail")])
def test_a_node_where_only_the_queue_ran_imports_nothing(pair: tuple[JobFolder, JobFolder], beside: str, verdict: str) -> None:
    folder = pair[0]
    the_plan = plan.read(folder)
    init = Path(str(the_plan.code_path), "verl", "__init__.py")
    init.parent.mkdir(parents=True, exist_ok=True)
    init.write_text(import_proof.EXTERNAL_MODULES)
    change_plan(folder, env_vars=the_plan.env_vars | {import_proof.EXTERNAL_MODULES: import_proof.HOOK})
    for record in folder.imports.glob("*.json"):  # both processes that train are on one worker
        if json.loads(record.read_text())["role"] == "ray worker":
            change_json(record, "node_id", value=WORKER_0_ID)
    seen = import_proof.report(import_proof.records(folder), [])
    folder.precheck.write_text(json.dumps(json.loads(folder.precheck.read_text()) | seen))
    for actors in folder.debug.glob("*/actors.json"):
        change_json(actors, 1, "class_name", value=beside)
    found, told = verdicts(folder)[0]["code from code_path"]
    assert (found, "not checked on" in told) == (verdict, verdict == "Fail"), told


def test_a_job_that_goes_on_proves_nothing(pair: tuple[JobFolder, JobFolder]) -> None:
    change_result(pair[0], state="RUNNING", ended_at=None)
    first = verdicts(pair[0])[0]
    assert first["succeeded"] == ("Fail", "the job has not ended: result.json says RUNNING")
    assert {verdict for name, (verdict, _) in first.items() if name != "succeeded"} == {"Skipped"}


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    settings = msgspec.structs.replace(load_cluster("local"), shared_root=str(tmp_path), state_dir=str(tmp_path))
    monkeypatch.setenv("MVP_CLUSTER_JSON", settings.to_json())
    return cli.main(["verify", *arguments])


def test_the_command_exits_0_only_when_nothing_failed(
    pair: tuple[JobFolder, JobFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, monkeypatch, "first", "second") == 0
    text = capsys.readouterr().out
    assert text.endswith("2 jobs: 33 Pass, 0 Fail, 3 Skipped\n")
    assert f"second  {pair[1].path}" in text and "✓ Pass     metrics" in text

    pair[1].precheck.unlink()
    assert run(tmp_path, monkeypatch, "first", "second", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is False and [job["passed"] for job in found["jobs"]] == [True, False]
    [check] = [check for check in found["jobs"][1]["checks"] if check["name"] == "code from code_path"]
    assert (check["verdict"], check["reason"], check["evidence"]) == ("Fail", "precheck.json is missing", [])
    [metrics] = [check for check in found["jobs"][0]["checks"] if check["name"] == "metrics"]
    assert list(metrics) == ["name", "verdict", "reason", "evidence", "seconds", "hint"] and metrics["seconds"] >= 0
    last = {"file": "metrics.jsonl", "line": 25, "text": pair[0].metrics.read_text().splitlines()[-1]}
    assert [place["line"] for place in metrics["evidence"]] == [1, 25] and metrics["evidence"][1] == last


def test_every_check_that_passes_cites_lines_that_are_there(pair: tuple[JobFolder, JobFolder]) -> None:
    for folder in pair:
        seal(folder)
    reports = judge(*pair)
    for check in reports[1].checks:
        assert check.verdict == "Pass" and check.evidence, check
        for evidence in check.evidence:
            file = pair[1].path / evidence.file
            assert file.exists(), evidence
            if evidence.line is not None:
                assert evidence.text in file.read_text().splitlines()[evidence.line - 1], evidence


@pytest.mark.parametrize(
    ("doctor", "check", "line"),
    [
        (lambda f: change_text(f.metrics, '{"step":3,"data"', '{"st'), "metrics", "metrics.jsonl:3: "),
        (lambda f: change_result(f, state="FAILED", exit_code=1), "succeeded", 'result.json:4: "state": "FAILED"'),
        (
            lambda f: change_log(f, "=codeA", "=codeB"),
            "code from code_path",
            "driver.log:2: MVP_PRECHECK_MARKER=codeB",
        ),
        (lambda f: old(f.checkpoints / SHARD), "nothing older in it", f"{SHARD}: 3"),
    ],
)
def test_a_check_that_fails_cites_the_line_that_decides(
    pair: tuple[JobFolder, JobFolder], doctor: Doctor, check: str, line: str
) -> None:
    doctor(pair[1])
    reports = judge(*pair)
    failed = next(found for found in reports[1].checks if found.verdict == "Fail")
    assert failed.name == check and any(line in evidence.show() for evidence in failed.evidence), failed.evidence


HALF_WRITTEN: list[tuple[str, Callable[[Path], Any]]] = [
    ("a shard cut to 100 bytes", lambda p: os.truncate(p / "actor/optim_world_size_2_rank_0.pt", 100)),
    ("a shard missing", lambda p: (p / "actor/optim_world_size_2_rank_1.pt").unlink()),
    ("data.pt missing", lambda p: (p / "data.pt").unlink()),
    ("the tracker names another step", lambda p: (p.parent / TRACKER).write_text("20")),
]


@pytest.mark.parametrize("breaks", [case[1] for case in HALF_WRITTEN], ids=[case[0] for case in HALF_WRITTEN])
def test_nobody_takes_a_checkpoint_that_is_half_written(tmp_path: Path, breaks: Callable[[Path], Any]) -> None:
    folder = good_job(SharedRoot(tmp_path), "first")
    assert verdicts(folder)[0]["checkpoints"][0] == "Pass"
    assert verl_checkpoints.last_whole(folder, RL).step == 25
    assert verl_checkpoints.problem(folder.checkpoints, 25) == ""
    breaks(folder.checkpoints / "global_step_25")
    newest = verl_checkpoints.every(folder.checkpoints)[0]
    assert newest.step == 25 and newest.problem
    assert verdicts(folder)[0]["checkpoints"] == ("Fail", f"checkpoints/global_step_25 is not whole: {newest.problem}")
    resume = verl_checkpoints.last_whole(folder, RL)
    assert resume.step == 20 and resume.skipped == [f"global_step_25 is not whole: {newest.problem}"]
    assert verl_checkpoints.problem(folder.checkpoints, 25) != ""


def test_checkpoints_that_verl_removed_again_need_not_be_whole(tmp_path: Path) -> None:
    folder = good_job(SharedRoot(tmp_path), "first")
    shutil.rmtree(folder.checkpoints / "global_step_10/actor")  # verl leaves data.pt
    assert verdicts(folder)[0]["checkpoints"][0] == "Fail"
    change_plan(folder, argv=[*plan.read(folder).argv, "trainer.max_actor_ckpt_to_keep=2"])
    assert verdicts(folder)[0]["checkpoints"][0] == "Pass"
    shutil.rmtree(folder.checkpoints / "global_step_20/actor")
    assert "global_step_20 is not whole: actor/ is missing" in verdicts(folder)[0]["checkpoints"][1]


def test_a_workload_that_this_host_does_not_know_is_judged_by_the_layout_that_is_there(tmp_path: Path) -> None:
    folder = good_job(SharedRoot(tmp_path), "first")
    change_plan(folder, workload="mine")
    assert verdicts(folder)[0]["checkpoints"][0] == "Pass"
    (folder.checkpoints / "global_step_25/data.pt").unlink()
    assert verdicts(folder)[0]["checkpoints"][0] == "Fail"


@pytest.mark.parametrize("name", ["nope", "../first", ".index", "", "x" * 300])
def test_an_unknown_id_is_bad_input(
    pair: tuple[JobFolder, JobFolder],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    assert run(tmp_path, monkeypatch, "first", name) == 2
    assert capsys.readouterr().err.startswith("bad input: ")


def test_a_checkpoint_that_was_removed_on_request_is_reported_and_not_missing(pair: tuple[JobFolder, JobFolder]) -> None:
    job = pair[1]
    seal(job)
    place = job.checkpoints / "global_step_10"
    gone = [removals.Gone(step=10, bytes=1)]
    seals_of(job).remove(job, removals.record(job, "57_checkpoints.sh second --keep 2", gone), [place])
    [told] = verdicts(job)
    assert told["sealed"][0] == "Pass" and told["checkpoints"][0] == "Pass", told
    assert "removed on request since, the last at 2" in told["sealed"][1] and "checkpoints/global_step_10;" in told["sealed"][1]
    assert f"step 10 was {removals.of(job)[10]}" in told["checkpoints"][1]
    shutil.rmtree(job.checkpoints / "global_step_20")
    [told] = verdicts(job)
    assert (told["sealed"][0], told["checkpoints"][0]) == ("Fail", "Fail"), "nobody asked for that"
    assert "global_step_10" not in told["sealed"][1] and told["checkpoints"][1].endswith("expected 20, 25")


def test_an_attempt_after_a_removed_one_is_not_proven(tmp_path: Path) -> None:
    job = good_job(SharedRoot(tmp_path), "a.2")
    lineage = {"chain": "a", "number": 2, "previous": "a", "cause": "host", "why": ""}
    change_json(job.provenance, "attempt", value=lineage)
    attempts = [Attempt(id="a", state="FAILED", cause="host"), Attempt(id="a.2")]
    chains.write(job.shared, Chain(cluster="local", retry=Retry(on=["host"]), attempts=attempts))
    assert verdicts(job)[0]["attempt of a chain"][0] == "Fail", "its folder is missing, and nobody asked for that"
    facts = {"workload": "ppo", "state": "FAILED", "claimed_at": now(), "removed_at": now(), "by": "me@vm"}
    removals.record_job(job.shared, removals.RemovedJob(submission_id="a", bytes=1, **facts))
    verdict, reason = verdicts(job)[0]["attempt of a chain"]
    assert verdict == "Skipped" and "job 'a' was removed on request at" in reason


def test_a_logger_that_the_plan_adds_is_as_planned_and_one_that_it_lacks_is_not(pair: tuple[JobFolder, JobFolder]) -> None:
    job = pair[0]
    change_plan(job, argv=[*plan.read(job).argv, "trainer.logger=[wandb,file]"])
    change_json(job.job_spec(), "trainer_overrides", value={"trainer.logger": "wandb"})
    assert verdicts(job)[0]["as planned"][0] == "Pass"
    change_json(job.job_spec(), "trainer_overrides", value={"trainer.logger": ["wandb", "mlflow"]})
    verdict, reason = verdicts(job)[0]["as planned"]
    assert verdict == "Fail" and "argv has trainer.logger=[wandb,file], without mlflow" in reason


def test_a_traceback_after_the_last_step_is_named_unless_python_ignored_it(pair: tuple[JobFolder, JobFolder]) -> None:
    job = pair[0]
    before = job.driver_log.read_text()
    begins = "(Actor pid=7) Exception ignored in: <function Loader.__del__ at 0x7f0>\n"
    between = "".join(f"(Other pid=8) worker {number} ends\n" for number in range(5))
    traceback = "".join(
        f"(Actor pid=7) {line}\n"
        for line in (
            "Traceback (most recent call last):",
            '  File "/x/loader.py", line 7, in end',
            "    self.end()",
            "RuntimeError: no loop",
        )
    )
    job.driver_log.write_text(before + begins + between + traceback)
    assert not training_log.view(job.driver_log, {}).traceback
    of_driver = (begins + between + traceback).replace("(Actor pid=7) ", "")
    job.driver_log.write_text(before + of_driver)
    assert not training_log.view(job.driver_log, {}).traceback
    for own in (begins + between + traceback, of_driver):  # the next line of the same process is another one
        first = own.index("\n") + 1
        who = "(Actor pid=7) " if own.startswith("(") else ""
        job.driver_log.write_text(f"{before}{own[:first]}{who}the loader ends\n{own[first:]}")
        assert training_log.view(job.driver_log, {}).traceback
    job.driver_log.write_text(before + between + traceback + "(Actor pid=7) bye\n")
    job.log_times.unlink()  # it has the log's length
    verdict, reason = verdicts(job)[0]["log"]
    line = len(before.splitlines()) + 6
    assert (verdict, reason) == ("Fail", f"logs/driver.log:{line}: a traceback after the last step: RuntimeError: no loop")


def test_a_data_loader_that_ray_ended_with_its_worker_is_named_and_fails_nothing(pair: tuple[JobFolder, JobFolder]) -> None:
    job = pair[0]
    killed = "RuntimeError: DataLoader worker (pid 44) is killed by signal: Killed."
    residue = (
        "(TaskRunner pid=7) Traceback (most recent call last):\n"
        '(TaskRunner pid=7)   File "/v/ray/_private/worker.py", line 1069, in main_loop\n'
        "(TaskRunner pid=7)     self.core_worker.run_task_loop()\n"
        f"(TaskRunner pid=7) {killed} \n"
    )
    job.driver_log.write_text(job.driver_log.read_text() + residue)
    job.log_times.unlink()  # it has the log's length
    verdict, reason = verdicts(job)[0]["log"]
    assert verdict == "Pass"
    assert reason.endswith("only residual text of the shutdown: " + killed)
    job.driver_log.write_text(job.driver_log.read_text() + residue.replace(killed, "ValueError: the save is lost"))
    assert training_log.view(job.driver_log, {}).exception == "ValueError: the save is lost"


def test_a_traceback_that_the_model_wrote_is_none_of_the_run(pair: tuple[JobFolder, JobFolder]) -> None:
    job = pair[0]
    before = job.driver_log.read_text()
    quoted = "[prompt] x\n[response] Traceback (most recent call last)\n[ground_truth] 42\n[score] 0.0\n"
    for text, fails in ((quoted, False), (quoted.replace("[ground_truth]", "[truth]"), True)):
        job.driver_log.write_text(before + text)
        assert bool(training_log.view(job.driver_log, {}).traceback) == fails
