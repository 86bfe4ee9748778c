"""The way of a JobSpec to its plan: five stages, each entered once and in order, and no module calls back up."""

from __future__ import annotations

import ast
import graphlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.plan import checks, jobspec, planning, resolve

PACKAGE = PROJECT / "lib" / "mvp_helpers"
STAGES = ("jobspec", "resolve", "compose", "checks")
"""Modules of the stages; the last stage, plan, is in the module that calls them."""
JOBSPEC = {
    "workload": "toy",
    "code_path": "common/code/verl/current",
    "model": "common/models/tiny",
    "dataset": "datasets/gsm8k",
    "reward_fn_path": "user/code/r.py",
    "trainer_overrides": {"trainer": {"total_epochs": 2}},
    "env_vars": {"A": "b"},
}
Move = tuple[str, str]


def module_of(frame: FrameType) -> str:
    """Return ``plan.resolve`` for a frame in that module; an empty string outside the package."""
    file = Path(frame.f_code.co_filename)
    return ".".join(file.relative_to(PACKAGE).with_suffix("").parts) if file.is_relative_to(PACKAGE) else ""


def moves_of(run: Callable[[], Any]) -> list[Move]:
    """Run a function; return every call from one module of the package to another, as (from, to)."""
    moves: list[Move] = []

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not (callee := module_of(frame)):
            return
        caller = frame.f_back
        while caller and not module_of(caller):  # a call through the standard library or msgspec
            caller = caller.f_back
        if caller and module_of(caller) != callee:
            moves.append((module_of(caller), callee))

    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(None)
    return moves


def stages_entered(moves: list[Move]) -> list[Move]:
    return [move for move in moves if move[1] in {f"plan.{stage}" for stage in (*STAGES, "planning")}]


IN_ORDER = [("plan.planning", f"plan.{stage}") for stage in STAGES]


@pytest.fixture
def make(cluster: Cluster, shared: SharedRoot, workloads: Path) -> Callable[[], Any]:
    """``planning.make`` of a JobSpec that uses every stage."""
    shared.user_code.mkdir(parents=True)
    (shared.user_code / "r.py").write_text("def compute_score(**kwargs):\n    return 1.0\n")
    return lambda: planning.make(json.dumps(JOBSPEC).encode(), "job.json", cluster)


def test_a_jobspec_enters_each_stage_once_and_in_order(make: Callable[[], Any]) -> None:
    moves = moves_of(make)
    assert stages_entered(moves) == IN_ORDER
    # No module calls one that calls it: the calls between modules have a direction.
    callees: dict[str, set[str]] = {}
    for caller, callee in moves:
        callees.setdefault(caller, set()).add(callee)
    graphlib.TopologicalSorter(callees).prepare()  # raises CycleError


@pytest.mark.parametrize(
    ("stage", "function", "body", "extra"),
    [
        (
            resolve,
            "_check_shared_root(spec, cluster, source)",
            'checks._check_environment(cluster, {"PYTHONPATH": "/"}, "")',
            "checks",
        ),
        (
            checks,
            "_check_environment(cluster, env_vars, source)",
            'resolve._check_shared_root(jobspec.JobSpec(workload="toy"), cluster, source)',
            "resolve",
        ),
    ],
    ids=["a later one", "an earlier one"],
)
def test_a_stage_that_calls_another_is_noticed(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, stage: ModuleType, function: str, body: str, extra: str
) -> None:
    doctored: dict[str, Any] = {"checks": checks, "resolve": resolve, "jobspec": jobspec}
    exec(compile(f"def {function}: {body}", str(stage.__file__), "exec"), doctored)
    name = function.partition("(")[0]
    monkeypatch.setattr(stage, name, doctored[name])
    entered = stages_entered(moves_of(make))
    assert (stage.__name__.removeprefix("mvp_helpers."), f"plan.{extra}") in entered and entered != IN_ORDER


def test_the_imports_of_the_room_have_no_circle() -> None:
    imports: dict[str, set[str]] = {}
    for file in (PACKAGE / "plan").glob("*.py"):
        nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom) and node.level == 1]
        names = {node.module.partition(".")[0] for node in nodes if node.module}
        imports[file.stem] = names | {alias.name for node in nodes if not node.module for alias in node.names}
    assert imports["planning"] >= set(STAGES)
    graphlib.TopologicalSorter(imports).prepare()
    callers = {caller for caller, names in imports.items() if names & {"checks", "planning"}}
    assert callers == {"planning"}, "only planning calls the last stages"
