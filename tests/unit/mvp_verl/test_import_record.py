"""What a process records at its import of verl, and when it refuses to go on; then what the job runner makes of the records."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import pytest
from toys import plan_of

from mvp_helpers.base.paths import JobFolder
from mvp_helpers.base.processes import RUNNER_PID
from mvp_helpers.job import import_proof
from mvp_helpers.plan.plan import Plan
from mvp_verl import import_record


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """A job whose snapshot ``code`` this process has imported, in the driver's place."""
    (tmp_path / "code" / "verl").mkdir(parents=True)
    job = JobFolder(tmp_path / "job")
    job.config.mkdir(parents=True)
    job.resolved.write_text(f"submission_id: job\ncode_path: {tmp_path}/code\ncode_id: codeA\n")
    imported(monkeypatch, tmp_path / "code" / "verl" / "__init__.py")
    monkeypatch.setitem(sys.modules, "mvp_marker", module("mvp_marker", MARKER="codeA"))
    monkeypatch.setenv(RUNNER_PID, str(os.getppid()))
    return job


def module(name: str, **names: object) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(names)
    return made


def imported(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setitem(sys.modules, "verl", module("verl", __file__=str(file), __version__="0.9.1"))


def test_the_driver_prints_the_two_lines_and_leaves_a_record(folder: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    import_record.check(str(folder.path))
    file = folder.path.parent / "code" / "verl" / "__init__.py"
    assert capsys.readouterr().out == f"MVP_PRECHECK_VERL_FILE={file}\nMVP_PRECHECK_MARKER=codeA\n"
    (row,) = import_proof.records(folder)
    assert (row["role"], row["problem"], row["modules"], row["marker"]) == ("driver", "", {"verl": str(file)}, "codeA")


def test_the_driver_records_every_package_of_its_interpreter_once(folder: JobFolder) -> None:
    import_record.check(str(folder.path))
    seen = json.loads(folder.packages.read_bytes())
    assert seen["packages"]["ray"] == importlib.metadata.version("ray")
    installed = {str(each.metadata["Name"]) for each in importlib.metadata.distributions()}
    assert set(seen["packages"]) == installed
    assert {"cuda", "driver", "gpus", "executable", "python"} <= seen.keys()
    folder.packages.write_text("{}")
    import_record.check(str(folder.path))
    assert folder.packages.read_text() == "{}"


def test_the_record_has_the_versions_that_this_process_runs(folder: JobFolder) -> None:
    import_record.check(str(folder.path))
    (row,) = import_proof.records(folder)
    installed = {name: importlib.metadata.version(name) for name in ("ray", "torch")}
    assert row["versions"] == {"python": platform.python_version(), "verl": "0.9.1", **installed}


@pytest.mark.parametrize("seen", [None, "", "0,1"])
def test_the_record_says_which_gpus_the_process_sees(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch, seen: str | None
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    import_record.check(str(folder.path))
    (row,) = import_proof.records(folder)
    assert row["gpus_seen"] == seen


def test_a_copy_from_elsewhere_is_refused_and_recorded(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(monkeypatch, Path("/usr/lib/verl/__init__.py"))
    with pytest.raises(import_record.WrongCode, match=r"driver: verl comes from /usr/lib/verl/__init__\.py, not from code_path"):
        import_record.check(str(folder.path))
    assert "MVP_PRECHECK_PROBLEM=driver: verl comes from" in capsys.readouterr().out
    (problem,) = import_proof.problems(import_proof.records(folder))
    assert problem.startswith("driver: verl comes from /usr/lib/verl")


@pytest.mark.parametrize(
    ("marker", "why"), [("codeB", "the marker is 'codeB', not 'codeA'"), (None, "cannot import mvp_marker: AttributeError")]
)
def test_another_marker_is_refused(folder: JobFolder, monkeypatch: pytest.MonkeyPatch, marker: str | None, why: str) -> None:
    names = {} if marker is None else {"MARKER": marker}
    monkeypatch.setitem(sys.modules, "mvp_marker", module("mvp_marker", **names))
    with pytest.raises(import_record.WrongCode, match=why):
        import_record.check(str(folder.path))


def test_a_ray_worker_records_its_node_and_prints_nothing(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = SimpleNamespace(global_worker=SimpleNamespace(connected=True, mode=1), WORKER_MODE=1)
    context = SimpleNamespace(get_node_id=lambda: "node1", get_accelerator_ids=lambda: {"GPU": ["3"]})
    ray = module("ray", get_runtime_context=lambda: context, util=SimpleNamespace(get_node_ip_address=lambda: "10.0.0.1"))
    monkeypatch.setitem(sys.modules, "ray._private.worker", worker)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv(RUNNER_PID)
    import_record.check(str(folder.path))
    assert capsys.readouterr().out == ""
    (row,) = import_proof.records(folder)
    assert (row["role"], row["node_id"], row["ip"]) == ("ray worker", "node1", "10.0.0.1")
    assert row["gpus_given"] == ["3"]


def plan_with_hook(root: Path, **fields: object) -> Plan:
    changed = {"imports": ["verl"], "code_path": str(root), "env_vars": {import_proof.EXTERNAL_MODULES: "verl_cpu,mvp_verl.hook"}}
    return msgspec.structs.replace(plan_of("job1", root, ["true"]), **(changed | fields))


def test_only_a_verl_that_knows_external_modules_proves_its_own_imports(tmp_path: Path) -> None:
    (tmp_path / "verl").mkdir()
    init = tmp_path / "verl" / "__init__.py"
    init.write_text("modules = os.getenv('VERL_USE_EXTERNAL_MODULES', '')\n")
    assert import_proof.by_the_trainer(plan_with_hook(tmp_path))
    assert not import_proof.by_the_trainer(plan_with_hook(tmp_path, imports=["verl", "json"]))
    assert not import_proof.by_the_trainer(plan_with_hook(tmp_path, env_vars={}))
    init.write_text("")
    assert not import_proof.by_the_trainer(plan_with_hook(tmp_path))
    init.unlink()
    assert not import_proof.by_the_trainer(plan_with_hook(tmp_path))


def test_training_without_records_is_named(tmp_path: Path) -> None:
    the_plan = plan_with_hook(tmp_path, nnodes=2, processes_per_node=1)
    driver, worker = {"role": "driver"}, {"role": "ray worker"}
    assert import_proof.missing([driver, worker, worker], the_plan) == []
    assert import_proof.missing([worker, worker], the_plan) == ["the driver trains without having recorded its imports"]
    assert import_proof.missing([driver, worker], the_plan) == ["1 Ray workers recorded their imports, but 2 processes train"]


def test_a_damaged_record_is_a_problem_of_its_own(folder: JobFolder) -> None:
    folder.imports.mkdir()
    (folder.imports / "a-1.json").write_text("{")
    (folder.imports / "a-2.json").write_text(json.dumps({"role": "driver", "problem": "", "modules": {}}))
    rows = import_proof.records(folder)
    assert [row["role"] for row in rows] == ["driver", "?"]
    assert "imports/a-1.json cannot be read" in import_proof.problems(rows)[0]
