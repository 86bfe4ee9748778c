"""Why a job makes no step: bundles recorded from verl's own trainers on CPU, and made-up ones for what cannot be had here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.diagnosis import job_evidence, stall
from mvp_helpers.diagnosis.stall import Finding, Process
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result
from mvp_helpers.record.stall import Stall

RECORDED = Path(__file__).parents[1] / "stalls"
COLLECTIVE = """
Thread 1 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    _exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)
    Trainer.update (verl/workers/engine.py:7)
"""
ELSEWHERE = """
Thread 1 (active): "MainThread"
    Session.request (urllib3/connection.py:5)
    compute_score (rewards/mine.py:12)
Thread 2 (idle): "tqdm_monitor"
    Condition.wait (threading.py:331)
"""
IDLE = """
Thread 1 (idle): "MainThread"
    Worker.main_loop (ray/_private/worker.py:1069)
    <module> (ray/_private/workers/default_worker.py:323)
"""
DRIVER = """
Thread 1 (idle): "MainThread"
    Worker.get_objects (ray/_private/worker.py:900)
    get (ray/_private/worker.py:2800)
    SFTTrainer.fit (verl/trainer/sft_trainer_ray.py:300)
"""


def recorded(name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Reports of the hosts, actors and placement groups of a recorded bundle."""
    bundle = RECORDED / name
    reports = []
    for host in sorted((bundle / "hosts").iterdir()):
        stacks = {int(dump.stem): dump.read_text() for dump in host.glob("py-spy/*.txt")}
        rows = json.loads((host / "processes.json").read_bytes())
        reports.append(json.loads((host / "host.json").read_bytes()) | {"processes": rows, "stacks": stacks})
    own = {row["job_id"] for row in json.loads((bundle / "job.json").read_bytes())}
    actors = [row for row in json.loads((bundle / "actors.json").read_bytes()) if row["job_id"] in own]
    groups = [row for row in json.loads((bundle / "placement_groups.json").read_bytes()) if row["creator_job_id"] in own]
    return reports, actors, groups


def process(rank: int | None, dump: str, state: str = "S (sleeping)", name: str = "TrainingWorker") -> Process:
    return Process(f"worker-{rank}", 100 + (rank or 0), state, name, rank, stall.frames_of(dump), rank is not None)


def found(*trainers: Process) -> Finding:
    return stall.find(list(trainers), [], [], [])


def test_a_stopped_rank_of_a_real_sft_is_named_with_the_call_that_the_other_waits_in() -> None:
    reports, actors, groups = recorded("sft-stopped")
    trainers = stall.processes(reports, actors)
    assert [(one.rank, one.host, one.pid) for one in trainers if one.rank is not None] == [
        (0, "worker-0", 6363),
        (1, "worker-0", 6364),
    ]
    names = {one.name for one in trainers}
    assert names == {"TrainingWorker", "driver (mvp_helpers.job.sft_driver)", "child of pid 5987"}
    finding = stall.find(trainers, actors, groups, [])
    assert finding.kind == "stopped" and finding.culprit == "rank 1 (TrainingWorker) on worker-0, pid 6364"
    assert finding.text == (
        "rank 1 (TrainingWorker) on worker-0, pid 6364, is stopped (SIGSTOP) in _save (torch/serialization.py:1253); "
        "1 other process waits for it in barrier (torch/distributed/distributed_c10d.py:5356)"
    )
    assert "kill -CONT 6364 on worker-0" in finding.advice


def test_the_same_bundle_without_the_stopped_state_names_the_rank_that_is_elsewhere() -> None:
    reports, actors, _ = recorded("sft-stopped")
    for row in (row for report in reports for row in report["processes"]):
        row["state"] = "S (sleeping)"
    finding = stall.find(stall.processes(reports, actors), actors, [], [])
    assert finding.kind == "elsewhere" and finding.culprit.endswith("pid 6364")
    assert "called from FSDPCheckpointManager.save_checkpoint (verl/utils/checkpoint/" in finding.text


def test_a_rank_in_user_code_is_named_with_its_line() -> None:
    finding = found(
        process(0, COLLECTIVE), process(1, COLLECTIVE), process(2, ELSEWHERE), process(None, DRIVER, name="driver (x)")
    )
    assert finding.culprit == "rank 2 (TrainingWorker) on worker-2, pid 102"
    assert "Session.request (urllib3/connection.py:5)" in finding.text
    assert finding.text.endswith("2 other processes wait for it in all_reduce (torch/distributed/distributed_c10d.py:3252)")


