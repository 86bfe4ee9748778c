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
from fake_ray import HEAD_ID, STATUS_TEXT, WORKER_0_ID, WORKER_1_ID, job_record, node_rows
from saved_checkpoints import save

from mvp_helpers import cli
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import moment_of, now
from mvp_helpers.cluster.cluster_file import load as load_cluster
from mvp_helpers.plan import plan
from mvp_helpers.plan.plan import Plan
from mvp_helpers.proof import verify
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result
from mvp_helpers.trainers import verl_checkpoints
from mvp_helpers.trainers.checkpoint import Resume
from mvp_helpers.trainers.verl_checkpoints import RL, TRACKER

STEPS, SAVE_FREQ = 25, 10
JOB_ID = "03000000"
INPUTS_MADE_AT = "2026-01-01T00:00:00.000Z"

Doctor = Callable[[JobFolder], Any]


def make_plan(folder: JobFolder) -> Plan:
    """The plan of a PPO job on the local cluster."""
    root = folder.path.parent.parent
    code = str(SharedRoot(root).verl_code / "codeA")
    own_folder = [f"trainer.default_local_dir={folder.checkpoints}", "trainer.resume_mode=disable"]
    return Plan(
        submission_id=folder.submission_id,
        workload="ppo",
        source="ppo.json",
        cluster="local",
        device="cpu",
        host_driver="local",
        shared_root=str(root),
        job_folder=str(folder.path),
        code_path=code,
        code_id="codeA",
        model=f"{root}/model",
        dataset=f"{root}/dataset",
        data_files={},
        address="http://127.0.0.10:8290",
        entrypoint_resources={"worker_node": 1},
        entrypoint_num_cpus=1,
        entrypoint=["python3", "-m", "mvp_helpers", "run-job", str(folder.path)],
        nnodes=2,
        processes_per_node=1,
        save_freq=SAVE_FREQ,
        train_batch_size=8,
        total_epochs=1,
        total_training_steps=None,
        argv=["python3", "-m", "verl.trainer.main_ppo", *own_folder],
        imports=["verl"],
        env_vars={"PYTHONPATH": f"{code}:/toolkit/lib"},
        stop_wait_s=60,
    )


def write_bundle(folder: JobFolder, event: str, at: int, driver_ip: str = "127.0.0.11") -> Path:
    bundle = folder.debug / f"20260101T00000{at}.000Z-{event}"
    bundle.mkdir()
    driver = {"id": "1", "node_ip_address": driver_ip, "pid": "1"}
    (bundle / "ray_status.txt").write_text(STATUS_TEXT)
    (bundle / "nodes.json").write_text(json.dumps(node_rows()))
    record = job_record(folder.submission_id, "RUNNING", driver_info=driver, job_id=JOB_ID)
    (bundle / "jobs.json").write_text(json.dumps([record]))
    places = [("a", JOB_ID, WORKER_0_ID), ("b", JOB_ID, WORKER_1_ID), ("c", "01000000", HEAD_ID)]
    actors = [{"actor_id": name, "class_name": "Trainer", "job_id": owner, "node_id": node} for name, owner, node in places]
    (bundle / "actors.json").write_text(json.dumps(actors))
    return bundle


def good_job(shared: SharedRoot, name: str) -> JobFolder:
    """The folder of a truthful PPO job: 25 steps, saved every 10."""
    folder = job_folder.claim(shared, Result(submission_id=name, workload="ppo", state="CLAIMED"))
    folder.resolved.write_text(plan.to_yaml(make_plan(folder)))
    folder.submit_cmd.write_text(f"ray job submit --address http://127.0.0.10:8290 --submission-id {name} --no-wait -- x\n")
    nodes = {"head": HEAD_ID, "worker-0": WORKER_0_ID, "worker-1": WORKER_1_ID}
    hosts = [
        {"name": host, "role": "head" if host == "head" else "worker", "ip": f"127.0.0.1{at}", "node_id": node}
        for at, (host, node) in enumerate(nodes.items())
    ]
    inputs = {
        key: {"path": f"{shared.root}/{key}", "identity": f"{key}-" + "0" * 60, "made_at": INPUTS_MADE_AT}
        for key in ("model", "dataset")
    }
    source = {"host": "head", "ip": "127.0.0.10", "node_id": HEAD_ID, "hostname": "vm", "pid": 1, "user": "me"}
    folder.provenance.write_text(json.dumps({"submitted_from": source, "hosts": hosts, "inputs": inputs}))
    seen = {"modules": {"verl": str(shared.verl_code / "codeA" / "verl" / "__init__.py")}, "marker": "codeA", "errors": {}}
    workers = [{**seen, "node_id": node, "ip": ip} for node, ip in ((WORKER_0_ID, "127.0.0.11"), (WORKER_1_ID, "127.0.0.12"))]
    precheck = {"ok": True, "problems": [], "driver": seen, "ray_workers": workers, "steps_total": STEPS}
    folder.precheck.write_text(json.dumps(precheck))
    folder.driver_log.write_text(f"MVP_PRECHECK_VERL_FILE={seen['modules']['verl']}\nMVP_PRECHECK_MARKER=codeA\nstep:1 …\n")
    line = '{"step":%d,"data":{"critic/score/mean":0.5,"actor/pg_loss":-1e-3}}\n'
    folder.metrics.write_text("".join(line % step for step in range(1, STEPS + 1)))
    for step in (10, 20, 25):
        save(folder.checkpoints, step, ("actor",))
    for at, event in enumerate(("submitted", "started", "succeeded")):
        write_bundle(folder, event, at)
    change_result(
        folder,
        state="SUCCEEDED",
        exit_code=0,
        submitted_at=now(),
        started_at=now(),
        ended_at=now(),
        driver_host="worker-0",
        driver_node_id=WORKER_0_ID,
        driver_node_ip="127.0.0.11",
        steps_done=STEPS,
        steps_total=STEPS,
    )
    return folder


