"""What is asked for: requests, levels, recommended levels, limitations, descriptions."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import e2e_checkouts as fixtures
import msgspec
import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.e2e import plan_view
from mvp_helpers.e2e.context import CACHES
from mvp_helpers.e2e.requests import description, levels, recommend

if TYPE_CHECKING:
    from conftest import World

VERL = description.load("verl")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": "²"}, "verl has no level '²'"),
        ({"levels": "7"}, "verl has no level '7' (levels: 0, 1, 2, 3, 4, 5)"),
        ({"variants": ("dense",)}, "belongs to level 2"),
        ({"variants": ("dens",)}, "did you mean 'dense'"),
        ({"levels": "4"}, "needs a variant"),
        ({"levels": "4", "variants": ("vlm",)}, "text-only"),
        ({"levels": "4", "variants": ("vlm",), "overrides": ["trainer.x=1"]}, "text-only"),
        ({"levels": "4", "variants": ("mtp",), "overrides": ["actor_rollout_ref.model.mtp.enable=False"]}, "switches MTP on"),
        ({"levels": "0", "baseline": "/no/such.jsonl"}, "none of the levels judges"),
        ({"levels": "5", "baseline": "/usr"}, "--baseline=/usr is not a git checkout"),
        ({"overrides": ["a=b c"]}, "would split or expand it"),
        ({"overrides": ["a=*"]}, "would split or expand it"),
        ({"overrides": ["nothing"]}, "is not key=value"),
        ({"model": "/no/such/model"}, "no config.json"),
        ({"levels": "5", "baseline": "/no/such.jsonl"}, "cannot read"),
        ({"levels": "5", "steps": 9}, "--steps 9: a learning signal needs at least 10 steps"),
        ({"bridge_evidence": "/no/such.log"}, "--bridge-evidence /no/such.log is not a file"),
        ({"env": {"BRIDGE_REPO": ""}}, "BRIDGE_REPO is not set"),
        ({"env": {"BRIDGE_REPO": "/no/such"}}, "is not a folder"),
        ({"env": {"BRIDGE_REPO": "/usr"}}, "is not a git checkout"),
    ],
)
def test_bad_input_is_one_clear_message(reading: World, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        reading.request(options.pop("levels", "0"), **options)
    assert words in caught.value.what and "\n" not in caught.value.what


def test_the_wrong_repository_in_a_variable_is_recognised(reading: World) -> None:
    with pytest.raises(BadInput, match=r"it looks like verl: VERL_REPO"):
        reading.request("0", env={"BRIDGE_REPO": str(reading.verl)})


def test_a_model_is_given_as_this_trainer_takes_it(reading: World) -> None:
    model = fixtures.write_variant(reading.root / "mine", num_experts=4)
    by_variable = reading.request("0", model=str(model))
    assert by_variable.env["MODEL_PATH"] == str(model) and by_variable.env["MODEL_ID"] == "mine"
    assert reading.toy_request("0", model=str(model)).overrides == [f"model.name={model}"]
    assert reading.toy_request("0", model="ORG/NAME").overrides == ["model.name=ORG/NAME"]


def test_a_feature_run_records_the_override_that_switches_it_on(reading: World) -> None:
    request = reading.request("4", ("mtp",), overrides=["+actor_rollout_ref.model.mtp.enable=True"])
    planned = levels.plan(VERL, request.levels, request.variants, request.env, request.overrides)
    assert [one.name for one in planned] == ["level-4-mtp-smoke"] and planned[0].overrides == request.overrides


def test_variables_with_which_the_script_writes_into_the_home_are_refused() -> None:
    both = {"USE_DUMMY_MODEL": "True", "USE_DIST_CKPT": "True"}
    with pytest.raises(BadInput, match=r"USE_DUMMY_MODEL=True USE_DIST_CKPT=True: .*dist_ckpt_dummy"):
        levels.plan(VERL, [0], [], both, [])
    for name in both:
        assert levels.plan(VERL, [0], [], {**both, name: "False"}, [])


def test_steps_change_only_the_variable_that_is_the_step_count() -> None:
    twenty = {"MAX_PROMPT_LENGTH": "20"}
    [one] = levels.plan(VERL, [5], [], twenty, [], steps=50)
    assert (one.env["TOTAL_TRAIN_STEPS"], one.env["MAX_PROMPT_LENGTH"], one.steps) == ("50", "20", [1, 50])
    assert one.env["TEST_FREQ"] == "10"
    save, resume = levels.plan(VERL, [1], [], {}, [], steps=50)
    assert (save.env["TOTAL_TRAIN_STEPS"], resume.env["TOTAL_TRAIN_STEPS"]) == ("1", "2"), "only a learning signal"
    assert save.group == resume.group, "the checkpoint goes from one to the other"


def test_changed_files_call_for_levels_with_the_tables_reason(world: World) -> None:
    changed = world.bridge / "src/megatron/bridge/peft/lora.py"
    changed.parent.mkdir(parents=True)
    changed.write_text("")
    recommended, files = recommend.recommend("verl", "main", world.env)
    called = {each.number for each in recommended if each.called_for}
    assert files == ["src/megatron/bridge/peft/lora.py"] and called == {0, 1, 5}
    start = recommend.start(VERL, {"BRIDGE_REPO": "/b"})
    assert start == 'BRIDGE_REPO=/b VERL_REPO="${VERL_REPO:?the verl checkout}" ./scripts/60_e2e_verl.sh'
    pasted = subprocess.run(["bash", "-c", start], env={}, cwd="/", capture_output=True, text=True, check=False)
    assert pasted.returncode and pasted.stderr.strip().endswith("VERL_REPO: the verl checkout"), "the shell asks for it"
    shown = recommend.show(recommended, files, start)
    assert f"{start} --level 0,1,5" in shown and VERL.levels[1].when in shown
    assert "no level" in recommend.show(recommend.by_files(VERL, ["README.md"]), ["README.md"], start)
    with pytest.raises(BadInput, match="cannot compare"):
        recommend.recommend("verl", "no-such-branch", world.env)


MOE_FILES = [
    "src/megatron/bridge/models/qwen/qwen3_moe_bridge.py",
    "src/megatron/bridge/models/qwen/qwen2_moe_provider.py",
    "src/megatron/bridge/models/glm_moe/glm4_bridge.py",
    "src/megatron/bridge/models/olmoe/olmoe_bridge.py",
    "src/megatron/bridge/models/mixtral/mixtral_bridge.py",
    "src/megatron/bridge/training/moe_permute.py",
    "src/megatron/bridge/models/ernie/ernie_45_moe.py",
    "src/megatron/bridge/models/common/experts.py",
    "src/megatron/bridge/utils/router.py",
    "src/megatron/bridge/models/nemotronh/nemotron_h_moe.py",
]


@pytest.mark.parametrize("file", MOE_FILES)
def test_every_file_about_experts_calls_for_expert_parallelism_and_its_feature(file: str) -> None:
    recommended = recommend.by_files(VERL, [file])
    assert [each.number for each in recommended if "moe" in each.variants] == [2, 4]
    commands = recommend.commands(recommended, VERL.command)
    assert any("--level 0,2 --variant moe --model " in text for text in commands), "level 2 counts only after level 0"
    assert any("--level 4 --variant moe --model " in text for text in commands)


def test_every_level_that_is_called_for_is_in_a_command_that_can_be_pasted(reading: World) -> None:
    files = ["fsdp/wrap.py", "qwen_vl/vision.py", "mtp.py", "quantization/qat.py", "models/moe.py", "optim/parallel.py"]
    recommended = recommend.by_files(VERL, [f"src/megatron/bridge/{name}" for name in files])
    commands = recommend.commands(recommended, VERL.command)
    for each in recommended:
        assert each.called_for and any(f" --level {each.number}" in text or f",{each.number}" in text for text in commands)
    for text in commands:
        assert not set("|<>;&(") & set(text) and "KEY=VALUE" not in text
        words = text.split()
        options = [(word, words[at + 1]) for at, word in enumerate(words) if word.startswith("--")]
        chosen = dict(options)
        overrides = [value for name, value in options if name == "--override"]
        variants = (chosen["--variant"],) if "--variant" in chosen else ()
        reading.request(chosen["--level"], variants, chosen.get("--model", ""), overrides=overrides)


USES_FSDP = "actor_rollout_ref.actor.megatron.override_ddp_config.use_megatron_fsdp"


def test_a_level_counts_only_after_another_one_of_the_same_code(world: World) -> None:
    from mvp_helpers.e2e.requests import checkouts, coverage

    states = [checkouts.record(name, getattr(world, name), None) for name in ("bridge", "verl")]
    runs = world.root / "runs"

    def missing(chosen: str, **options: Any) -> list[str]:
        return coverage.missing(VERL, world.request(chosen, **options), runs, states)

    [problem] = missing("3")
    assert "level 3 counts only after level 0 of the same code and model (Qwen/Qwen2.5-0.5B)" in problem
    assert "--level 0,3" in problem
    assert missing("0,3") == [] == missing("1,5")
    step = world.step("checkouts", world.request("3"))
    assert step.verdict == "Blocked" and "--level 0,3" in step.fixes[0]

    def earlier(verdict: str, fingerprint: str = "", model: str = "") -> None:
        marks = {state.name: fingerprint or state.fingerprint for state in states}
        steps = [{"name": "level-0-smoke", "verdict": verdict, "fingerprints": marks}]
        (runs / "a").mkdir(parents=True, exist_ok=True)
        (runs / "a" / "run.json").write_bytes(msgspec.json.encode(world.request("0", model=model)))
        (runs / "a" / "summary.json").write_bytes(msgspec.json.encode({"steps": steps}))

    for verdict, fingerprint, met in (("Fail", "", False), ("Pass", "other", False), ("Pass", "", True)):
        earlier(verdict, fingerprint)
        assert (missing("2") == []) is met, (verdict, fingerprint)
    assert "(Qwen/Other)" in missing("2", model="Qwen/Other")[0], "the earlier run had another model"
    earlier("Pass", model="Qwen/Other")
    assert missing("2") and missing("2", model="Qwen/Other") == []
    assert levels.levels_of(VERL, "3,0 2") == [0, 2, 3], "whatever the order in which they are named"


def test_limitations_follow_from_what_the_config_says_however_it_was_written(reading: World) -> None:
    def limits(request: str = "0", overrides: tuple[str, ...] = (), **env: str) -> list[str]:
        context = reading.context(reading.request(request, overrides=list(overrides), env=env), **env)
        return levels.limitations(VERL, context.planned, context.configs())

    assert any(text.startswith("dummy model") for text in limits(USE_DUMMY_MODEL="True"))
    eager = "actor_rollout_ref.rollout.enforce_eager"
    for text in (f"{eager}=True", f"++{eager}=true", f"{eager}=TRUE"):
        assert any(limit.startswith("eager mode") for limit in limits(overrides=(text,))), text
    assert any(limit.startswith("reward model disabled") for limit in limits(overrides=("reward.reward_model.enable=false",)))
    for estimator, trained in (("grpo", False), ("rloo", False), ("reinforce_plus_plus", False), ("gae", True)):
        without = [text for text in limits(overrides=(f"algorithm.adv_estimator={estimator}",)) if text.startswith("no critic")]
        assert bool(without) is not trained, estimator
    assert not any("critic" in text for text in limits(overrides=("algorithm.adv_estimator=rloo", "critic.enable=True")))
    assert any("PEFT" in text for text in limits("1", LORA_RANK="0"))
    for name, value in {"CRITIC_LORA_RANK": "2", "LORA_TARGET_MODULES": "['linear_qkv']", "DEVICE": "npu"}.items():
        assert any(f"{name}={value} from your environment" in text for text in limits(**{name: value})), name
    assert any("data.seed is not set" in text for text in limits())
    assert not any("data.seed" in text for text in limits(overrides=("data.seed=1",)))
    both = limits("0,1,2")
    assert not any("save/resume" in text or "parallel sizes 1" in text for text in both), "another run of the request shows it"
    assert not any("eager" in text or "dummy" in text or "PEFT" in text or "reward" in text for text in limits())


def test_the_plan_shows_every_command_and_writes_nothing(reading: World) -> None:
    plan = plan_view.plan(reading.context(reading.request("0,1,2")))
    assert [run["name"] for run in plan["runs"]] == ["level-0-smoke", "level-1-save", "level-1-resume", "level-2-dense-stress"]
    stress = plan["runs"][3]
    assert (stress["env"]["COMMON_TP"], stress["env"]["COMMON_PP"], stress["env"]["NUM_GPUS"]) == ("2", "2", "4")
    assert stress["starts"][:3] == ["python3", "-m", "verl.trainer.main_ppo"] and plan["problems"] == []
    assert "reward.reward_model.enable=False" in stress["command"], "the run's own command, without the reward model"
    shown = plan_view.show(plan)
    assert "bash tests/special_e2e/run_ppo_trainer_megatron.sh" in shown and "E2E_RUN=${E2E_RUN:-$(mktemp -d)}" in shown
    assert "It resumes a save: first run 'save' with the same E2E_RUN." in shown
    assert {"bridge-checks", "imports", "data"} == set(plan["commands"])
    assert "-m pytest" in plan["commands"]["bridge-checks"] and "gsm8k.py --local_save_dir" in plan["commands"]["data"]
    assert not (reading.root / "runs").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"env": {"NUM_GPUS": "abc"}}, "trainer.n_gpus_per_node=abc is not a number of GPUs"),
        ({"levels": "0,2", "env": {"NUM_GPUS": "2"}}, "2 GPUs are not a multiple of 4"),
        ({"model": "Qwen/Other"}, "the model is not at"),
        ({"env": {"TRAIN_FILES": "/no/such.parquet"}}, "TRAIN_FILES: /no/such.parquet does not exist"),
        ({"tests": ["tests/no_such.py"]}, "--bridge-tests tests/no_such.py: not in this checkout"),
        ({"levels": "3"}, "level 3 counts only after level 0"),
        ({"env": {"LORA_RANK": "0"}}, "actor_rollout_ref.model.lora.rank=0, which must be above 0"),
        ({"env": {"CRITIC_LORA_RANK": "0"}}, "critic.model.lora.rank=0, which must be above 0"),
        ({"overrides": ["actor_rollout_ref.model.lora.rank=0"]}, "actor_rollout_ref.model.lora.rank=0"),
        ({"overrides": [f"critic.model.lora.rank={rank}" for rank in (0, 8, 0)]}, "critic.model.lora.rank=0, which must be"),
        ({"overrides": ["actor_rollout_ref.actor.strategy=fsdp"]}, "actor_rollout_ref.actor.strategy=fsdp, not megatron"),
        ({"overrides": ["trainer.total_training_steps=3"]}, "trainer.total_training_steps=3, but the run needs 1"),
        ({"levels": "5", "overrides": ["trainer.total_training_steps=5"]}, "=5, but the run needs 20"),
        ({"levels": "1", "overrides": ["trainer.save_freq=-1"]}, "trainer.save_freq=-1, but the run needs 1"),
        ({"levels": "1", "overrides": ["trainer.resume_mode=disable"]}, "resume_mode=disable, but the run needs auto"),
        ({"overrides": ["trainer.default_local_dir=/x"]}, "trainer.default_local_dir=/x, but the run needs /"),
        ({"overrides": [f"+{USES_FSDP}=True"]}, f"{USES_FSDP}=True, not False"),
        ({"overrides": ["actor_rollout_ref.model.path=/x"]}, "actor_rollout_ref.model.path=/x, not "),
        ({"overrides": ["critic.megatron.use_mbridge=False"]}, "critic.megatron.use_mbridge=False, not True"),
        ({"overrides": ["actor_rollout_ref.ref.megatron.use_mbridge=False"]}, "ref.megatron.use_mbridge=False, not True"),
        ({"overrides": ["actor_rollout_ref.actor.megatron.use_megatron_fsdp=True"]}, "use_megatron_fsdp=True, not False"),
    ],
)
def test_a_problem_that_needs_no_gpu_to_be_seen_is_in_the_plan(reading: World, options: dict[str, Any], words: str) -> None:
    env = options.get("env", {})
    request = reading.request(options.pop("levels", "0"), **options)
    problems = plan_view.plan(reading.context(request, **env))["problems"]
    assert any(words in problem for problem in problems), problems


def test_an_empty_submodule_is_in_the_plan(world: World) -> None:
    fixtures.git(world.bridge, "worktree", "add", "-q", str(world.root / "tree"))
    env = {"BRIDGE_REPO": str(world.root / "tree")}
    problems = plan_view.plan(world.context(world.request(env=env), **env))["problems"]
    assert any("3rdparty/Megatron-LM is empty: git -C" in problem for problem in problems), problems
    [problem] = plan_view.plan(world.context(world.request("5", baseline=str(world.root / "tree"))))["problems"]
    assert problem.startswith(f"{world.root}/tree/3rdparty/Megatron-LM is empty"), "the baseline's too"


def test_the_plan_shows_setup_and_the_proof_of_the_baseline(world: World) -> None:
    fixtures.git(world.bridge, "worktree", "add", "-q", str(world.root / "tree"))
    commands = plan_view.plan(world.context(world.request("5", baseline=str(world.root / "tree"), setup="pip install x")))[
        "commands"
    ]
    assert (
        list(commands) == ["setup", "bridge-checks", "imports", "imports-baseline", "data"]
        and commands["setup"] == "pip install x"
    )
    assert f"PYTHONPATH={world.root}/tree/src:" in commands["imports-baseline"]
    assert f"PYTHONPATH={world.bridge}/src:" in commands["imports"]


def test_missing_data_that_would_be_prepared_are_no_problem_of_the_plan(reading: World) -> None:
    env = {"TRAIN_FILES": f"{reading.root}/new/train.parquet", "VAL_FILES": f"{reading.root}/new/test.parquet"}
    assert plan_view.plan(reading.context(reading.request(env=env), **env))["problems"] == []


def test_variables_of_the_shell_that_the_script_would_read_are_unset_and_named(reading: World) -> None:
    env = {"REF_TP": "2", "COMMON_TP": "4", "ENGINE": "sglang", "CUDA_VISIBLE_DEVICES": "0", "MAX_PROMPT_LENGTH": "64"}
    context = reading.context(reading.request(env=env), **env)
    [one] = context.planned
    used = context.environment(one)
    assert "REF_TP" not in used and (used["COMMON_TP"], used["ENGINE"], used["MAX_PROMPT_LENGTH"]) == ("1", "sglang", "64")
    assert context.unused_words() == [
        "COMMON_TP=4 of your shell is not used: the procedure decides it",
        "REF_TP=2 of your shell is not used: the procedure decides it",
    ]
    shown = context.shown_environment(one)
    assert {"PATH", "HOME", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "LORA_RANK", "RAY_ADDRESS"} <= set(shown)


def test_what_reaches_the_trainer_is_in_the_command_also_when_the_script_does_not_read_it(reading: World) -> None:
    env = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "LD_PRELOAD": "/x.so", "SSH_TTY": "/dev/pts/0", "BASH_FUNC_ml%%": "() { :; }"}
    env |= {"NV_CUDNN_VERSION": "9", "NVIDIA_REQUIRE_CUDA": "cuda>=13.0", "NVIDIA_VISIBLE_DEVICES": "0"}
    context = reading.context(reading.request(), **env)
    [run] = plan_view.plan(context)["runs"]
    assert context.environment(context.planned[0]).items() >= env.items()
    assert "export CUBLAS_WORKSPACE_CONFIG=:4096:8\n" in run["script"] and "export LD_PRELOAD=/x.so\n" in run["script"], run[
        "script"
    ]
    assert "export NVIDIA_VISIBLE_DEVICES=0\n" in run["script"]
    assert not [name for name in ("SSH_TTY", "BASH_FUNC", "NV_CUDNN", "NVIDIA_REQUIRE") if name in run["script"]]


def test_a_path_in_a_variable_is_absolute_because_the_script_starts_elsewhere(
    reading: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reading.home)
    assert reading.request(env={"TRAIN_FILES": "data/gsm8k/train.parquet"}).env == {
        "TRAIN_FILES": f"{reading.home}/data/gsm8k/train.parquet"
    }
    inherited = reading.context(reading.request(), MVP_E2E_PYTHONPATH=":data::/opt/more").pythonpath()
    assert inherited.endswith(f":{reading.home}/data:/opt/more")


def test_workers_of_a_running_cluster_get_what_keeps_the_checkouts_as_they_are(reading: World) -> None:
    context = reading.context(reading.request(), RAY_ADDRESS="10.0.0.1:6379")
    variables = context.checked(context.planned[0]).config["ray_kwargs"]["ray_init"]["runtime_env"]["env_vars"]
    assert variables["PYTHONDONTWRITEBYTECODE"] == "1" and variables["PYTHONPATH"] == context.pythonpath()
    assert {name: variables[name] for name in CACHES} == {name: str(context.folder.cache / name.lower()) for name in CACHES}


def test_what_libraries_compile_is_kept_beside_the_runs_and_not_in_the_home(reading: World) -> None:
    context = reading.context(reading.request(), TRITON_CACHE_DIR="/fast/triton")
    shown, beside = context.shown_environment(context.planned[0]), str(context.folder.cache)
    assert all(shown[name].startswith(beside) for name in CACHES if name != "TRITON_CACHE_DIR")
    assert shown["TRITON_CACHE_DIR"] == "/fast/triton", "the user's own"


def test_a_folder_that_the_script_writes_is_the_runs_own_unless_the_user_names_one(
    reading: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The converter leaves a folder that is not empty as it is, whatever model it is of."""

    def checkpoint(**env: str) -> str:
        context = reading.context(reading.request(env=env), **env)
        checked = context.checked(context.planned[0])
        limits = levels.limitations(VERL, context.planned, context.configs())
        assert checked.problems == [] and not any("DIST_CKPT_PATH" in text for text in limits)
        return str(checked.config["actor_rollout_ref"]["actor"]["megatron"]["dist_checkpointing_path"])

    assert checkpoint(USE_DIST_CKPT="True") == f"{reading.run_folder}/dist-ckpt"
    monkeypatch.chdir(reading.home)
    assert checkpoint(USE_DIST_CKPT="True", DIST_CKPT_PATH="data") == f"{reading.home}/data"
    assert checkpoint() == f"{reading.home}/dist_ckpt/Qwen/Qwen2.5-0.5B"


