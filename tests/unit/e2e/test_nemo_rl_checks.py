"""NeMo-RL's unit checks by surface: the options that a revision's tests need, and logs of them from another environment."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import e2e_checkouts as fixtures
import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.e2e import plan_view
from mvp_helpers.e2e.context import Context

if TYPE_CHECKING:
    from conftest import World

NAMES = ["bridge-checks", "nemo-rl-checks", "nemo-rl-megatron-checks"]
VLLM = ["vllm-checks", "vllm-only-checks", "vllm-megatron-checks"]


@pytest.fixture(autouse=True)
def uv(world: World) -> None:
    shutil.copy(fixtures.NEMO_RL / "uv", world.root / "bin" / "uv")


def context(world: World, levels: str = "0", run: str = "run", evidence: tuple[str, ...] = ()) -> Context:
    return world.context(world.request(levels, description="nemo-rl", test_evidence=list(evidence)), run=run)


def test_the_checks_follow_the_surface_and_bridge_comes_first(world: World) -> None:
    assert [tests.name for tests in context(world).tests] == NAMES
    assert [tests.name for tests in context(world, "0,1").tests] == [*NAMES, "checkpoint-checks"]
    # No test of vLLM is marked for Megatron in this checkout.
    assert [tests.name for tests in context(world, "2").tests] == [*NAMES, *VLLM[:2]]
    commands = plan_view.plan(context(world, "0,1,2"))["commands"]
    assert "--extra mcore --group test python -m pytest --mcore-only" in commands["nemo-rl-megatron-checks"]
    assert "--extra vllm --group test python -m pytest --vllm-only" in commands["vllm-only-checks"]
    assert "test_vllm_generation" not in commands["vllm-only-checks"], "none of its tests is marked for vLLM"


def test_marked_tests_are_run_with_their_option_and_are_not_silently_deselected(world: World) -> None:
    step = world.step("nemo-rl-megatron-checks", context=context(world))
    assert step.verdict == "Pass" and step.reason.endswith("2 passed"), step.reason
    step = world.step("nemo-rl-checks", context=context(world, run="plain"))
    assert step.verdict == "Pass" and "1 passed; drift: tests/unit/utils/test_weight_transfer.py" in step.reason, step.reason


def test_a_revision_without_marks_runs_its_tests_without_the_option(world: World) -> None:
    for name in ("models/megatron/test_megatron_setup.py", "models/policy/test_megatron_worker.py"):
        (world.nemo_rl / "tests/unit" / name).write_text("def test_it():\n    assert True\n")
    old = context(world)
    assert [tests.name for tests in old.tests] == NAMES[:2]
    assert any("nemo-rl-megatron-checks is left out: this revision marks none of" in text for text in old.limits)
    assert world.step("nemo-rl-checks", context=old).reason.startswith("uv run --locked --extra mcore") is True


def test_logs_of_other_environments_are_judged_by_their_exit_status_and_named(world: World) -> None:
    log = world.root / "megatron.log"
    files = "tests/unit/models/megatron/test_megatron_setup.py tests/unit/models/policy/test_megatron_worker.py"
    log.write_text(f"{files} ..\n==== 41 passed in 9.10s ====\nexit status: 0\n")
    given = (f"nemo-rl-megatron-checks={log}",)
    step = world.step("nemo-rl-megatron-checks", context=context(world, evidence=given))
    assert step.verdict == "Pass" and step.reason == f"{log}: 41 passed in 9.10s, run in another environment"
    assert world.step("bridge-checks", context=context(world, evidence=given)).command, "the others are run here"
    log.write_text(log.read_text().replace("status: 0", "status: 139"))
    step = world.step("nemo-rl-megatron-checks", context=context(world, run="crashed", evidence=given))
    assert step.verdict == "Fail" and "exit status: 139 after 41 passed" in step.reason


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ("vllm-checks=x.log", "--test-evidence vllm-checks: the requested levels have no such list of tests"),
        ("nemo-rl-check=x.log", "did you mean 'nemo-rl-checks'"),
        ("nemo-rl-checks=/no/such.log", "--test-evidence /no/such.log is not a file"),
        ("nemo-rl-checks", "--test-evidence  is not a file"),
    ],
)
def test_evidence_for_unknown_tests_or_from_no_file_is_bad_input(world: World, evidence: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        context(world, evidence=(evidence,))


def test_the_command_that_makes_the_evidence_writes_the_exit_status(world: World) -> None:
    import msgspec

    from mvp_helpers.e2e.requests import description
    from mvp_helpers.e2e.steps import tests

    log = world.root / "LOG"
    argv = ["python3", "-c", "print('3 passed in 1s'); raise SystemExit(5)"]
    own = msgspec.structs.replace(description.load("verl").tests[0], command=argv)
    command = tests.elsewhere(world.context(world.request()), own, []).replace("LOG", str(log))
    import subprocess

    subprocess.run(["bash", "-c", command], check=False)
    assert Path(log).read_text().splitlines()[1:] == ["3 passed in 1s", "exit status: 5"]
