"""The steps before a GPU is used: checkouts, setup, environment, imports, focused tests, drift."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import e2e_checkouts as fixtures
import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.e2e import plan_view
from mvp_helpers.e2e.requests import checkouts, description
from mvp_helpers.e2e.step import Step
from mvp_helpers.e2e.steps import environment, imports, probe
from mvp_helpers.e2e.steps import tests as focused_tests

if TYPE_CHECKING:
    from conftest import World

EXPERTS = ["actor_rollout_ref.actor.megatron.expert_tensor_parallel_size=1"]
IMAGES = "data.train_files={}/data/geo3k/train.parquet"
MTP = ["actor_rollout_ref.model.mtp.enable=True"]

# checkouts


def test_dirty_files_their_diff_and_submodules_are_recorded_and_nothing_is_changed(world: World) -> None:
    (world.bridge / "src/megatron/bridge/__init__.py").write_text("API_TOKEN = 'abcdefghijklmnop'\n")
    (world.bridge / "new.py").write_text("x = 1\n")
    state = checkouts.record("bridge", world.bridge, world.root)
    assert sorted(state.dirty) == ["new.py", "src/megatron/bridge/__init__.py"] and "2 dirty" in state.summary()
    diff = (world.root / "bridge.diff").read_text()
    assert "-__version__ = '0'" in diff and "abcdefghijklmnop" not in diff
    (world.bridge / "new.py").write_text("x = 2\n")
    assert checkouts.record("bridge", world.bridge, world.root).fingerprint != state.fingerprint, "untracked files count"


def test_a_submodule_that_is_not_checked_out_blocks_with_the_command(world: World) -> None:
    whole = world.step("checkouts")
    assert whole.verdict == "Pass" and any("bridge: submodule" in text and "3rdparty/Megatron-LM" in text for text in whole.texts)
    fixtures.git(world.bridge, "worktree", "add", "-q", str(world.root / "tree"))
    env = {"BRIDGE_REPO": str(world.root / "tree")}
    step = world.step("checkouts", world.request(env=env), **env)
    assert step.verdict == "Blocked" and "3rdparty/Megatron-LM is empty" in step.reason
    assert step.fixes == ["git submodule update --init --recursive"]
    assert any("bridge: submodule -" in text for text in step.texts)


# setup


def test_a_setup_command_is_evidence_and_blocks_when_it_fails(world: World) -> None:
    step = world.step("setup", world.request(setup="echo installed > $HOME/setup-ran"))
    assert step.verdict == "Pass" and (world.home / "setup-ran").read_text() == "installed\n"
    assert step.limitations == ["the environment was prepared by: echo installed > $HOME/setup-ran"]
    failed = world.step("setup", world.request(setup="echo no such package >&2; exit 7"))
    assert failed.verdict == "Blocked" and "exit code 7" in failed.reason and "no such package" in failed.reason


# environment


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"NUM_GPUS": "16"}, "needs 16 GPUs"),
        ({"ROCR_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}, "ROCR_VISIBLE_DEVICES"),
        ({"TRAIN_FILES": "/no/such/train.parquet"}, "does not exist"),
        ({"MODEL_ID": "Qwen/Other"}, "the model is not at"),
        ({"USE_DUMMY_MODEL": "True"}, "DUMMY_MODEL_CONFIG_PATH"),
        ({"fake_uv": "1"}, "'uv', which is not on the PATH: install uv, or set VERL_USE_UV=0"),
        ({"E2E_FREE_GB": "1e9"}, "GB free"),
        ({"RAY_ADDRESS": "127.0.0.1:9"}, "nothing answers there"),
    ],
)
def test_an_environment_that_lacks_something_blocks_with_what_to_do(
    world: World, quick: None, env: dict[str, str], words: str
) -> None:
    step = world.step("environment", world.request(env=env), **env)
    assert step.verdict == "Blocked" and any(words in text for text in step.texts), step


def test_packages_are_looked_up_in_the_scripts_own_interpreter(world: World) -> None:
    step = world.step("environment", MVP_E2E_PYTHONPATH="")
    assert step.verdict == "Blocked" and any("has no module 'modelopt': install nvidia-modelopt" in text for text in step.texts)
    assert any(text.startswith("Python 3.") for text in step.texts)


def test_a_limit_that_is_not_a_number_is_named(world: World) -> None:
    with pytest.raises(BadInput, match="E2E_FREE_GB=much is not a number"):
        world.step("environment", E2E_FREE_GB="much")


def test_a_folder_of_runs_at_whose_spaces_the_script_would_split_is_refused(world: World) -> None:
    world.root.joinpath("my runs").mkdir()
    context = world.context(world.request())
    context.folder = type(context.folder)(world.root / "my runs" / "run")
    with pytest.raises(BadInput, match="contains a space"):
        world.step("environment", context=context)


def test_a_reward_model_that_is_missing_is_switched_off_with_the_revisions_own_key(world: World, quick: None) -> None:
    context = world.context(world.request())
    step = world.step("environment", context=context)
    assert step.verdict == "Pass", step.reason
    assert context.extra == ["reward.reward_model.enable=False"] and context.limits[0].startswith("no reward model at")


def test_missing_data_are_prepared_with_the_checkouts_own_script(world: World, quick: None) -> None:
    new = world.root / "new"
    env = {"TRAIN_FILES": str(new / "train.parquet"), "VAL_FILES": str(new / "test.parquet")}
    failed = world.step("environment", world.request(env=env), FAKE_FAULT="no-hub", **env)
    assert (
        failed.verdict == "Blocked" and "the data could not be prepared: " in failed.reason and "Couldn't reach" in failed.reason
    )
    step = world.step("environment", world.request(env=env), **env)
    assert step.verdict == "Pass", step.reason
    assert any("examples/data_preprocess/gsm8k.py --local_save_dir" in text for text in step.texts)


def test_raw_data_that_are_here_are_given_to_the_script(world: World) -> None:
    for folder, words in (("", []), ("/no/such", []), (str(world.home), ["--local_dataset_path", str(world.home)])):
        context = world.context(world.request(env={"GSM8K_SOURCE_DIR": folder}))
        env = context.environment(context.planned[0])
        argv = environment.preparation(context, ["python3"], env)
        assert argv == ["python3", "examples/data_preprocess/gsm8k.py", "--local_save_dir", f"{world.home}/data/gsm8k", *words]


def test_data_of_the_wrong_kind_are_named(world: World, quick: None) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"question": ["1"]}), world.root / "train.parquet")
    (world.root / "test.parquet").write_text("not parquet")
    env = {"TRAIN_FILES": str(world.root / "train.parquet"), "VAL_FILES": str(world.root / "test.parquet")}
    texts = "\n".join(world.step("environment", world.request(env=env), **env).texts)
    assert "lacks the column data_source" in texts and "is not a readable parquet file" in texts
    (world.root / "a.jsonl").write_text('{"prompt": "x", "data_source": 1, "reward_model": 1}\n')
    (world.root / "b.jsonl").write_text("")
    env = {"TRAIN_FILES": str(world.root / "a.jsonl"), "VAL_FILES": str(world.root / "b.jsonl")}
    texts = "\n".join(world.step("environment", world.request(env=env), **env).texts)
    assert "b.jsonl has no rows" in texts and "a.jsonl lacks" not in texts


# imports


def test_an_import_from_elsewhere_blocks_in_driver_and_worker(world: World, answers: Callable[..., None]) -> None:
    answers(
        **{"megatron.core": "/site-packages/megatron/core/__init__.py", "megatron.bridge": "", "verl": f"{world.verl}/verl/x.py"}
    )
    step = world.step("imports")
    assert step.verdict == "Blocked" and "driver: megatron.bridge has no file" in step.reason
    assert any(text.startswith("Ray worker on gpu-1 (0a1b2c3d): megatron.core comes from /site-packages") for text in step.texts)


def test_the_proof_imports_with_the_path_that_the_script_really_sets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shadow = world.root / "shadow"
    (shadow / "megatron" / "core").mkdir(parents=True)
    (shadow / "megatron" / "core" / "__init__.py").write_text("")
    real = imports.ask

    def without_ray(*arguments: Any) -> Any:
        *others, asked = arguments
        assert asked["ray"]["runtime_env"]["env_vars"]["PYTHONPATH"], "the workers' path is the trainer's own"
        answer, outcome = real(*others, {**asked, "ray": None})
        return {**(answer or {}), "ray": {"workers": {"here": (answer or {})["driver"]}}}, outcome

    monkeypatch.setattr(imports, "ask", without_ray)
    assert world.step("imports").verdict == "Pass"
    step = world.step("imports", context=world.context(world.request(), run="other", fake_shadow=str(shadow)))
    assert step.verdict == "Blocked" and f"driver: megatron.core comes from {shadow}" in step.reason, step.reason


def test_another_scripts_interpreter_and_path_are_proven_too(world: World, monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    script = world.verl / "examples/run_mtp.sh"
    script.parent.mkdir(exist_ok=True)
    launch = "uv run python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer actor_rollout_ref.model.path=$MODEL_PATH"
    script.write_text(f"set -x\nexport PYTHONPATH=/opt/mtp:$PYTHONPATH\n{launch} $@\n")
    answer, asked = imports.ask, []

    def ask(interpreter: list[str], cwd: Any, env: dict[str, str], *others: Any) -> Any:
        asked.append((interpreter, env["PYTHONPATH"]))
        seen, outcome = answer(interpreter, cwd, env, *others)
        elsewhere = {"files": {"verl": "/opt/mtp/verl/__init__.py"}} if broken and interpreter != ["python3"] else {}
        return {**(seen or {}), "driver": {**(seen or {})["driver"], **elsewhere}}, outcome

    monkeypatch.setattr(imports, "ask", ask)
    request = world.request("0,1,4", ("mtp",), "Qwen/mtp", overrides=MTP, script="examples/run_mtp.sh")
    own, broken = world.context(request).pythonpath(), False
    step = world.step("imports", request)
    assert step.verdict == "Pass" and asked == [(["python3"], own), (["uv", "run", "python3"], f"/opt/mtp:{own}")], step.reason
    assert f"level-4-mtp-smoke: uv run python3 with PYTHONPATH=/opt/mtp:{own}" in step.texts
    commands = plan_view.plan(world.context(request))["commands"]
    assert "uv run python3" in commands["imports-2"] and f"PYTHONPATH=/opt/mtp:{own}" in commands["imports-2"]
    broken = True
    step = world.step("imports", request)
    assert step.verdict == "Blocked" and step.reason.startswith("level-4-mtp-smoke: driver: "), step.reason


def test_the_proof_is_made_on_every_node_that_could_train_with_a_gpu_of_its_own(
    world: World, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training uses the GPUs of one node, whichever that is: those of several nodes do not add up."""

    def node(name: str, alive: bool = True, **resources: float) -> dict[str, Any]:
        return {"NodeID": name * 8, "NodeManagerHostname": name, "Alive": alive, "Resources": resources}

    asked: list[tuple[str, int]] = []

    def options(num_gpus: int, scheduling_strategy: Any) -> Any:
        asked.append((scheduling_strategy.node_id[0], num_gpus))
        return types.SimpleNamespace(remote=probe.look)

    ray = types.ModuleType("ray")
    nodes = [node("h"), node("a", GPU=2.0, CPU=8.0), node("b", GPU=2.0), node("c", CPU=4.0), node("d", False, GPU=8.0)]
    ray.init, ray.shutdown = (lambda **options: None), (lambda: None)  # type: ignore[attr-defined]
    ray.nodes = lambda: nodes  # type: ignore[attr-defined]
    ray.remote = lambda **_: lambda function: types.SimpleNamespace(options=options)  # type: ignore[attr-defined]
    ray.get = lambda answers, timeout: answers  # type: ignore[attr-defined]
    strategies = types.ModuleType("ray.util.scheduling_strategies")
    affinity = lambda node_id, soft: types.SimpleNamespace(node_id=node_id)  # noqa: E731
    strategies.NodeAffinitySchedulingStrategy = affinity  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
    seen = probe.in_ray([], {"address": "10.0.0.1:6379"}, gpus=1)
    assert asked == [("a", 1), ("b", 1), ("c", 0)], "the head with neither trains nothing"
    assert (seen["nodes"], seen["gpus_of_a_node"]) == (4, 2)
    nodes[:] = [node("c", CPU=4.0)]
    lost = probe.in_ray([], {"address": "10.0.0.1:6379"}, gpus=1)["workers"][""]["errors"]["ray"]
    assert "no node of this Ray has a GPU" in lost
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/my files/python")
        unable = probe.in_ray([], {"num_cpus": 1}, gpus=0)["workers"][""]["errors"]["ray"]
    assert "Ray starts no worker with /my files/python: its path has a space" in unable

    proven = imports.ask([], world.root, {}, world.root, "", {})[0]
    assert proven
    own = {name: {**at, **proven["driver"]} for name, at in seen["workers"].items()}
    monkeypatch.setattr(imports, "ask", lambda *a: ({**proven, "ray": {**seen, "workers": own}}, None))
    env = {"RAY_ADDRESS": "10.0.0.1:6379", "NUM_GPUS": "4"}
    step = world.step("imports", world.request(env=env), **env)
    words = "needs 4 GPUs (all parallel sizes 1), 2 are on a node of the Ray cluster at 10.0.0.1:6379"
    assert step.verdict == "Blocked" and words in step.reason, step.reason


