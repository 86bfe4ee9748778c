"""Which code a job imports is proven, or the job is blocked with the reason."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toys import plan_of

from mvp_helpers.job import precheck
from mvp_helpers.plan.plan import Plan

INSTALLED = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in ("ray", "torch")}}


@pytest.fixture
def job(tmp_path: Path) -> Plan:
    code = tmp_path / "codeA"
    code.mkdir()
    return msgspec.structs.replace(plan_of("job1"), code_path=str(code), code_id="codeA", imports=["verl"])


def seen(job: Plan, **changes: Any) -> dict[str, Any]:
    good = {"modules": {"verl": f"{job.code_path}/verl/__init__.py"}, "errors": {}, "marker": "codeA"}
    return good | changes


def test_modules_from_the_snapshot_are_proven(job: Plan) -> None:
    assert precheck.problems("driver", seen(job), job) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"modules": {"verl": "/usr/lib/python3/verl/__init__.py"}},
            "verl comes from /usr/lib/python3/verl/__init__.py, not from",
        ),
        ({"modules": {"verl": "{code}B/verl/__init__.py"}}, "not from code_path"),
        ({"marker": "codeB"}, "the marker is 'codeB', not 'codeA'"),
        ({"errors": {"verl": "ImportError: x"}, "modules": {}}, "cannot import verl: ImportError: x"),
    ],
)
def test_anything_else_is_a_problem_that_names_the_process(job: Plan, changes: dict[str, Any], message: str) -> None:
    if "modules" in changes:
        changes = changes | {
            "modules": {name: file.replace("{code}", str(job.code_path)) for name, file in changes["modules"].items()}
        }
    (problem,) = precheck.problems("Ray worker on 127.0.0.12", seen(job, **changes), job)
    assert problem.startswith("Ray worker on 127.0.0.12: ") and message in problem


def test_a_look_really_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good_module.py").write_text("__version__ = '7'")
    (tmp_path / "bad_module.py").write_text("raise SystemExit('no')")
    (tmp_path / "mvp_marker.py").write_text('MARKER = "codeA"\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mvp_marker", raising=False)
    found = precheck.look(["good_module", "bad_module"])
    assert found["modules"] == {"good_module": str(tmp_path / "good_module.py")}
    assert found["errors"] == {"bad_module": "SystemExit: no"}
    assert found["marker"] == "codeA"
    assert found["versions"] == INSTALLED | {"good_module": "7"}


def test_a_precheck_without_imports_records_the_versions_that_the_driver_will_find(
    job: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(str(job.code_path)) / "verl"
    (package / "version").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "version" / "version").write_text("0.9.1\n")
    monkeypatch.syspath_prepend(str(job.code_path))
    monkeypatch.delitem(sys.modules, "verl", raising=False)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert precheck.locate(job) == {"problems": [], "driver": None, "ray_workers": [], "versions": INSTALLED | {"verl": "0.9.1"}}


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({"train_batch_size": 8, "total_epochs": 2}, 4),
        ({"train_batch_size": 8, "total_epochs": 2, "total_training_steps": 3}, 3),
        ({"train_batch_size": 32, "total_epochs": 1}, 0),
        ({"train_batch_size": None, "total_epochs": 1}, None),
    ],
)
def test_steps_are_whole_batches_times_epochs_or_the_trainers_own_limit(
    job: Plan, fields: dict[str, Any], steps: int | None
) -> None:
    planned = msgspec.structs.replace(job, training_rows=20, **fields)
    assert planned.steps_total() == steps