def test_another_script_is_given_as_overrides_what_it_does_not_read(world: World) -> None:
    script = world.verl / "examples/run_mtp.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text(
        "set -x\npython3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer trainer.project_name=${PROJECT:-x}"
        """ trainer.logger='["console","wandb"]' $@\n"""
    )
    mtp = ["actor_rollout_ref.model.mtp.enable=True"]
    env = {"MAX_PROMPT_LENGTH": "64"}
    context = world.context(world.request("4", ("mtp",), "Qwen/mtp", overrides=mtp, script="examples/run_mtp.sh", env=env))
    [one] = context.planned
    checked = context.checked(one)
    assert checked.problems == [], checked.problems
    assert (
        checked.config["trainer"]["total_training_steps"] == 1
        and checked.config["actor_rollout_ref"]["model"]["lora"]["rank"] == 4
    )
    assert checked.config["trainer"]["logger"] == "console", "wandb would write into the checkout"
    assert context.expect(one).xtrace == {}, "a script shows only variables that it reads"
    sentence = "MAX_PROMPT_LENGTH=64 has no effect: run_mtp.sh of this revision does not read it"
    assert checked.ignored == {"MAX_PROMPT_LENGTH": sentence}
    limits = plan_view.plan(context)["limitations"]
    assert not any("MAX_PROMPT_LENGTH=64 from your environment" in text for text in limits), "it contradicts that"
    step = world.step("drift", context=context)
    assert step.limitations == [sentence], "said even though the user set it"
    with pytest.raises(BadInput, match="has a variant with its own script"):
        world.request("0", script="examples/run_mtp.sh")


