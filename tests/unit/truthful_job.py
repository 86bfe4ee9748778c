"""The folder of a truthful PPO job, as the job's processes leave it, and ways to change one thing in it."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml
from fake_ray import HEAD_ID, STATUS_TEXT, WORKER_0_ID, WORKER_1_ID, job_record, node_rows
from saved_checkpoints import save

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import now
from mvp_helpers.plan import plan
from mvp_helpers.plan.plan import Plan
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result
from mvp_helpers.seal.seals import Seals
from mvp_helpers.trainers import hydra

STEPS, SAVE_FREQ = 25, 10
JOB_ID = "03000000"
INPUTS_MADE_AT = "2026-01-01T00:00:00.000Z"

ADDRESS = "http://127.0.0.10:8290"


def make_plan(folder: JobFolder) -> Plan:
    """The plan of a PPO job on the local cluster."""
    root = folder.path.parent.parent
    code = str(SharedRoot(root).verl_code / "codeA")
    size = ["trainer.nnodes=2", "trainer.n_gpus_per_node=1", f"trainer.save_freq={SAVE_FREQ}"]
    schedule = ["data.train_batch_size=8", "trainer.total_epochs=1", "actor_rollout_ref.actor.optim.lr=1e-6"]
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
        address=ADDRESS,
        entrypoint_resources={"worker_node": 1},
        entrypoint_num_cpus=1,
        entrypoint=["python3", "-m", "mvp_helpers", "run-job", str(folder.path)],
        nnodes=2,
        processes_per_node=1,
        save_freq=SAVE_FREQ,
        train_batch_size=8,
        total_epochs=1,
        total_training_steps=None,
        argv=["python3", "-m", "verl.trainer.main_ppo", *size, *schedule, *own_folder],
        imports=["verl"],
        env_vars={"PYTHONPATH": f"{code}:/toolkit/lib"},
        stop_wait_s=60,
    )


def write_plan(folder: JobFolder, the_plan: Plan) -> None:
    """Write the plan, and all that a job of that plan records of it."""
    overrides = {"trainer.total_epochs": 1} if "trainer.total_epochs=1" in the_plan.argv else {}
    spec = {"workload": the_plan.workload, "trainer_overrides": overrides, "env_vars": {}}
    if the_plan.resume:
        spec["resume_from"] = the_plan.resume.submission_id
    folder.job_spec().write_text(json.dumps(spec))
    folder.resolved.write_text(plan.to_yaml(the_plan))
    folder.runtime_env.write_text(json.dumps(the_plan.runtime_env()))
    folder.submit_cmd.write_text(f"export RAY_AUTH_MODE=token\n{shlex.join(the_plan.submit_argv())}\n")
    record = hydra.overrides_record(folder.logs / "hydra")
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(yaml.safe_dump([text for text in the_plan.overrides if not hydra.is_for_hydra(text)]))


def write_log(folder: JobFolder, text: str) -> None:
    """Write a driver log, and its length as the job runner records it."""
    folder.driver_log.write_text(text)
    folder.log_times.write_text(f"1795225335657 10\n1795225335999 {len(text.encode())}\n")


def write_metrics(folder: JobFolder, rows: list[dict[str, Any]]) -> None:
    """Write the metrics of steps from 1, as verl's file logger does."""
    lines = (json.dumps({"step": step, "data": row}) + "\n" for step, row in enumerate(rows, 1))
    folder.metrics.write_text("".join(lines))


def write_bundle(folder: JobFolder, event: str, at: int, driver_ip: str = "127.0.0.11") -> Path:
    bundle = folder.debug / f"20260101T00000{at}.000Z-{event}"
    bundle.mkdir()
    driver = {"id": "1", "node_ip_address": driver_ip, "pid": "1"}
    (bundle / "ray_status.txt").write_text(STATUS_TEXT)
    (bundle / "nodes.json").write_text(json.dumps(node_rows()))
    began = int(time.time() * 1000)
    ran = shlex.join(make_plan(folder).entrypoint)
    record = job_record(folder.submission_id, "RUNNING", driver_info=driver, job_id=JOB_ID, entrypoint=ran, start_time=began)
    (bundle / "jobs.json").write_text(json.dumps([record]))
    (bundle / "job.json").write_text(json.dumps([record]))
    about = {"submission_id": folder.submission_id, "event": event, "taken_at": now(), "ray_address": ADDRESS, "items": {}}
    (bundle / "bundle.json").write_text(json.dumps(about))
    places = [("a", JOB_ID, WORKER_0_ID), ("b", JOB_ID, WORKER_1_ID), ("c", "01000000", HEAD_ID)]
    actors = [{"actor_id": name, "class_name": "Trainer", "job_id": owner, "node_id": node} for name, owner, node in places]
    (bundle / "actors.json").write_text(json.dumps(actors))
    return bundle