# focused tests


@pytest.fixture
def focused(world: World) -> Callable[..., Step]:
    def run(
        text: str,
        of: str = "tests/unit_tests/models/test_param_mapping.py",
        other: str = "def test_it():\n    assert True\n",
        **files: str,
    ) -> Step:
        folder = world.bridge / "tests/unit_tests/models"
        (folder / "test_param_mapping.py").write_text(text)
        (folder / "test_new.py").write_text("def test_new():\n    assert True\n")
        (folder / "test_model_provider_mixin.py").write_text(other)
        for name, content in files.items():
            (folder / f"{name}.py").write_text(content)
        return world.step("bridge-checks", world.request(tests=[of]))

    return run


GOOD = "def test_mapping():\n    assert True\n"


@pytest.mark.parametrize(
    ("text", "options", "verdict", "words"),
    [
        (GOOD, {}, "Pass", "test_integration.py not in this checkout"),
        ("def test_mapping():\n    assert False\n", {}, "Fail", "test_mapping"),
        ("def test_mapping():\n    print('sh: uv: command not found')\n    assert False\n", {}, "Fail", "test_mapping"),
        ("import nothing_like_this\n", {}, "Blocked", "nothing_like_this"),
        (GOOD, {"of": "tests/unit_tests/models/test_param_mapping.py::test_gone"}, "Blocked", "pytest ran no such test"),
        (GOOD, {"of": "tests/unit_tests/models/test_new.py::test_gone"}, "Skipped", "exit code 4"),
        ("", {"other": ""}, "Skipped", "exit code 5"),
        (GOOD, {"of": "tests/no_such.py"}, "Blocked", "--bridge-tests tests/no_such.py: not in"),
    ],
)
def test_focused_tests_pass_only_if_one_ran(
    focused: Callable[..., Step], text: str, options: dict[str, str], verdict: str, words: str
) -> None:
    step = focused(text, **options)
    assert step.verdict == verdict and words in step.reason, step.reason


