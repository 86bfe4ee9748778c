"""What NeMo-RL's runs need from the machine: a snapshot that loads offline, Megatron-Core's helper outside of the checkout."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import e2e_checkouts as fixtures
import pytest
from toys import write_model

from mvp_helpers.e2e import environment, launch
from mvp_helpers.e2e.context import Context
from mvp_helpers.e2e.steps import imports, probe

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.usefixtures("no_tests")


@pytest.fixture(autouse=True)
def uv(world: World) -> None:
    shutil.copy(fixtures.NEMO_RL / "uv", world.root / "bin" / "uv")


def context(world: World, run: str = "run", model: str = "", overrides: tuple[str, ...] = (), **env: str) -> Context:
    return world.context(world.request("0", model=model, description="nemo-rl", overrides=list(overrides)), run=run, **env)


def test_a_snapshot_is_loaded_without_the_network_before_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    here = {"version": "3.12.0", "python": "/usr/bin/python3", "host": "gpu-1", "files": {}, "errors": {}}

    def answering(snapshot: dict[str, str]) -> Callable[..., Any]:
        def ask(*arguments: Any) -> tuple[dict[str, Any], None]:
            asked.append(arguments[-1])
            return {"driver": here, "missing": [], "snapshot": snapshot}, None

        return ask

    model = world.root / "snapshot"
    write_model(model)
    monkeypatch.setattr(imports, "ask", answering({"loads": "Qwen2Config (qwen2), Qwen2Tokenizer with 9 tokens"}))
    step = world.step("environment", context=context(world, model=str(model)))
    assert step.verdict == "Pass" and any("loads offline: Qwen2Config" in text for text in step.texts), step.texts
    assert asked[0]["snapshot"] == str(model)
    monkeypatch.setattr(imports, "ask", answering({"error": "OSError: no tokenizer"}))
    step = world.step("environment", context=context(world, run="other", model=str(model)))
    assert step.verdict == "Blocked" and step.reason == f"{model} does not load offline: OSError: no tokenizer"


def test_the_probe_loads_config_and_tokenizer_and_names_what_is_missing(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    assert "error" in probe.snapshot(str(tmp_path)), "transformers loads a tokenizer without files, of special tokens alone"
    words = {f"w{number}": number for number in range(200)}
    Tokenizer(models.WordLevel(words, unk_token="w0")).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    loaded = probe.snapshot(str(tmp_path))
    assert loaded.get("loads", "").startswith("Qwen2Config (qwen2), "), loaded
    assert loaded["loads"].endswith(" with 200 tokens"), loaded


def test_the_model_and_the_tokenizer_must_be_the_same(world: World) -> None:
    both = context(world, overrides=("policy.model_name=/a", "policy.tokenizer.name=/b"))
    assert both.checked(both.planned[0]).problems == [
        "policy.model_name=/a and policy.tokenizer.name=/b differ: --model sets both"
    ]
    one = context(world, overrides=("policy.tokenizer.name=/b",))
    assert "policy.model_name=Qwen/Qwen2.5-0.5B and policy.tokenizer.name=/b differ" in one.checked(one.planned[0]).problems[0]


def test_too_many_requests_lead_to_the_offline_route(world: World, quick: None) -> None:
    snapshot = world.home / ".cache/huggingface/hub/models--Qwen--Qwen2.5-0.5B/snapshots/0a1b"
    assert "download it once (hf download Qwen/Qwen2.5-0.5B)" in environment.offline_route(world.env, "Qwen/Qwen2.5-0.5B")
    write_model(snapshot)
    procedure = world.procedure(world.request("0", description="nemo-rl"), FAKE_FAULT="data")
    ended = procedure.run()
    words = f"the model is in the cache: HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1, and --model {snapshot}"
    assert ended.result == "Blocked" and words in ended.follow_ups, ended.follow_ups
    assert environment.offline_route({"HF_HUB_CACHE": str(snapshot.parents[2])}, "Qwen/Qwen2.5-0.5B").endswith(str(snapshot))


def test_a_fingerprint_mismatch_of_the_container_is_a_limitation(world: World) -> None:
    script = world.nemo_rl / "tests/functional/grpo_megatron.sh"
    words = "WARNING: Container/Code Version Mismatch Detected!"
    script.write_text(script.read_text().replace("cd $PROJECT_ROOT\n", f"cd $PROJECT_ROOT\necho '{words}'\n"))
    step = world.step("level-0-smoke", context=context(world))
    assert step.verdict == "Pass" and any("fingerprint mismatch" in text for text in step.limitations), step.reason


MAKEFILE = "all:\n\t{command} helpers_cpp$(LIBEXT)\n"


@pytest.fixture
def megatron(world: World) -> Path:
    folder = world.bridge / "3rdparty/Megatron-LM/megatron/core/datasets"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE.format(command="touch"))
    fixtures.git(world.bridge / "3rdparty/Megatron-LM", "add", "-A")
    fixtures.git(world.bridge / "3rdparty/Megatron-LM", "commit", "-qm", "datasets")
    fixtures.git(world.bridge, "commit", "-qam", "Megatron-LM")
    return folder


def test_the_helper_is_built_in_a_copy_with_the_interpreters_suffix(
    world: World, megatron: Path, answers: Callable[..., None]
) -> None:
    copy = world.root / "node/Megatron-LM"
    now = context(world, MCORE_REPO=str(copy))
    step = world.step("local-copies", context=now)
    import sysconfig

    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert step.verdict == "Pass", step.reason
    assert (copy / f"megatron/core/datasets/helpers_cpp{suffix}").is_file() and not list(megatron.glob("helpers*"))
    assert now.pythonpath().split(":")[1] == str(copy), "in the place of the checkout's own"
    inside = {
        "megatron.bridge": f"{world.bridge}/src/megatron/bridge/__init__.py",
        "nemo_rl": f"{world.nemo_rl}/nemo_rl/__init__.py",
    }
    answers(**inside, **{"megatron.core": f"{copy}/megatron/core/__init__.py"})
    assert world.step("imports", context=now).verdict == "Pass"
    answers(**inside, **{"megatron.core": f"{megatron.parent}/__init__.py"})
    step = world.step("imports", context=now)
    assert step.verdict == "Blocked" and f"not from {copy}" in step.reason, "the copy is the one to be imported"
    start = launch.variables(launch.Elsewhere(via="docker", request=now.request, runs=now.folder.path.parent), now.base)
    assert start["MCORE_REPO"] == str(copy)


def test_a_copy_with_other_code_or_without_the_helper_is_blocked(world: World, megatron: Path) -> None:
    copy = world.root / "node/Megatron-LM"
    now = context(world, MCORE_REPO=str(copy))
    (megatron / "Makefile").write_text(MAKEFILE.format(command="@echo would make"))
    step = world.step("local-copies", context=now)
    assert step.verdict == "Blocked" and "is missing" in step.reason, step.reason
    (copy / "megatron/core/__init__.py").write_text("changed = True\n")
    step = world.step("local-copies", context=now)
    assert step.verdict == "Blocked" and "is not a copy of" in step.reason and "remove" in step.fixes[0], step.reason
    assert [action.name for action in _actions(context(world, run="plain"))].count("local-copies") == 0, (
        "only where MCORE_REPO is set"
    )


def _actions(context: Context) -> list[Any]:
    from mvp_helpers.e2e import procedure

    return procedure.actions(context)


def test_the_metrics_deliverable_tells_the_files_and_the_assertions(world: World, quick: None) -> None:
    def captured(fault: str) -> Any:
        ended = world.procedure(world.request("0", description="nemo-rl"), FAKE_FAULT=fault).run()
        return {check.name: check for check in ended.deliverables}["Metrics/log capture"]

    good = captured("")
    assert good.verdict == "Pass" and "metrics-1.json; 3 of 3 metric assertions hold" in good.reason, good.reason
    bad = captured("mismatch")
    assert bad.verdict == "Fail" and "2 of 3 metric assertions hold, not max(data" in bad.reason, bad.reason