def test_another_script_gets_the_model_by_the_variable_that_it_reads(world: World) -> None:
    script = world.verl / "examples/run_mtp.sh"
    script.parent.mkdir(exist_ok=True)
    launch = "python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer actor_rollout_ref.model.path=$MODEL_PATH $@"
    script.write_text(f"MODEL_PATH=${{MODEL_PATH:-Qwen/its-own}}\n{launch}\n")
    options = {"overrides": ["actor_rollout_ref.model.mtp.enable=True"], "script": "examples/run_mtp.sh"}
    context = world.context(world.request("4", ("mtp",), "Qwen/mtp", **options))
    [one] = context.planned
    folder = f"{world.home}/models/Qwen/mtp"
    assert context.checked(one).problems == [] and context.environment(one)["MODEL_PATH"] == folder
    assert context.checked(one).config["actor_rollout_ref"]["model"]["path"] == folder
    script.write_text(launch.replace("$MODEL_PATH", "Qwen/its-own").replace(" $@", "") + "\n")
    [problem] = [text for text in context._check(one).problems if "model.path" in text]
    assert f"actor_rollout_ref.model.path=Qwen/its-own, not {folder}" in problem
    with pytest.raises(BadInput, match="--model Qwen/mtp and MODEL_PATH=/m of your shell name two models"):
        world.request("0", model="Qwen/mtp", env={"MODEL_PATH": "/m"})