SKIPPED = "import pytest\n@pytest.mark.skip('needs a GPU')\ndef test_new():\n    pass\n"


@pytest.mark.parametrize(("text", "missing"), [(GOOD, 1), (SKIPPED, 2)])
def test_a_skipped_test_is_no_evidence_of_a_round_trip(focused: Callable[..., Step], text: str, missing: int) -> None:
    step = focused(GOOD, of="tests/unit_tests/models/test_roundtrip.py", test_roundtrip=text)
    assert step.verdict == "Pass" and len([limit for limit in step.limitations if "minimum evidence" in limit]) == missing


@pytest.mark.parametrize(
    ("text", "options", "verdict", "words"),
    [
        (GOOD, {"conftest": "import nothing_like_this\n"}, "Blocked", "nothing_like_this"),
        (GOOD, {"conftest": "pytest_plugins = ['nothing_like_this']\n"}, "Blocked", "nothing_like_this"),
        ("from megatron.bridge import Gone\n", {}, "Fail", "cannot import name 'Gone' from 'megatron.bridge'"),
        (GOOD, {"conftest": "from megatron.bridge import Gone\n"}, "Fail", "cannot import name 'Gone' from 'megatron.bridge'"),
        ("from megatron.core import Gone\n", {}, "Blocked", "Gone"),
        ("from megatron.bridge import __version_of_te__\n", {}, "Blocked", "__version_of_te__"),
    ],
)
def test_what_pytest_cannot_import_blocks_unless_the_checkouts_own_module_lacks_it(
    world: World, focused: Callable[..., Step], text: str, options: dict[str, str], verdict: str, words: str
) -> None:
    with (world.bridge / "src/megatron/bridge/__init__.py").open("a") as module:
        module.write(
            "try:\n    import transformer_engine_of_another_gpu\n    __version_of_te__ = 1\nexcept ImportError:\n    pass\n"
        )
    step = focused(text, **options)
    assert step.verdict == verdict and words in step.reason, step.reason


