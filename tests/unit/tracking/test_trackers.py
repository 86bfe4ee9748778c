"""What a tracker needs, and which run a job goes on with."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.tracking import trackers
from mvp_helpers.tracking.trackers import Tracked
from mvp_verl import tracking


def everything(package: str) -> bool:
    return True


@pytest.mark.parametrize("name", trackers.TRACKERS)
def test_without_its_package_a_tracker_is_refused(name: trackers.Name) -> None:
    with pytest.raises(BadInput, match=rf"job.json: tracking: {name}: the package {name} is not installed"):
        trackers.check(name, ["WANDB_API_KEY", "SWANLAB_API_KEY"], {}, lambda package: package != name, "job.json")


def test_without_its_key_among_the_secrets_a_tracker_is_refused_unless_it_works_offline() -> None:
    with pytest.raises(BadInput, match="tracking: wandb: its key WANDB_API_KEY is not among secrets"):
        trackers.check("wandb", ["HF_TOKEN"], {"WANDB_MODE": "online"}, everything, "job.json")
    trackers.check("wandb", ["WANDB_API_KEY"], {}, everything, "job.json")
    trackers.check("wandb", [], {"WANDB_MODE": "offline"}, everything, "job.json")
    trackers.check("swanlab", [], {"SWANLAB_MODE": "local"}, everything, "job.json")
    for name in ("tensorboard", "mlflow", "trackio"):
        trackers.check(name, [], {}, everything, "job.json")  # type: ignore[arg-type]


def test_files_are_kept_in_the_job_folder_and_the_run_is_the_first_attempts(tmp_path: Path) -> None:
    folder = SharedRoot(tmp_path).job("a.2")
    made = trackers.variables(Tracked(tracker="wandb", run="a"), folder, None)
    assert made == {"WANDB_DIR": f"{folder.path}/tracking", "WANDB_RUN_ID": "a", "WANDB_RESUME": "allow"}
    assert trackers.variables(Tracked(tracker="tensorboard", run="a"), folder, None) == {
        "TENSORBOARD_DIR": f"{folder.path}/tracking"
    }


def test_mlflow_goes_on_with_the_run_that_the_job_before_recorded(tmp_path: Path) -> None:
    shared = SharedRoot(tmp_path)
    before, tracked = shared.job("a"), Tracked(tracker="mlflow", run="a")
    first = trackers.variables(tracked, before, None)
    assert first["MLFLOW_TRACKING_URI"] == f"file://{tmp_path}/outputs/mlflow" and "MLFLOW_RUN_ID" not in first
    assert "MLFLOW_RUN_ID" not in trackers.variables(tracked, shared.job("b"), before)
    before.control.mkdir(parents=True)
    for text, run in (("not json", None), ("[1]", None), ('{"mlflow": 7}', None), ('{"mlflow": "0af3"}', "0af3")):
        (before.control / "tracking.json").write_text(text)
        assert trackers.variables(tracked, shared.job("b"), before).get("MLFLOW_RUN_ID") == run


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """MLflow as far as verl calls it: a parameter cannot be logged again with another value."""
    module: Any = ModuleType("mlflow")
    module.params = {"trainer/resume_mode": "disable"}
    run = SimpleNamespace(info=SimpleNamespace(run_id="0af3"), data=SimpleNamespace(params=module.params))

    def log_params(params: dict[str, Any]) -> None:
        assert all(module.params.setdefault(name, value) == value for name, value in params.items())

    module.start_run, module.active_run, module.get_run = lambda **_: run, lambda: run, lambda _: run
    module.log_params = log_params
    monkeypatch.setitem(sys.modules, "mlflow", module)
    yield module


def test_a_resumed_run_of_mlflow_logs_only_new_parameters_and_is_recorded(
    mlflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {"trainer/resume_mode": "resume_path", "new": "1"}
    with pytest.raises(AssertionError):
        mlflow.log_params(changed)
    tracking.arm(str(tmp_path))
    mlflow.start_run(run_id="0af3")
    assert json.loads((tmp_path / "control" / "tracking.json").read_text()) == {"mlflow": "0af3"}
    with pytest.raises(AssertionError):  # of a run that nobody asked to go on, nothing is hidden
        mlflow.log_params(changed)
    monkeypatch.setenv("MLFLOW_RUN_ID", "0af3")
    mlflow.log_params(changed)
    assert mlflow.params["trainer/resume_mode"] == "disable" and mlflow.params["new"] == "1"
