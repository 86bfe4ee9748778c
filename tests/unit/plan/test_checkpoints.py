"""Which checkpoints are whole: real files of ``torch.save``, laid out as verl leaves them, and every way of being cut short."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.job import provenance
from mvp_helpers.plan import checkpoints, plan, planning
from mvp_helpers.plan.checkpoints import KINDS, Resume
from mvp_helpers.plan.workloads import CheckpointLayout, load
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result

RL = CheckpointLayout(parts=["actor"], files=["data.pt"])
SFT = CheckpointLayout(parts=["."], files=["data_0.pt"])


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of ``torch.save``."""
    import torch

    path = tmp_path_factory.mktemp("torch") / "state.pt"
    torch.save({"weight": torch.arange(5000.0)}, path)
    return path


@pytest.fixture
def save(archive: Path) -> Callable[..., Path]:
    """Writes checkpoint ``step`` of a job as verl does."""

    def write(folder: JobFolder, step: int, parts: tuple[str, ...] = ("actor", "critic"), size: int = 2) -> Path:
        path = folder.checkpoints / f"global_step_{step}"
        for part in parts:
            (path / part / "huggingface").mkdir(parents=True)
            for rank in range(size):
                for kind in KINDS:
                    shutil.copy(archive, path / part / f"{kind}_world_size_{size}_rank_{rank}.pt")
            (path / part / "huggingface" / "config.json").write_text("{}")
            (path / part / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": size}))
        shutil.copy(archive, path / ("data_0.pt" if parts == (".",) else "data.pt"))
        return path

    return write


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return job_folder.claim(SharedRoot(tmp_path), Result(submission_id="a", workload="ppo", state="CLAIMED"))


def cut(path: Path, to: int = -1) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:to])


def test_the_newest_whole_checkpoint_is_taken(job: JobFolder, save: Callable[..., Path]) -> None:
    for step in (2, 9, 10):
        save(job, step)
    found = checkpoints.last_whole(job, RL)
    assert found == Resume(submission_id="a", step=10, path=str(job.checkpoints / "global_step_10"), world_size=2)


def test_sft_keeps_everything_in_one_folder(job: JobFolder, save: Callable[..., Path]) -> None:
    save(job, 3, (".",), size=1)
    assert (checkpoints.last_whole(job, SFT).step, checkpoints.last_whole(job, SFT).world_size) == (3, 1)


def test_the_shipped_workloads_say_what_a_checkpoint_holds() -> None:
    assert (load("ppo").checkpoint, load("grpo").checkpoint, load("sft").checkpoint) == (RL, RL, SFT)


SHARD = "actor/optim_world_size_2_rank_1.pt"
BROKEN: list[tuple[str, Callable[[Path], Any], str]] = [
    ("killed before the first shard", lambda p: [shutil.rmtree(p), p.mkdir()], "actor/ is missing"),
    ("killed at the first shard", lambda p: [shutil.rmtree(p / "actor"), (p / "actor").mkdir()], "actor/ holds no shards"),
    ("a rank's optimiser missing", lambda p: (p / SHARD).unlink(), f"{SHARD} is missing"),
    ("a whole rank missing", lambda p: [f.unlink() for f in p.glob("*/*rank_1.pt")], "rank_1.pt is missing"),
    ("a shard cut by a byte", lambda p: cut(p / SHARD), f"{SHARD} is cut short or damaged ("),
    ("a shard cut in the middle", lambda p: cut(p / SHARD, 9000), f"{SHARD} is cut short or damaged (9000 bytes)"),
    ("an empty shard", lambda p: (p / SHARD).write_bytes(b""), f"{SHARD} is cut short or damaged (0 bytes)"),
    ("a shard of zeros", lambda p: (p / SHARD).write_bytes(bytes(20_000)), f"{SHARD} is cut short or damaged"),
    ("a folder for a shard", lambda p: [(p / SHARD).unlink(), (p / SHARD).mkdir()], "Is a directory"),
    ("no settings of FSDP", lambda p: (p / "actor/fsdp_config.json").unlink(), "actor/fsdp_config.json is missing"),
    ("half of them", lambda p: cut(p / "actor/fsdp_config.json", 9), "actor/fsdp_config.json is cut short or damaged"),
    ("no model config", lambda p: shutil.rmtree(p / "actor/huggingface"), "actor/huggingface/config.json is missing"),
    ("killed before the critic", lambda p: shutil.rmtree(p / "critic"), "critic/ is missing"),
    ("killed in the critic", lambda p: (p / "critic/extra_state_world_size_2_rank_0.pt").unlink(), "critic/extra_state"),
    ("killed before the data loader's state", lambda p: (p / "data.pt").unlink(), "data.pt is missing"),
    ("killed in it", lambda p: cut(p / "data.pt"), "data.pt is cut short or damaged"),
    (
        "shards of two world sizes",
        lambda p: shutil.copy(p / SHARD, p / "actor/optim_world_size_4_rank_3.pt"),
        "actor/ holds shards of 2 world sizes",
    ),
    (
        "settings of another world size",
        lambda p: (p / "actor/fsdp_config.json").write_text('{"world_size": 4}'),
        "actor/fsdp_config.json names 4 processes, but 2 wrote shards",
    ),
]