def change_result(folder: JobFolder, **fields: Any) -> None:
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), **fields))


def change_json(path: Path, *keys: str | int, value: Any) -> None:
    """Replace one value deep inside a JSON file."""
    document = json.loads(path.read_bytes())
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(document))


def change_plan(folder: JobFolder, **changes: Any) -> None:
    folder.resolved.write_text(plan.to_yaml(msgspec.structs.replace(plan.read(folder), **changes)))


def change_bundles(folder: JobFolder, name: str, *keys: str | int, value: Any) -> None:
    for path in folder.debug.glob(f"*/{name}"):
        change_json(path, *keys, value=value)


def change_rows(folder: JobFolder, name: str, change: Callable[[list[Any]], list[Any]]) -> None:
    for path in folder.debug.glob(f"*/{name}"):
        path.write_text(json.dumps(change(json.loads(path.read_bytes()))))


def change_text(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[JobFolder, JobFolder]:
    """Two truthful jobs, one after the other."""
    shared = SharedRoot(tmp_path)
    first = good_job(shared, "first")
    time.sleep(0.002)  # claimed_at counts milliseconds
    return first, good_job(shared, "second")


def verdicts(*folders: JobFolder) -> list[dict[str, tuple[str, str]]]:
    reports = verify.verify([(folder, job_folder.read(folder)) for folder in folders])
    return [{check.name: (check.verdict, check.reason) for check in report.checks} for report in reports]


def test_everything_passes_on_truthful_evidence(pair: tuple[JobFolder, JobFolder]) -> None:
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


def goes_on(folder: JobFolder) -> None:
    """A truthful job that resumed step 10 of ``first``."""
    resumed(folder)
    shutil.rmtree(folder.checkpoints / "global_step_10")
    source = folder.path.parent / "first" / "checkpoints" / "global_step_10"
    resume = {"submission_id": "first", "step": 10, "path": str(source), "world_size": 2}
    overrides = ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={source}"]
    change_plan(
        folder,
        argv=["python3", "-m", "verl.trainer.main_ppo", f"trainer.default_local_dir={folder.checkpoints}", *overrides],
        resume=Resume(**resume),
    )
    change_json(folder.provenance, "resumed_from", value={**resume, "lineage": [{"submission_id": "first", "step": 10}]})


SHARD = "global_step_10/actor/model_world_size_2_rank_1.pt"

# What is doctored, the check that must fail (alone), and what its evidence must name.
DOCTORED: list[tuple[str, Doctor, str, str]] = [
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
            change_bundles(f, "jobs.json", 0, "driver_node_id", value=HEAD_ID),
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
        lambda f: change_bundles(f, "jobs.json", 0, "driver_node_id", value=WORKER_1_ID),
        "driver on a worker",
        "Ray's driver_node_id",
    ),
    (
        "never running",
        lambda f: change_bundles(f, "jobs.json", 0, "status", value="PENDING"),
        "running",
        "Ray never said RUNNING (PENDING)",
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
            change_bundles(f, "jobs.json", 0, "driver_info", "node_ip_address", value="127.0.0.10"),
        ),
        "driver on a worker",
        "driver_info.node_ip_address 127.0.0.10",
    ),
    (
        "driver's address never recorded on hosts of their own",
        lambda f: (change_plan(f, host_driver="docker"), change_bundles(f, "jobs.json", 0, "driver_info", value=None)),
        "driver on a worker",
        "not recorded",
    ),
    ("claimed twice", claimed_twice, "own folder", "2 claims of this id"),
    ("never claimed", lambda f: shutil.rmtree(f.path.parent / ".index"), "own folder", "0 claims of this id"),
    ("another job's result", lambda f: change_result(f, submission_id="first"), "own folder", "result.json: submission_id first"),
    (
        "another job's plan",
        lambda f: change_plan(f, job_folder=str(f.path.parent / "first")),
        "own folder",
        "resolved.yaml: job_folder",
    ),
    ("started before the claim", lambda f: change_result(f, started_at=moment_of(time.time() - 60)), "own folder", "started_at"),
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
        lambda f: change_plan(f, argv=["trainer.default_local_dir=/tmp/shared", "trainer.resume_mode=disable"]),
        "nothing resumed unasked",
        "default_local_dir=/tmp/shared",
    ),
    (
        "resume mode",
        lambda f: change_plan(f, argv=[f"trainer.default_local_dir={f.checkpoints}", "trainer.resume_mode=auto"]),
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
    ("another save_freq", lambda f: change_plan(f, save_freq=5), "checkpoints", "expected 5, 10, 15, 20, 25"),
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
        "not looked at on",
    ),
    (
        "another marker printed",
        lambda f: change_text(f.driver_log, "=codeA", "=codeB"),
        "code from code_path",
        "MVP_PRECHECK_MARKER=codeB",
    ),
    (
        "nothing printed",
        lambda f: f.driver_log.write_text("step:1\n"),
        "code from code_path",
        "MVP_PRECHECK_VERL_FILE=(not printed)",
    ),
    (
        "another PYTHONPATH",
        lambda f: change_plan(f, env_vars={"PYTHONPATH": "/toolkit/lib"}),
        "code from code_path",
        "begins with /toolkit/lib",
    ),
    ("a step missing", lambda f: change_text(f.metrics, '{"step":7,', '{"step":6,'), "metrics", "steps 1-6, 8-25, expected 1-25"),
    ("fewer steps than expected", lambda f: change_result(f, steps_total=30), "metrics", "expected 1-30"),
    ("NaN, as verl writes it", lambda f: change_text(f.metrics, "0.5", "null"), "metrics", "step 1: critic/score/mean is None"),
    ("NaN", lambda f: change_text(f.metrics, "0.5", "NaN"), "metrics", "step 1: critic/score/mean is nan"),
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
    assert list(failed) == [check], failed
    assert evidence in failed[check]


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
        (lambda f: change_plan(f, argv=[a.replace("resume_path", "auto") for a in plan.read(f).argv]), "resume_mode=auto"),
        (lambda f: change_plan(f, argv=[a.replace("/first/", "/other/") for a in plan.read(f).argv]), "resume_from_path="),
        (lambda f: change_plan(f, argv=[a.replace("step_10", "step_20") for a in plan.read(f).argv]), "resume_from_path="),
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
    change_bundles(pair[1], "jobs.json", 0, "submission_id", value="x")
    failed = {name: told for name, (verdict, told) in verdicts(*pair)[1].items() if verdict == "Fail"}
    assert list(failed) == ["running", "driver on a worker", "trained on this cluster"]
    assert "driver_node_id none" in failed["driver on a worker"]


def test_without_its_plan_nothing_that_needs_it_passes(pair: tuple[JobFolder, JobFolder]) -> None:
    pair[1].resolved.unlink()
    second = verdicts(*pair)[1]
    assert {name for name, (verdict, _) in second.items() if verdict == "Pass"} == {
        "succeeded",
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
    change_bundles(pair[0], "jobs.json", 0, "driver_info", "node_ip_address", value="127.0.0.10")
    verdict, evidence = verdicts(pair[0])[0]["driver on a worker"]
    assert verdict == "Pass" and "127.0.0.10 (decides nothing where nodes share a machine)" in evidence


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
    assert list(skipped) == [*trainer_only, "data and model reused", "checkpoints", "code from code_path", "metrics"]
    assert all(skipped.values())


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
    assert text.endswith("2 jobs: 25 Pass, 0 Fail, 1 Skipped\n")
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
    reports = verify.verify([(folder, job_folder.read(folder)) for folder in pair])
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
            lambda f: change_text(f.driver_log, "=codeA", "=codeB"),
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
    reports = verify.verify([(folder, job_folder.read(folder)) for folder in pair])
    [failed] = [found for found in reports[1].checks if found.verdict == "Fail"]
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
