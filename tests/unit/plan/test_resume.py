"""Planning a job that goes on from the checkpoint of another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from saved_checkpoints import save

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.job import provenance, submit
from mvp_helpers.plan import plan, planning
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result

SPEC = {"workload": "toy", "code_path": "common/code/verl/current", "model": "common/models/tiny", "dataset": "datasets/gsm8k"}


def make(cluster: Cluster, **fields: Any) -> plan.Plan:
    return planning.make(json.dumps(SPEC | fields).encode(), "job.json", cluster)


@pytest.fixture
def source(cluster: Cluster, shared: SharedRoot, workloads: Path) -> JobFolder:
    """A job that was stopped after the checkpoint of its step 1, of 2 (20 rows, batches of 8)."""
    made = make(cluster, submission_id="first")
    folder = job_folder.claim(shared, Result(submission_id="first", workload="toy", state="CLAIMED"))
    folder.resolved.write_text(plan.to_yaml(made))
    folder.provenance.write_text("{}")
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state="STOPPED"))
    save(folder.checkpoints, 1)
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


def test_steps_count_from_the_very_first(cluster: Cluster, source: JobFolder) -> None:
    save(source.checkpoints, 2)
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
    folder = JobFolder(source.path.rename(source.path.with_name("global_step_9")))
    folder.result.write_text(folder.result.read_text().replace('"first"', '"global_step_9"'))
    with pytest.raises(BadInput, match="verl would misread the step"):
        make(cluster, resume_from="global_step_9")


def test_a_workload_that_cannot_resume_says_so(cluster: Cluster, source: JobFolder) -> None:
    spec = b'{"workload": "echo", "resume_from": "first"}'
    with pytest.raises(BadInput, match="workload 'echo' does not say how to resume"):
        planning.make(spec, "job.json", cluster)


def test_a_job_whose_checkpoint_is_removed_while_it_is_submitted_is_not(
    cluster: Cluster, source: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_meanwhile(*_: object) -> dict[str, Any]:
        shutil.rmtree(source.checkpoints / "global_step_1")
        return {}

    monkeypatch.setattr(submit, "_examine", remove_meanwhile)
    monkeypatch.setattr(submit.ray_api, "read_token", lambda _: "")
    with pytest.raises(BadInput, match="the checkpoint first:1 was removed meanwhile"):
        submit.submit(json.dumps(SPEC | {"submission_id": "second", "resume_from": "first"}).encode(), "job.json", cluster, print)
    result = job_folder.read(source.shared.job("second"))
    assert result.state == "NOT_SUBMITTED" and "was removed meanwhile" in result.reason