@pytest.mark.parametrize(("breaks", "why"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_checkpoint_cut_short_is_skipped_with_the_reason(
    job: JobFolder, save: Callable[..., Path], breaks: Callable[[Path], Any], why: str
) -> None:
    save(job, 10)
    breaks(save(job, 20))
    found = checkpoints.last_whole(job, RL)
    assert found.step == 10
    assert len(found.skipped) == 1 and found.skipped[0].startswith("global_step_20 is not whole: ") and why in found.skipped[0]


def test_parts_of_two_world_sizes_are_no_checkpoint(job: JobFolder, save: Callable[..., Path]) -> None:
    path = save(job, 10, ("actor",))
    save(JobFolder(job.path / "other"), 10, ("critic",), size=1)
    shutil.move(job.path / "other/checkpoints/global_step_10/critic", path)
    assert checkpoints.every(job, RL)[0].problem == "actor was written by 2 processes, critic was written by 1 processes"


def test_a_job_without_a_critic_needs_none(job: JobFolder, save: Callable[..., Path]) -> None:
    save(job, 10, ("actor",))
    assert checkpoints.last_whole(job, RL).step == 10


def test_without_any_whole_checkpoint_every_reason_is_told(job: JobFolder, save: Callable[..., Path]) -> None:
    with pytest.raises(BadInput, match="has no whole checkpoint to resume: nothing in"):
        checkpoints.last_whole(job, RL)
    for step in (1, 2):
        (save(job, step) / "data.pt").unlink()
    with pytest.raises(BadInput, match=r"global_step_2 is not whole: data.pt is missing; global_step_1 is not whole"):
        checkpoints.last_whole(job, RL)


def test_what_only_looks_like_a_checkpoint_is_none(job: JobFolder, save: Callable[..., Path]) -> None:
    save(job, 5).rename(job.checkpoints / "global_step_5.old")
    (job.checkpoints / "latest_checkpointed_iteration.txt").write_text("5")
    assert checkpoints.every(job, RL) == []


# Planning a job that goes on.

SPEC = {"workload": "toy", "code_path": "common/code/verl/current", "model": "common/models/tiny", "dataset": "datasets/gsm8k"}


def make(cluster: Cluster, **fields: Any) -> plan.Plan:
    return planning.make(json.dumps(SPEC | fields).encode(), "job.json", cluster)


@pytest.fixture
def source(cluster: Cluster, shared: SharedRoot, workloads: Path, save: Callable[..., Path]) -> JobFolder:
    """A job that was stopped after the checkpoint of its step 1, of 2 (20 rows, batches of 8)."""
    made = make(cluster, submission_id="first")
    folder = job_folder.claim(shared, Result(submission_id="first", workload="toy", state="CLAIMED"))
    folder.resolved.write_text(plan.to_yaml(made))
    folder.provenance.write_text("{}")
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state="STOPPED"))
    save(folder, 1)
    return folder


def test_a_resumed_job_has_its_own_folder_and_the_others_checkpoint(cluster: Cluster, source: JobFolder) -> None:
    before = {path: path.stat().st_mtime_ns for path in source.path.rglob("*")}
    made = make(cluster, submission_id="second", resume_from="first")
    given = dict(text.split("=", 1) for text in made.overrides)
    assert given["trainer.default_local_dir"] == str(source.path.parent / "second" / "checkpoints")
    assert given["trainer.resume_mode"] == "resume_path"
    assert given["trainer.resume_from_path"] == str(source.checkpoints / "global_step_1")
    assert (made.resume and made.resume.step, made.first_step) == (1, 2)
    assert {path: path.stat().st_mtime_ns for path in source.path.rglob("*")} == before


