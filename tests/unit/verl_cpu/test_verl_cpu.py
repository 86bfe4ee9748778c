"""The CPU plugin against the real verl: what it adds works, every patch is needed, and none goes on where verl has changed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

if importlib.util.find_spec("verl") is None or importlib.util.find_spec("torch") is None:
    pytest.skip("verl is not installed", allow_module_level=True)

PATCH_NAMES = [
    "gloo by default",
    "count the platform's resource",
    "unpinned offload",
    "critic attention",
    "poll faster",
    "rollout class",
    "rollout replica",
    "ids in order",
    "order of a batch",
    "seed of a request",
]


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Iterator[None]:
    """verl with the plugin, imported once for this file (5 s); the environment is put back."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("VERL_PLATFORM", "VERL_ENGINE_DEVICE"):
            patch.setenv(name, "")
            patch.delenv(name)
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        patch.setenv("VERL_USE_EXTERNAL_MODULES", "verl_cpu")
        imported_before = "verl" in sys.modules  # by another file of tests, without the plugin
        importlib.import_module("verl")
        if imported_before:
            importlib.import_module("verl_cpu")
        assert "verl_cpu" in sys.modules, "verl did not load the module named in VERL_USE_EXTERNAL_MODULES"
        yield


@pytest.fixture(scope="module")
def patches(plugin: None) -> dict[str, Any]:
    from verl_cpu.patches import PATCHES

    return {patch.name: patch for patch in PATCHES}