def test_what_plugins_of_pytest_write_is_not_left_in_the_checkout(world: World, focused: Callable[..., Step]) -> None:
    benchmarks = world.bridge / ".benchmarks"
    plugin = f"import pathlib\n\ndef pytest_configure():\n    pathlib.Path({str(benchmarks)!r}).mkdir(exist_ok=True)\n"
    text = "from hypothesis import given, strategies\n\n@given(strategies.text())\ndef test_mapping(text):\n    pass\n"
    text += "\ndef test_coverage():\n    import os\n    assert os.environ['COVERAGE_FILE'].endswith('/coverage')\n"
    for of_the_user in (False, True):
        if of_the_user:
            benchmarks.mkdir()
        step = focused(text, conftest=plugin)
        assert step.verdict == "Pass", step.reason
        assert benchmarks.exists() == of_the_user
        assert not (world.bridge / ".hypothesis").exists() and (Path(step.log).parent / "hypothesis").is_dir()


def test_an_option_that_pytest_does_not_know_blocks(world: World, focused: Callable[..., Step]) -> None:
    (world.bridge / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    step = focused(GOOD)
    assert step.verdict == "Blocked" and "pytest could not run" in step.reason, step.reason


def test_uv_does_not_write_the_checkouts_lock_file(world: World) -> None:
    (world.bridge / "uv.lock").write_text("")
    (world.root / "bin/uv").write_text("#!/bin/sh\n[ \"$2\" = --frozen ] && echo '1 passed in 0.1s'\n")
    (world.root / "bin/uv").chmod(0o755)
    assert world.step("bridge-checks").verdict == "Pass"


def test_a_missing_pytest_blocks_with_how_to_get_it_and_is_never_a_failure(world: World) -> None:
    python = world.root / "bin/python3"
    python.write_text('#!/bin/sh\necho "/usr/bin/python3: No module named pytest"\nexit 1\n')
    step = world.step("bridge-checks", world.request())
    assert step.verdict == "Blocked" and "No module named pytest" in step.reason, step.reason
    assert "pip install pytest" in step.fixes[0] and "--test-evidence bridge-checks=LOG" in step.fixes[0]
    assert f"(cd {world.bridge} && git rev-parse HEAD && env PYTHONPATH={world.bridge}/src:" in step.fixes[0]
    python.unlink()
    assert world.step("bridge-checks", world.request(), PATH="/nowhere").verdict == "Blocked"


NAMES = "tests/unit_tests/models/test_model_provider_mixin.py tests/unit_tests/models/test_param_mapping.py"


@pytest.mark.parametrize(
    ("log", "verdict", "words"),
    [
        (f"{NAMES} ..\n=== 2 passed in 0.10s ===\nexit status: 0", "Pass", "run in another environment; drift: tests/unit_tests"),
        (f"{NAMES} ..\n=== 2 passed in 0.10s ===\nexit status: 139", "Fail", "exit status: 139 after 2 passed in 0.10s"),
        (f"{NAMES} ..\n=== 2 passed in 0.10s ===", "Blocked", "has no line 'exit status: N'"),
        (f"{NAMES} .F\nFAILED {NAMES}::test_x\n=== 1 failed, 1 passed in 0.10s ===", "Fail", "FAILED tests/"),
        (f"{NAMES}\n=== 1 error in 0.10s ===", "Fail", "1 error"),
        (f"{NAMES}\n=== 2 skipped, 0 passed in 0.10s ===", "Skipped", "no test passed"),
        (f"{NAMES} ..", "Blocked", "no summary line of pytest"),
        ("tests/other.py ..\n2 passed in 0.10s", "Blocked", "does not name tests/unit_tests/models/test_model"),
    ],
)
def test_the_tests_log_of_another_environment_is_judged_in_their_place(world: World, log: str, verdict: str, words: str) -> None:
    given = world.root / "pytest.log"
    given.write_text(log + "\n")
    context = world.context(world.request(bridge_evidence=str(given)))
    world.step("checkouts", context=context)
    step = world.step("bridge-checks", context=context)
    assert step.verdict == verdict and words in step.reason, step.reason
    assert any("does not name commit" in text for text in step.limitations) and step.outcome is None
    if verdict == "Pass":
        missing = [text for text in step.limitations if "the minimum evidence for a new model" in text]
        assert len(missing) == 2, "round trip and logits"
        given.write_text(f"{log}\n{context.states[0].commit}\n")
        again = world.context(context.request, run="other")
        world.step("checkouts", context=again)
        assert not any("does not name commit" in text for text in world.step("bridge-checks", context=again).limitations)


def test_the_plans_command_makes_evidence_from_any_folder(world: World) -> None:
    """Also when the checkouts are on no path of that shell."""
    test = world.bridge / "tests/unit_tests/models/test_param_mapping.py"
    test.write_text(
        f"import megatron.bridge\n\ndef test_mapping():\n    assert megatron.bridge.__file__.startswith('{world.bridge}')\n"
    )
    command = plan_view.plan(world.context(world.request()))["commands"]["bridge-checks"]
    subprocess.run(["bash", "-c", command], cwd=world.root, env={"PATH": world.env["PATH"]}, check=True)
    context = world.context(world.request(bridge_evidence=str(world.root / "LOG")))
    world.step("checkouts", context=context)
    step = world.step("bridge-checks", context=context)
    assert step.verdict == "Pass" and not any("commit" in text for text in step.limitations), step


def test_round_trip_and_logits_tests_complete_the_minimum_evidence() -> None:
    tests_of_bridge = description.load("verl").tests[0]
    assert focused_tests.missing_minimum(tests_of_bridge, ["tests/test_roundtrip.py", "tests/test_logits.py"]) == []
    assert "logits or generation" in focused_tests.missing_minimum(tests_of_bridge, ["tests/test_hf_import.py"])[0]


# drift


@pytest.mark.parametrize(
    ("levels", "variants", "model", "overrides", "words"),
    [
        ("2", (), "", ["actor_rollout_ref.actor.megatron.tensor_model_parallel_size=1"], "tensor_model_parallel_size=1, not 2"),
        ("2", ("moe",), "", [], "not a model for 'EP 2, for a MoE model'"),
        ("4", ("moe",), "", EXPERTS, "not a model for 'expert routing'"),
        ("4", ("vlm",), "", [IMAGES], "not a model for 'images or video'"),
        ("4", ("vlm",), "Qwen/vl", ["data.train_files={}/data/gsm8k/train.parquet"], "have no value in images or videos"),
        ("4", ("mtp",), "", MTP, "not a model for 'multi-token prediction'"),
        ("0", (), "", ["actor_rollout_ref.rollout.enforce_eagre=True"], "did you mean 'actor_rollout_ref.rollout.enforce_eager'"),
        (
            "0",
            (),
            "",
            ["actor_rollout_ref.actor.megatron.vanilla_mbridge=True"],
            "actor.megatron.vanilla_mbridge=True, not False",
        ),
    ],
)
def test_a_run_that_would_not_exercise_its_feature_is_blocked(
    world: World, levels: str, variants: tuple[str, ...], model: str, overrides: list[str], words: str
) -> None:
    given = [text.format(world.home) for text in overrides]
    step = world.step("drift", world.request(levels, variants, model, overrides=given))
    assert step.verdict == "Blocked" and words in step.reason, step.reason


def test_a_revision_that_ignores_a_variable_blocks_only_the_level_that_needs_it(world: World) -> None:
    context = world.context(world.request("0,3"))
    script = context.script(context.planned[0])
    script.write_text("\n".join(line for line in script.read_text().splitlines() if "USE_MEGATRON_FSDP" not in line) + "\n")
    smoke, fsdp = (context.checked(one) for one in context.planned)
    assert smoke.problems == [] and "always behaves like USE_MEGATRON_FSDP=False" in smoke.notes[0]
    assert "does not read USE_MEGATRON_FSDP" in fsdp.problems[0]


def test_a_revision_without_the_script_is_blocked(world: World) -> None:
    context = world.context(world.request())
    context.script(context.planned[0]).unlink()
    assert "has no tests/special_e2e/run_ppo_trainer_megatron.sh" in world.step("drift", context=context).reason


def test_the_resolved_config_is_kept_as_evidence(world: World) -> None:
    step = world.step("drift", world.request("0,2"))
    assert step.verdict == "Pass", step.reason
    kept = sorted(file.name for file in (world.run_folder / "steps/drift/try-1").glob("*.config.json"))
    assert kept == ["level-0-smoke.config.json", "level-2-dense-stress.config.json"]
    assert any(
        text.startswith("resolved: level-2-dense-stress: ") and "tensor_model_parallel_size=2" in text for text in step.texts
    )