def test_without_resume_from_nothing_is_resumed_and_nobody_can_ask_verl_to(cluster: Cluster, source: JobFolder) -> None:
    made = make(cluster)
    assert made.resume is None and made.first_step == 1
    assert "trainer.resume_mode=disable" in made.overrides and "resume_from_path" not in " ".join(made.overrides)
    for key in ("trainer.resume_mode", "trainer.resume_from_path"):
        with pytest.raises(BadInput, match=f"'{key}' keeps the job in its own folder"):
            make(cluster, trainer_overrides={key: str(source.checkpoints)})


def test_the_plan_of_a_resumed_job_is_read_back(cluster: Cluster, source: JobFolder) -> None:
    (source.checkpoints / "global_step_2" / "actor").mkdir(parents=True)
    made = make(cluster, submission_id="second", resume_from="first")
    made.folder.config.mkdir(parents=True)
    made.folder.resolved.write_text(plan.to_yaml(made))
    assert plan.read(made.folder) == made and made.resume and len(made.resume.skipped) == 1


def test_the_lineage_is_in_the_provenance(cluster: Cluster, source: JobFolder) -> None:
    first = {"submission_id": "zero", "step": 1}
    source.provenance.write_text(json.dumps({"resumed_from": {**first, "lineage": [first]}}))
    facts = provenance.collect(make(cluster, resume_from="first"), cluster, [], "2")
    assert facts["resumed_from"]["submission_id"] == "first" and facts["resumed_from"]["step"] == 1
    assert facts["resumed_from"]["lineage"] == [first, {"submission_id": "first", "step": 1}]
    source.provenance.unlink()
    assert provenance.collect(make(cluster, resume_from="first"), cluster, [], "2")["resumed_from"]["lineage"] is None
    assert provenance.collect(make(cluster), cluster, [], "2")["resumed_from"] is None


def running(folder: JobFolder) -> None:
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state="RUNNING"))


def another_workload(folder: JobFolder) -> None:
    folder.resolved.write_text(folder.resolved.read_text().replace("workload: toy", "workload: sft"))


REFUSED: list[tuple[Callable[[JobFolder], Any], dict[str, Any], str]] = [
    (lambda f: None, {"resume_from": "frist"}, "job 'frist' does not exist"),
    (lambda f: None, {"resume_from": "../first"}, "resume_from"),
    (running, {}, "job 'first' has not ended (RUNNING)"),
    (another_workload, {}, "has workload 'sft', not 'toy'"),
    (lambda f: shutil.rmtree(f.checkpoints), {}, "has no whole checkpoint"),
    (
        lambda f: None,
        {"trainer_overrides": {"trainer.nnodes": 1}},
        "written by 2 trainer processes; this job would have 1 (1 nodes",
    ),
    (lambda f: None, {"trainer_overrides": {"trainer.total_training_steps": 1}}, "this job ends at step 1"),
    (lambda f: f.result.unlink(), {}, "has no result.json"),
]


@pytest.mark.parametrize(("doctor", "fields", "message"), REFUSED)
def test_what_cannot_go_on_is_refused_before_submission(
    cluster: Cluster, source: JobFolder, doctor: Callable[[JobFolder], Any], fields: dict[str, Any], message: str
) -> None:
    doctor(source)
    with pytest.raises(BadInput) as caught:
        make(cluster, **({"resume_from": "first"} | fields))
    assert message in caught.value.what


def test_steps_count_from_the_very_first(cluster: Cluster, source: JobFolder, save: Callable[..., Path]) -> None:
    save(source, 2)
    with pytest.raises(BadInput, match="step 2 of job 'first' leaves nothing to train: this job ends at step 2") as caught:
        make(cluster, resume_from="first")
    assert "count from the very first step" in caught.value.hint
    for more in ({"trainer.total_epochs": 2}, {"trainer.total_training_steps": 3}):
        assert make(cluster, resume_from="first", trainer_overrides=more).first_step == 3


def test_another_model_is_refused(cluster: Cluster, shared: SharedRoot, source: JobFolder) -> None:
    shutil.copytree(shared.models / "tiny", shared.models / "other")
    with pytest.raises(BadInput, match=r"trains .*/tiny, not .*/other"):
        make(cluster, resume_from="first", model="common/models/other")


def test_a_folder_in_which_verl_would_misread_the_step_is_refused(cluster: Cluster, source: JobFolder) -> None:
    source.path.rename(source.path.with_name("global_step_9"))
    with pytest.raises(BadInput, match="verl would misread the step"):
        make(cluster, resume_from="global_step_9")


def test_a_workload_that_cannot_resume_says_so(cluster: Cluster, source: JobFolder) -> None:
    spec = b'{"workload": "echo", "resume_from": "first"}'
    with pytest.raises(BadInput, match="workload 'echo' does not say how to resume"):
        planning.make(spec, "job.json", cluster)