@pytest.fixture
def pristine(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A second copy of a verl module, as its file has it: without the plugin's patch."""

    def load(name: str) -> ModuleType:
        from verl.workers.engine.base import EngineRegistry

        monkeypatch.setattr(EngineRegistry, "_engines", {})
        file = importlib.import_module(name).__file__
        assert file is not None
        spec = importlib.util.spec_from_file_location(f"{name}_pristine", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2 with 32 words, where `<eos>` is as likely as any other."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("model")
    words = {"<pad>": 0, "<eos>": 1} | {f"w{number}": number for number in range(2, 32)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>").save_pretrained(folder)
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=32,
        max_position_embeddings=128,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
        **sizes,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def trainer_model(folder: Path, seed: int, **changes: Any) -> Any:
    """The trainer's model: same shape, weights of its own, scaled so that its choices are clear."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder, **changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)
    return model


def token_model(folder: Path, seed: int = 1) -> tuple[Any, Any]:
    """A rollout model with the weights of the trainer's model beside it."""
    from verl_hf.generation import TokenModel

    rollout, trainer = TokenModel(str(folder)), trainer_model(folder, seed)
    rollout.load_weights(trainer.state_dict(), last=True)
    return rollout, trainer


def own_log_probs(model: Any, prompt: list[int], answer: list[int], temperature: float) -> list[float]:
    """What the model itself says about an answer: one unpadded forward pass."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1] / temperature
    return logits.log_softmax(-1).gather(-1, torch.tensor(answer).unsqueeze(-1)).squeeze(-1).tolist()  # type: ignore[no-any-return]


PROMPTS = [[5, 9, 3], [7], [4, 4, 8, 2, 30, 11], [12, 6]]
SEEDS = range(len(PROMPTS))


# -- generation


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_the_models_own_whatever_the_padding(model_folder: Path, temperature: float) -> None:
    from verl_hf.generation import Sampling

    rollout, trainer = token_model(model_folder)
    completions = rollout.generate(PROMPTS, Sampling(max_tokens=8, temperature=temperature), SEEDS)
    assert len(completions) == len(PROMPTS)
    for prompt, completion in zip(PROMPTS, completions, strict=True):
        own = own_log_probs(trainer, prompt, completion.token_ids, temperature)
        assert completion.log_probs == pytest.approx(own, abs=1e-4)


def test_temperature_zero_and_top_k_one_take_the_likeliest_token(model_folder: Path) -> None:
    import torch

    from verl_hf.generation import Sampling

    rollout, trainer = token_model(model_folder)
    greedy = rollout.generate(PROMPTS, Sampling(max_tokens=6, temperature=0), SEEDS)
    likeliest = rollout.generate(PROMPTS, Sampling(max_tokens=6, top_k=1), SEEDS)
    assert [c.token_ids for c in greedy] == [c.token_ids for c in likeliest]
    with torch.no_grad():
        first = [int(trainer(torch.tensor([prompt])).logits[0, -1].argmax()) for prompt in PROMPTS]
    assert [c.token_ids[0] for c in greedy] == first


def test_an_answer_ends_with_its_first_end_token_or_at_the_limit(model_folder: Path) -> None:
    from verl_hf.generation import Sampling, TokenModel

    rollout = TokenModel(str(model_folder))
    rollout.load_weights(rollout.model.state_dict(), last=True)  # nearly uniform: some answers end early, some do not
    completions = rollout.generate([[5]] * 64, Sampling(max_tokens=16), range(64))
    assert {completion.ended for completion in completions} == {True, False}
    for completion in completions:
        assert len(completion.log_probs) == len(completion.token_ids)
        assert 1 not in completion.token_ids[:-1], "something follows the end token"
        assert completion.ended == (completion.token_ids[-1] == 1)
        assert completion.ended or len(completion.token_ids) == 16
    through = rollout.generate([[5]] * 64, Sampling(max_tokens=16, ignore_eos=True), range(64))
    assert {len(completion.token_ids) for completion in through} == {16}
    assert any(1 in completion.token_ids[:-1] for completion in through), "ignore_eos must not forbid the end token"


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As in a job: several threads share a batch among them, and its last bits depend on how."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_an_answer_depends_on_its_seed_and_prompt_and_on_nothing_beside_it(model_folder: Path, one_thread: None) -> None:
    from verl_hf.generation import Sampling

    rollout, _ = token_model(model_folder)
    how = Sampling(max_tokens=12, temperature=0.9, top_p=0.95)
    alone = [rollout.generate([prompt], how, [seed])[0] for prompt, seed in zip(PROMPTS, SEEDS, strict=True)]
    assert rollout.generate(PROMPTS, how, SEEDS) == alone
    beside = rollout.generate([[3] * 40, *reversed(PROMPTS), [8]], how, [9, *reversed(SEEDS), 9])
    assert beside[4:0:-1] == alone, "not equal to the last bit"
    assert rollout.generate(PROMPTS, how, range(4, 8)) != alone


def test_draws_follow_the_models_distribution(model_folder: Path) -> None:
    import torch

    from verl_hf.generation import Sampling

    rollout, trainer = token_model(model_folder)
    draws = 4000
    with torch.no_grad():
        expected = (trainer(torch.tensor([[5, 9, 3]])).logits[0, -1] / 0.5).softmax(-1)
    drawn = rollout.generate([[5, 9, 3]] * draws, Sampling(max_tokens=1, temperature=0.5), range(draws))
    seen = torch.bincount(torch.tensor([completion.token_ids[0] for completion in drawn]), minlength=len(expected)) / draws
    assert (seen - expected).abs().max() < 5 * (0.25 / draws) ** 0.5


def test_an_answer_stays_within_the_models_context(model_folder: Path) -> None:
    from verl_hf.generation import Sampling

    rollout, _ = token_model(model_folder)
    (completion,) = rollout.generate([[5] * 126], Sampling(max_tokens=50, ignore_eos=True), [0])
    assert len(completion.token_ids) == 2
    with pytest.raises(ValueError, match="the model takes 1 to 127"):
        rollout.generate([[5] * 128], Sampling(max_tokens=1), [0])
    with pytest.raises(ValueError, match="prompts of 0 to 1 tokens"):
        rollout.generate([[5], []], Sampling(max_tokens=1), [0, 0])


def test_a_weight_update_changes_the_answers(model_folder: Path) -> None:
    from verl_hf.generation import Sampling

    rollout, _ = token_model(model_folder, seed=1)
    greedy = Sampling(max_tokens=6, temperature=0)
    before = [completion.token_ids for completion in rollout.generate(PROMPTS, greedy, SEEDS)]
    new = trainer_model(model_folder, seed=2)
    rollout.load_weights(new.state_dict(), last=True)
    after = rollout.generate(PROMPTS, greedy, SEEDS)
    assert [completion.token_ids for completion in after] != before
    completion = rollout.generate(PROMPTS, Sampling(max_tokens=6), SEEDS)[2]
    assert completion.log_probs == pytest.approx(own_log_probs(new, PROMPTS[2], completion.token_ids, 1.0), abs=1e-4)


def test_weights_that_do_not_fit_are_an_error_and_stop_generation(model_folder: Path) -> None:
    import torch

    from verl_hf.generation import Sampling, TokenModel

    rollout = TokenModel(str(model_folder))
    weights = rollout.model.state_dict()
    one = Sampling(max_tokens=1)
    with pytest.raises(RuntimeError, match="before the trainer sent all its weights"):
        rollout.generate([[5]], one, [0])
    with pytest.raises(ValueError, match=r"unexpected \['lm_head.bias'\]"):
        rollout.load_weights({**weights, "lm_head.bias": torch.zeros(32)}, last=True)
    with pytest.raises(ValueError, match=r"misshapen \['lm_head.weight'\]"):
        rollout.load_weights({**weights, "lm_head.weight": torch.zeros(1, 16)}, last=True)
    with pytest.raises(ValueError, match=r"did not send these weights.*'lm_head.weight'"):
        rollout.load_weights({name: tensor for name, tensor in weights.items() if name != "lm_head.weight"}, last=True)
    with pytest.raises(RuntimeError, match="before the trainer sent all its weights"):
        rollout.generate([[5]], one, [0])
    names = list(weights)
    rollout.load_weights({name: weights[name] for name in names[:3]}, last=False)
    with pytest.raises(RuntimeError, match="before the trainer sent all its weights"):
        rollout.generate([[5]], one, [0])
    rollout.load_weights({name: weights[name] for name in names[3:]}, last=True)
    assert rollout.generate([[5]], one, [0])
    rollout.load_weights({name: weights[name] for name in names[:3]}, last=False)
    with pytest.raises(RuntimeError, match="before the trainer sent all its weights"):
        rollout.generate([[5]], one, [0])


def test_tied_weights_are_sent_once(model_folder: Path, tmp_path: Path) -> None:
    import shutil

    from transformers import AutoConfig

    from verl_hf.generation import TokenModel

    tied = tmp_path / "tied"
    shutil.copytree(model_folder, tied)
    config = AutoConfig.from_pretrained(tied)
    config.tie_word_embeddings = True
    config.save_pretrained(tied)
    trainer = trainer_model(tied, seed=1)
    rollout = TokenModel(str(tied))
    sent = dict(trainer.named_parameters())
    assert "lm_head.weight" not in sent
    rollout.load_weights(sent, last=True)
    assert rollout.model.lm_head.weight.equal(trainer.model.embed_tokens.weight)


def test_sampling_takes_what_verl_sends_and_refuses_what_it_would_have_to_ignore() -> None:
    from verl_hf.generation import Sampling

    sent = {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "repetition_penalty": 1.0, "logprobs": True}
    assert Sampling.from_verl(sent, max_tokens=7) == Sampling(max_tokens=7, temperature=0.5, top_p=0.9, top_k=3)
    assert Sampling.from_verl({"max_new_tokens": 2}, max_tokens=7).max_tokens == 2
    assert Sampling.from_verl({"max_tokens": 3, "ignore_eos": True}, max_tokens=7) == Sampling(max_tokens=3, ignore_eos=True)
    with pytest.raises(ValueError, match=r"does not support the sampling parameters \{'repetition_penalty': 1.2\}"):
        Sampling.from_verl({"repetition_penalty": 1.2}, max_tokens=7)
    with pytest.raises(ValueError, match="stop"):
        Sampling.from_verl({"stop": ["\n"]}, max_tokens=7)


# -- the rollout server, its replica and its adapter


def rollout_server(model_folder: Path, **config: Any) -> Any:
    from verl_hf.rollout import RolloutServer

    settings: dict[str, Any] = {
        "dtype": "float32",
        "seed": 0,
        "prompt_length": 8,
        "response_length": 5,
        "ignore_eos": False,
        "max_num_seqs": 16,
    }
    server = RolloutServer(SimpleNamespace(**settings | config), str(model_folder), trust_remote_code=False, replica_rank=0)
    server.model.load_weights(trainer_model(model_folder, seed=1).state_dict(), last=True)
    return server


def test_requests_that_come_together_are_generated_together_and_answered_apart(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = rollout_server(model_folder, max_num_seqs=3)
    alone = [asyncio.run(server.generate(prompt, {"temperature": 0}, "r")).token_ids for prompt in PROMPTS]
    batches: list[int] = []
    generate = server.model.generate
    monkeypatch.setattr(server.model, "generate", lambda prompts, *how: batches.append(len(prompts)) or generate(prompts, *how))

    async def together() -> list[Any]:
        server._busy = asyncio.Lock()
        return await asyncio.gather(*[server.generate(prompt, {"temperature": 0}, "r") for prompt in PROMPTS])

    answers = asyncio.run(together())
    assert [answer.token_ids for answer in answers] == alone
    assert batches == [3, 1], "max_num_seqs=3 bounds a batch"
    assert {answer.stop_reason for answer in answers} <= {"completed", "length"}


def test_requests_with_different_sampling_do_not_mix(model_folder: Path) -> None:
    server = rollout_server(model_folder)

    async def both() -> list[Any]:
        return await asyncio.gather(
            server.generate([5], {"max_tokens": 2, "ignore_eos": True}, "a"),
            server.generate([5], {"max_tokens": 4, "ignore_eos": True}, "b"),
        )

    assert [len(answer.token_ids) for answer in asyncio.run(both())] == [2, 4]


def test_a_failed_generation_fails_every_request_in_it(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = rollout_server(model_folder)

    def broken(prompts: Any, sampling: Any, seeds: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(server.model, "generate", broken)

    async def both() -> list[Any]:
        return await asyncio.gather(server.generate([5], {}, "a"), server.generate([6], {}, "b"), return_exceptions=True)

    assert [str(outcome) for outcome in asyncio.run(asyncio.wait_for(both(), 5))] == ["out of memory"] * 2


def test_the_server_refuses_images_and_reports_the_weights_version(model_folder: Path) -> None:
    server = rollout_server(model_folder)
    with pytest.raises(ValueError, match="text only"):
        asyncio.run(server.generate([5], {}, "a", image_data=["picture"]))

    async def updated() -> Any:
        server._busy = asyncio.Lock()
        await server.update_weights(trainer_model(model_folder, seed=2).state_dict(), 7, True)
        return await server.generate([5], {}, "a")

    assert asyncio.run(updated()).extra_fields == {"global_steps": 7}


def test_the_adapter_sends_every_tensor_and_ends_the_update_once(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from verl_hf import rollout

    sent: list[tuple[list[str], int, bool]] = []

    class Remote:
        async def remote(self, tensors: dict[str, Any], global_steps: int, last: bool) -> None:
            sent.append((list(tensors), global_steps, last))

    asked: list[str] = []
    monkeypatch.setattr(ray, "get_actor", lambda name: asked.append(name) or SimpleNamespace(update_weights=Remote()))
    monkeypatch.setattr(rollout, "BUCKET_BYTES", 3000)
    adapter = object.__new__(rollout.ServerAdapter)
    adapter.replica_rank = 1
    weights = trainer_model(model_folder, seed=1).state_dict()
    asyncio.run(adapter.update_weights(iter(weights.items()), global_steps=4))
    assert asked == ["verl_hf_rollout_1"]
    assert [name for names, _, _ in sent for name in names] == list(weights)
    assert len(sent) > 2 and [last for _, _, last in sent] == [False] * (len(sent) - 1) + [True]
    assert {steps for _, steps, _ in sent} == {4}
    with pytest.raises(ValueError, match="delta_flush"):
        asyncio.run(adapter.update_weights(iter(()), wire_format="delta_flush"))
    with pytest.raises(ValueError, match=r"model.lora.merge=True"):
        asyncio.run(adapter.update_weights(iter(()), peft_config={"r": 8}))


def test_a_layout_the_backend_does_not_have_is_refused() -> None:
    from verl.workers.rollout.replica import RolloutMode

    from verl_hf.rollout import HfReplica

    replica = object.__new__(HfReplica)
    replica.world_size, replica.rollout_mode = 2, RolloutMode.HYBRID
    with pytest.raises(ValueError, match="tensor_model_parallel_size=1"):
        asyncio.run(replica.launch_servers())
    replica.world_size, replica.rollout_mode = 1, RolloutMode.STANDALONE
    with pytest.raises(ValueError, match="hybrid"):
        asyncio.run(replica.launch_servers())


@pytest.mark.parametrize(("gpus", "seen"), [(["3"], "3"), ([], None)])
def test_the_server_runs_beside_its_trainer_and_sees_the_same_gpu(
    monkeypatch: pytest.MonkeyPatch, gpus: list[str], seen: str | None
) -> None:
    from verl.workers.rollout.replica import RolloutMode

    from verl_hf import rollout

    async def place(_: Any) -> tuple[str, list[str]]:
        return "ab" * 28, gpus

    async def address() -> str:
        return "here"

    asked: dict[str, Any] = {}

    def options(**given: Any) -> SimpleNamespace:
        asked.update(given)
        server = SimpleNamespace(address=SimpleNamespace(remote=address))
        return SimpleNamespace(remote=lambda *_: server)

    monkeypatch.setattr(rollout.ray, "remote", lambda _: SimpleNamespace(options=options))
    monkeypatch.setattr(rollout.HfReplica, "max_concurrency", 8)
    replica = object.__new__(rollout.HfReplica)
    replica.world_size, replica.rollout_mode, replica.replica_rank = 1, RolloutMode.HYBRID, 0
    replica.workers = [SimpleNamespace(__ray_call__=SimpleNamespace(remote=place))]
    replica.config, replica.model_config = SimpleNamespace(), SimpleNamespace(path="m", get=lambda *_: False)
    asyncio.run(replica.launch_servers())
    assert asked["num_cpus"] == 0 and "num_gpus" not in asked and asked["scheduling_strategy"].node_id == "ab" * 28
    assert asked.get("runtime_env", {}).get("env_vars", {}).get("CUDA_VISIBLE_DEVICES") == seen


def test_the_server_answers_every_call_verl_makes_on_one() -> None:
    from verl.workers.rollout.replica import RolloutReplica

    from verl_hf.rollout import RolloutServer

    called = {
        word.split(".remote")[0].split(".")[-1]
        for word in inspect.getsource(RolloutReplica).split()
        if "server." in word and ".remote(" in word
    }
    assert {"wake_up", "sleep", "abort_all_requests"} <= called, "this test no longer finds verl's calls"
    assert not [name for name in called if not hasattr(RolloutServer, name)]


# -- what verl starts on a cluster (mvp_helpers/trainers/verl_actors.py)


def test_verls_actors_hold_the_cpus_that_the_feasibility_check_counts() -> None:
    from transfer_queue.controller import TransferQueueController
    from transfer_queue.storage.simple_storage import SimpleStorageUnit
    from verl.experimental.reward_loop.reward_manager.remote import RewardComputeWorker
    from verl.single_controller.ray.base import RayResourcePool, ResourcePoolManager
    from verl.trainer.main_ppo import TaskRunnerV1
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

    held = {
        actor.__ray_metadata__.class_name: actor._default_options.get("num_cpus")
        for actor in (TransferQueueController, SimpleStorageUnit, RewardComputeWorker, TaskRunnerV1, AgentLoopWorkerTQ)
    }
    assert held == {
        "TransferQueueController": 1,
        "SimpleStorageUnit": 1,
        "RewardComputeWorker": 1,
        "TaskRunnerV1": None,
        "AgentLoopWorkerTQ": None,
    }
    per_gpu = [inspect.signature(RayResourcePool).parameters["max_colocate_count"].default]
    per_gpu.append(ResourcePoolManager.__dataclass_fields__["max_colocate_count"].default)
    assert per_gpu == [10, 3], "cpus_per_process of the workloads for SFT and for PPO"


def test_the_composed_config_of_this_verl_has_the_keys_that_are_counted() -> None:
    import verl
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from mvp_helpers.trainers import verl_actors

    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        config = compose("ppo_trainer", ["actor_rollout_ref.rollout.name=vllm", "reward.num_workers=2", "trainer.nnodes=2"])
    resolved: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    found = {actors.what: (actors.count, actors.cpus) for actors in verl_actors.starts(resolved, 3).actors}
    assert found == {
        "task runner": (1, 0),
        "TransferQueue controller": (1, 1),
        "TransferQueue storage units": (8, 1),
        "vllm servers": (8, 0),  # 16 processes, two for each server
        "reward workers": (2, 0),
        "agent-loop workers": (8, 0),
    }


# -- the platform


def test_verl_runs_on_the_cpu_platform() -> None:
    import torch
    from omegaconf import OmegaConf
    from verl.plugin.platform import get_platform
    from verl.utils import device

    platform = get_platform()
    assert (platform.device_name, platform.communication_backend_name()) == ("cpu", "gloo")
    assert torch.zeros(1).to(device.get_device_id()).device.type == "cpu"
    assert platform.ray_resource_options(0.5) == {"num_cpus": 0.5} and platform.ray_resource_name() == "CPU"
    config = OmegaConf.create({"trainer": {"device": "cpu"}})
    device.auto_set_device(config)
    assert config.trainer.device == "cpu"


def test_the_device_module_answers_with_real_memory_and_random_state() -> None:
    import torch
    from verl.utils.device import get_torch_device

    module = get_torch_device()
    free, total = module.mem_get_info()
    assert 0 < free <= total and 0 < module.max_memory_allocated() < total
    state = module.get_rng_state()
    first = torch.rand(1)
    module.set_rng_state(state)
    assert torch.rand(1) == first
    assert module.empty_cache() is None and module.is_available()


def test_the_engines_are_found_for_the_cpu() -> None:
    from verl.workers.engine import EngineRegistry

    assert EngineRegistry.get_engine_cls("language_model", "fsdp2").__name__ == "FSDPEngineWithLMHead"
    assert EngineRegistry.get_engine_cls("value_model", "fsdp2").__name__ == "FSDPEngineWithValueHead"


def test_a_visible_gpu_another_platform_or_a_late_import_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from verl.plugin.platform import platform_cuda, platform_manager

    from verl_cpu import PluginError
    from verl_cpu.activation import activate

    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        with pytest.raises(PluginError, match="GPU is visible: unset VERL_USE_EXTERNAL_MODULES"):
            activate()
    with monkeypatch.context() as patch:
        patch.setenv("VERL_PLATFORM", "nvidia")
        with pytest.raises(PluginError, match="VERL_PLATFORM=nvidia"):
            activate()
    with monkeypatch.context() as patch:
        patch.setattr(platform_manager, "_current_platform", platform_cuda.PlatformCUDA())
        with pytest.raises(PluginError, match="verl already runs on 'cuda' in this process"):
            activate()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "verl.plugin.platform", None)
        with pytest.raises(PluginError, match="no platform registry"):
            activate()


# -- every patch is needed, and does what it says


def test_every_patch_has_a_test_here(patches: dict[str, Any]) -> None:
    assert list(patches) == PATCH_NAMES


def test_gloo_by_default(pristine: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import torch.distributed
    from verl.utils.distributed import initialize_global_process_group_ray

    monkeypatch.setenv("DIST_INIT_METHOD", f"file://{tmp_path}/store")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(ValueError, match=r"(?i)cpu"):
        pristine("verl.utils.distributed").initialize_global_process_group_ray()
    initialize_global_process_group_ray(timeout_second=None)
    try:
        assert torch.distributed.get_backend() == "gloo"
    finally:
        torch.distributed.destroy_process_group()
    assert inspect.signature(initialize_global_process_group_ray).parameters["timeout_second"].default is None


def test_critic_attention(pristine: Callable[[str], ModuleType], model_folder: Path) -> None:
    import torch
    from transformers import AutoConfig
    from verl.utils.model import load_valuehead_model

    config = AutoConfig.from_pretrained(model_folder, num_labels=1)
    with pytest.raises(RuntimeError, match="is not a value head model"):
        pristine("verl.utils.model").load_valuehead_model(str(model_folder), torch.float32, config, False)
    critic = load_valuehead_model(str(model_folder), torch.float32, config, False)
    again = load_valuehead_model(str(model_folder), torch.float32, config, False)
    assert critic.score.weight.equal(again.score.weight), "two runs begin with other critics"
    assert critic.config._attn_implementation == "sdpa"
    assert critic(torch.tensor([[5, 6, 7]])).logits.shape == (1, 3, 1)
    config._attn_implementation = "eager"
    assert load_valuehead_model(str(model_folder), torch.float32, config, False).config._attn_implementation == "eager"


def test_count_the_platforms_resource(pristine: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    import ray
    from verl.single_controller.ray.base import ResourcePoolManager

    name = "verl.single_controller.ray.base"
    nodes = {"head": {"memory": 1.0}, "worker": {"CPU": 2.0}}
    monkeypatch.setattr(ray._private.state, "available_resources_per_node", lambda: nodes)
    with pytest.raises(ValueError, match="Total available GPUs 0 is less than total desired GPUs 2"):
        pristine(name).ResourcePoolManager({"pool": [1, 1]}, {})._check_resource_available()
    ResourcePoolManager({"pool": [1, 1]}, {})._check_resource_available()
    with pytest.raises(ValueError, match="3 processes need one Ray CPU each, but only 2 are free"):
        ResourcePoolManager({"pool": [2, 1]}, {})._check_resource_available()


def test_unpinned_offload(pristine: Callable[[str], ModuleType]) -> None:
    import torch
    from torch.distributed.fsdp import CPUOffloadPolicy

    name = "verl.workers.engine.fsdp.transformer_impl"
    assert pristine(name).CPUOffloadPolicy(pin_memory=True).pin_memory
    with pytest.raises(RuntimeError):
        torch.empty(1).pin_memory()  # why it matters: there is no accelerator to pin for
    policy = importlib.import_module(name).CPUOffloadPolicy(pin_memory=True)
    assert isinstance(policy, CPUOffloadPolicy) and not policy.pin_memory
    assert CPUOffloadPolicy().pin_memory, "torch's own class must stay as it was"


def test_poll_faster(pristine: Callable[[str], ModuleType]) -> None:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

    from verl_hf.patches import POLL_SECONDS

    needed: dict[str, Any] = {"trainer_mode": "sync", "trainer_config": {}, "sampler_kwargs": {}}
    needed |= {"max_off_policy_threshold": 8, "max_off_policy_strategy": "drop"}
    assert pristine("verl.trainer.ppo.v1.replay_buffer").ReplayBuffer(**needed).poll_interval == 2.0
    for buffer in (ReplayBuffer(**needed), ReplayBufferAsync(**needed)):
        assert (buffer.poll_interval, buffer.max_inflight_gen_batches, buffer.sync_refill_failed_groups) == (
            POLL_SECONDS,
            1,
            False,
        )


def test_rollout_class(pristine: Callable[[str], ModuleType]) -> None:
    from verl.workers.rollout.base import get_rollout_class

    from verl_hf.rollout import ServerAdapter

    with pytest.raises(AssertionError, match="Rollout hf with mode async not found"):
        pristine("verl.workers.rollout.base").get_rollout_class("hf")
    assert get_rollout_class("hf") is ServerAdapter


def test_rollout_replica(pristine: Callable[[str], ModuleType]) -> None:
    from verl.workers.rollout.replica import get_rollout_replica_class

    from verl_hf.rollout import HfReplica

    with pytest.raises(ValueError, match="Unknown rollout mode: hf"):
        pristine("verl.workers.rollout.replica").get_rollout_replica_class("hf")
    assert get_rollout_replica_class("hf") is HfReplica


def test_ids_in_order(pristine: Callable[[str], ModuleType], patches: dict[str, Any]) -> None:
    name = "verl.trainer.ppo.v1.trainer_base"

    def ids(module: Any, step: int) -> list[str]:
        data = iter([{"raw_prompt": ["a", "b", "c"]}])
        trainer = SimpleNamespace(train_dataloader_it=data, global_steps=step)
        return [str(each) for each in module.PPOTrainer._fetch_one_gen_batch(trainer)["uid"]]

    assert ids(pristine(name), 1) != ids(pristine(name), 1)
    ours = importlib.import_module(name)
    first, refill, second = ids(ours, 900), ids(ours, 900), ids(ours, 901)
    drawn = first + refill + second
    resumed = pristine(name)
    patches["ids in order"](resumed)
    assert drawn == sorted(drawn) and len({*drawn}) == 9 and not any("_" in each for each in drawn)
    assert ids(resumed, 901) == second, "a resumed run has the ids of one that was not interrupted"


def test_order_of_a_batch(pristine: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    name = "verl.trainer.ppo.v1.replay_buffer"
    ready = {f"{uid}_{session}_0": {"seq_len": session} for uid, session in (("2", 1), ("1", 1), ("2", 0), ("1", 0), ("3", 0))}

    def keys(module: Any) -> list[str]:
        monkeypatch.setattr(module.tq, "kv_clear", lambda **_: None)
        batch = module.ReplayBuffer._materialize_batch(SimpleNamespace(), "train", ["2", "1"], ready)
        assert [tag["seq_len"] for tag in batch.tags] == [int(key.split("_")[1]) for key in batch.keys]
        return list(batch.keys)

    assert keys(pristine(name)) == ["2_1_0", "1_1_0", "2_0_0", "1_0_0"]
    assert keys(importlib.import_module(name)) == ["1_0_0", "1_1_0", "2_0_0", "2_1_0"]


def test_seed_of_a_request(pristine: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    name = "verl.experimental.agent_loop.agent_loop"
    asked: dict[str, Any] = {"temperature": 1.0}

    def seed(module: Any, own: int = 7, **place: Any) -> Any:
        """What the loop that answers is given; ``own`` is the configured seed."""
        given: list[dict[str, Any]] = []

        async def run(params: dict[str, Any], **_: Any) -> None:
            given.append(params)

        monkeypatch.setitem(module._agent_loop_registry, "loop", {})
        monkeypatch.setattr(module.hydra.utils, "instantiate", lambda **_: SimpleNamespace(run=run))
        config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(seed=own)), data=None)
        worker = SimpleNamespace(config=config, _agent_loop_postprocess=lambda *_, **__: asyncio.sleep(0))
        for other in ("llm_client", "tokenizer", "processor", "hf_model_type", "dataset_cls", "tools"):
            setattr(worker, other, None)
        trajectory = {"step": 1, "sample_index": 0, "rollout_n": 0, "validate": False}
        place = {"uid": "1", "session_id": 0} | place
        asyncio.run(module.AgentLoopWorker._run_agent_loop(worker, asked, trajectory, agent_name="loop", trace=False, **place))
        return given[0].get("seed")

    assert seed(pristine(name)) is None
    ours = importlib.import_module(name)
    assert seed(ours) == seed(ours) is not None and asked == {"temperature": 1.0}
    changed = [{"own": 8}, {"uid": "2"}, {"session_id": 1}, {"priority": 1}]
    assert len({seed(ours), *(seed(ours, **change) for change in changed)}) == 1 + len(changed)


# -- no patch goes on where verl has changed


def stub(folder: Path, symbol: str, parameters: tuple[str, ...], body: str) -> str:
    """Write a module with only ``symbol`` in it, as another verl might have it; returns its name."""
    *classes, function = symbol.split(".")
    lines = [f"{'    ' * depth}class {name}:" for depth, name in enumerate(classes)]
    indent = "    " * len(classes)
    lines += [f"{indent}def {function}({', '.join(parameters)}):", f"{indent}    # {body}", f"{indent}    pass"]
    name = f"doctored_{abs(hash((symbol, parameters, body)))}"
    (folder / f"{name}.py").write_text("\n".join(lines) + "\n")
    return name


@pytest.mark.parametrize("name", PATCH_NAMES)
def test_a_changed_verl_stops_the_patch(
    patches: dict[str, Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import verl

    from verl_hf.errors import PatchError

    patch = patches[name]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(verl, "__version__", "0.99.0")
    same = importlib.import_module(stub(tmp_path, patch.symbol, patch.parameters, patch.fragment))
    patch.check(same)  # the control: what follows fails for the reason given

    doctored = {
        "is gone": ("something_else", patch.parameters, patch.fragment),
        "has no parameter": (patch.symbol, ("other",), patch.fragment),
        "no longer contains": (patch.symbol, patch.parameters, "rewritten"),
    }
    for what, (symbol, parameters, body) in doctored.items():
        module = importlib.import_module(stub(tmp_path, symbol, parameters, body))
        before = dict(vars(module))
        with pytest.raises(PatchError) as caught:
            patch(module)
        message = str(caught.value)
        assert what in message and f"patch '{name}': in verl 0.99.0, {patch.module}.{patch.symbol}" in message, message
        assert patch.where in message and "Use verl 0.9.1" in message, message
        assert dict(vars(module)) == before, "the module was touched"


def test_the_check_sees_through_a_symbol_without_source(patches: dict[str, Any]) -> None:
    from verl_hf.errors import PatchError

    module = ModuleType("compiled")
    module.load_valuehead_model = len  # type: ignore[attr-defined]
    with pytest.raises(PatchError, match=r"cannot be inspected|has no parameter"):
        patches["critic attention"](module)


def test_a_patch_error_ends_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mvp_verl.imports import after_import
    from verl_hf.errors import PatchError

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late_module.py").write_text("value = 1\n")
    seen: list[int] = []

    def refuse(module: ModuleType) -> None:
        seen.append(module.value)
        raise PatchError("changed")

    after_import("late_module", refuse)
    for _ in range(2):
        with pytest.raises(PatchError, match="changed"):
            importlib.import_module("late_module")
    assert seen == [1, 1] and "late_module" not in sys.modules
    assert not issubclass(PatchError, ImportError), "verl takes an ImportError for a missing optional part and goes on"


# -- how it is loaded and checked (what happens without it: tests/bats/verl_cpu.bats)


def test_the_plugin_for_gpus_adds_the_rollout_only_and_wants_verls_own_platform(
    monkeypatch: pytest.MonkeyPatch, plugin: None
) -> None:
    from verl_hf import patches as shared
    from verl_hf import patching
    from verl_hf.errors import PluginError

    armed: list[str] = []
    monkeypatch.setattr(patching, "arm", lambda patches: armed.extend(patch.name for patch in patches))
    monkeypatch.delitem(sys.modules, "verl_hf.plugin", raising=False)
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    with pytest.raises(PluginError, match="VERL_PLATFORM=cpu: set VERL_PLATFORM=nvidia"):
        importlib.import_module("verl_hf.plugin")
    monkeypatch.setenv("VERL_PLATFORM", "nvidia")
    importlib.import_module("verl_hf.plugin")
    assert armed == [patch.name for patch in shared.PATCHES] == PATCH_NAMES[3:]


def test_the_plugin_is_no_installed_entry_point() -> None:
    points = importlib.metadata.entry_points(group="verl.plugins")
    assert not [point for point in points if point.value.startswith(("verl_cpu", "verl_hf"))], (
        "verl would load it in every run, GPU runs too"
    )


def test_the_check_command_counts_the_patches_that_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from verl_cpu import __main__
    from verl_hf.errors import PatchError

    assert __main__.main() == 0
    assert "10 of 10 patches fit" in capsys.readouterr().out

    def misfit(module: str) -> ModuleType:
        if module == "verl.utils.model":
            raise PatchError("changed")
        return ModuleType(module)

    monkeypatch.setattr(__main__.importlib, "import_module", misfit)
    assert __main__.main() == 1
    shown = capsys.readouterr()
    assert "9 of 10 patches fit" in shown.out and "failed: changed" in shown.err