def good_job(shared: SharedRoot, name: str) -> JobFolder:
    """The folder of a truthful PPO job: 25 steps, saved every 10."""
    folder = job_folder.claim(shared, Result(submission_id=name, workload="ppo", state="CLAIMED"))
    write_plan(folder, make_plan(folder))
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
    code = {"code_id": "codeA", "content": "d427" * 16, "path": str(shared.verl_code / "codeA")}
    facts = {"submitted_from": source, "hosts": hosts, "inputs": inputs, "code": code, "ray": "2.60.0", "python": "3.11.7"}
    folder.provenance.write_text(json.dumps(facts))
    seen = {"modules": {"verl": str(shared.verl_code / "codeA" / "verl" / "__init__.py")}, "marker": "codeA", "errors": {}}
    workers = [{**seen, "node_id": node, "ip": ip} for node, ip in ((WORKER_0_ID, "127.0.0.11"), (WORKER_1_ID, "127.0.0.12"))]
    packages = {"python": "3.11.7", "ray": "2.60.0", "torch": "2.11.0", "verl": "0.9.1"}
    precheck = {"ok": True, "problems": [], "driver": seen, "ray_workers": workers, "steps_total": STEPS, "versions": packages}
    folder.precheck.write_text(json.dumps(precheck))
    folder.imports.mkdir()
    for pid, row in enumerate([{**seen, "role": "driver"}, *({**worker, "role": "ray worker"} for worker in workers)], 10):
        own = {"host": "vm", "pid": pid, "problem": "", "versions": packages}
        (folder.imports / f"vm-{pid}.json").write_text(json.dumps({**row, **own}, indent=1))
    printed = f"MVP_PRECHECK_VERL_FILE={seen['modules']['verl']}\nMVP_PRECHECK_MARKER=codeA\n"
    shown = "(TaskRunner pid=7) step:%d - critic/score/mean:%s - actor/pg_loss:np.float64(-0.001)\n"
    line = '{"step":%d,"data":{"critic/score/mean":%s,"actor/pg_loss":-1e-3}}\n'
    scores = {step: step / 50 for step in range(1, STEPS + 1)}
    write_log(folder, printed + "".join(shown % pair for pair in scores.items()) + "Training Progress: 100%\n")
    folder.metrics.write_text("".join(line % pair for pair in scores.items()))
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
        last_metrics={"critic/score/mean": 0.5, "actor/pg_loss": -1e-3},
    )
    return folder


def seals_of(folder: JobFolder) -> Seals:
    """The seals of the cluster that the folder's job ran on."""
    return Seals(folder.shared.root / "state", "local")


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
    """Make it the folder of a job of another plan."""
    write_plan(folder, msgspec.structs.replace(plan.read(folder), **changes))


def change_argv(folder: JobFolder, old: str, new: str, **changes: Any) -> None:
    """Make it the folder of a job with ``new`` in place of ``old`` in its arguments."""
    argv = plan.read(folder).argv
    assert any(old in text for text in argv)
    change_plan(folder, argv=[text.replace(old, new) for text in argv], **changes)


def change_resolved(folder: JobFolder, **changes: Any) -> None:
    """Change the plan alone, and nothing that was recorded of it."""
    folder.resolved.write_text(plan.to_yaml(msgspec.structs.replace(plan.read(folder), **changes)))


def change_log(folder: JobFolder, old: str, new: str) -> None:
    """Make it the folder of a job that logged ``new`` in place of ``old``."""
    text = folder.driver_log.read_text()
    assert old in text
    write_log(folder, text.replace(old, new, 1))


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