def test_a_wrapper_that_renamed_a_variable_is_given_overrides_in_its_place(world: World) -> None:
    context = world.context(world.request())
    script = context.script(context.planned[0])
    script.write_text(script.read_text().replace("ALL_OFFLOAD", "OFFLOAD_TARGET"))
    [one] = context.planned
    checked = context.checked(one)
    assert checked.problems == [] and any(text.startswith("ALL_OFFLOAD is not read by") for text in checked.notes)
    own = "actor_rollout_ref.actor.megatron.param_offload=False"
    assert own in context.command(one)
    env = {"OFFLOAD_TARGET": "optimizer"}
    chosen = world.context(world.request(env=env), **env)
    checked = chosen.checked(chosen.planned[0])
    assert own not in chosen.command(chosen.planned[0]) and checked.problems == [], "the user's choice wins"
    assert any("OFFLOAD_TARGET=optimizer from your environment" in text for text in chosen.limitations(chosen.planned))


def test_the_folder_of_raw_data_is_for_the_preparation_and_not_for_the_script(reading: World) -> None:
    env = {"GSM8K_SOURCE_DIR": str(reading.home)}
    context = reading.context(reading.request(env=env), **env)
    assert context.checked(context.planned[0]).ignored == {}


@pytest.mark.parametrize("name", description.names())
def test_every_description_is_read_and_a_mistake_in_one_is_named(name: str, tmp_path: Path) -> None:
    found = description.load(name)
    assert found.levels and list(found.levels) == sorted(found.levels) and msgspec.json.encode(found)

    def mistake(text: str) -> str:
        file = tmp_path / "mine.yaml"
        file.write_text(f"extends: {description.FOLDER / name}.yaml\n{text}\n")
        with pytest.raises(BadInput) as caught:
            description.load(str(file))
        return caught.value.what

    assert "did you mean 'wrapper'" in mistake("wraper: {script: x}")
    assert "unknown trainer 'verll' (did you mean 'verl'?)" in mistake("trainer: verll")
    assert "does not exist" in mistake("trainer: no_such.py")
    assert "is not a regular expression" in mistake("source: '('")
    assert "is not a regular expression" in mistake("learning: {finite: '('}")
    run = "levels: {0: {variants: {smoke: {runs: [{name: a, steps: [%s], resumes: '%s'}]}}}}"
    assert "steps must be the first and the last step" in mistake(run % ("2, 1", ""))
    assert "resumes 'b', which does not come before it" in mistake(run % ("1, 1", "b"))


def test_what_descriptions_share_is_said_once() -> None:
    smoke = description.load("verl-cpu-smoke")
    assert smoke.data == VERL.data and smoke.levels[1].variants == VERL.levels[1].variants
    assert list(VERL.checkouts) == ["bridge", "verl"], "the subject's code comes first on the PYTHONPATH"
    assert VERL.metric_names().length_cap and not smoke.metric_names().length_cap