def test_a_rank_that_got_no_task_is_named() -> None:
    finding = found(process(0, COLLECTIVE), process(1, IDLE))
    assert finding.culprit.startswith("rank 1") and "Worker.main_loop" in finding.text


def test_ranks_in_different_collectives_are_said() -> None:
    other = COLLECTIVE.replace("all_reduce", "all_gather_into_tensor")
    assert found(process(0, COLLECTIVE), process(1, other)).text.startswith("the ranks wait in different collectives: rank 0")


def test_all_ranks_in_one_collective_blame_nobody() -> None:
    finding = found(process(0, COLLECTIVE), process(1, COLLECTIVE))
    assert (finding.kind, finding.culprit) == ("waits", "")


def test_a_process_that_waits_for_a_disk_is_named() -> None:
    finding = found(process(0, COLLECTIVE), process(1, ELSEWHERE, "D (disk sleep)"))
    assert finding.kind == "disk" and "rank 1" in finding.culprit


def test_a_stopped_driver_without_stacks_is_named() -> None:
    finding = found(process(None, "", "T (stopped)", "driver (verl.trainer.main_ppo)"), process(0, IDLE))
    assert finding.text.startswith("driver (verl.trainer.main_ppo) on worker-None, pid 100, is stopped (SIGSTOP)")


def test_nothing_at_all_is_said_to_be_unknown() -> None:
    assert found().kind == "unknown"
    assert found(process(0, "Error: Permission denied")).kind == "unknown"


def test_a_pending_placement_group_and_an_actor_that_does_not_start_are_named_with_what_they_need() -> None:
    bundle = {"unit_resources": {"CPU": 3.0, "GPU": 1.0}, "node_id": None}
    group = {"state": "PENDING", "name": "verl_group_1", "bundles": [bundle, bundle]}
    finding = stall.find([], [], [group], ["{'GPU': 1.0} * 2 (PACK): 1+ pending placement groups"])
    assert finding.kind == "pending"
    assert finding.text.startswith(
        "placement group verl_group_1 is pending: it needs 2 × {CPU: 3, GPU: 1}; no node has room for {'GPU'"
    )
    actor = {"state": "PENDING_CREATION", "class_name": "AgentLoop", "name": "a", "required_resources": {"CPU": 4.0}}
    finding = stall.find([], [actor], [], [])
    assert finding.text == "actor AgentLoop 'a' has not started (PENDING_CREATION): it needs {CPU: 4}"


def test_55_gives_the_finding_of_a_stall_that_goes_on_and_none_of_one_that_is_over(tmp_path: Path) -> None:
    result = Result(submission_id="a", workload="sft", state="RUNNING")
    folder: JobFolder = job_folder.claim(SharedRoot(tmp_path), result)
    (folder.debug / "X-stalled").mkdir()
    finding = Finding(kind="stopped", text="rank 1 is stopped", advice="kill -CONT")
    (folder.debug / "X-stalled" / "stall.json").write_bytes(msgspec.json.encode(finding))
    stalled = Stall(step=3, noticed_at="2026-01-31T10:00:00.000Z", limit_s=60, bundle="debug/X-stalled")
    told = job_evidence.of_job(folder, msgspec.structs.replace(result, stalls=[stalled]))
    assert (told.verdict, told.rule, told.evidence, told.log) == ("Fail", "stalled", "rank 1 is stopped", "debug/X-stalled")
    (folder.debug / "X-stalled" / "stall.json").write_bytes(b"{")
    assert "not complete yet" in job_evidence.of_job(folder, msgspec.structs.replace(result, stalls=[stalled])).evidence
    over = msgspec.structs.replace(stalled, resumed_at="2026-01-31T10:01:00.000Z")
    assert job_evidence.of_job(folder, msgspec.structs.replace(result, stalls=[over])).rule != "stalled"


def test_the_toolkits_own_processes_are_not_the_trainers() -> None:
    own = ("python3 -I -S /mvp/lib/mvp_helpers/isolated.py run-job /jobs/a", "python3 -m mvp_helpers.usage.sampler /jobs/a 4f9d")
    rows = [
        {"pid": pid, "parent": 1, "state": "S", "command": text, "rank": None} for pid, text in enumerate((*own, "python3 -m x"))
    ]
    found = stall.processes([{"host": "w", "node_id": "n", "processes": rows, "stacks": {}}], [])
    assert [process.pid for process in found] == [2]
