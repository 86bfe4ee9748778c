"""verl: its launch, config, GPUs, checkpoints and log, assembled from the modules that know each of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..base.errors import BadInput, Blocked
from . import hydra, metric_names, verl_checkpoints
from .launch_preview import Launch
from .patterns import of_trainers
from .trainer import Composed, Gpus, Outputs, Role, Trainer

MODULE = "verl.trainer.main_ppo"
CONFIG_FOLDER = "verl/trainer/config"
DEFAULT_CONFIG = "ppo_trainer"
MODELS = ("actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic")
"""Config keys of the models that Megatron may split."""
TRAINED = {"actor": "actor_rollout_ref.actor", "critic": "critic"}
"""The config keys of the models that are trained, by the folders of their checkpoints."""
LORA_RANKS = {
    "actor": ("actor_rollout_ref.model.lora.rank", "actor_rollout_ref.model.lora_rank"),
    "critic": ("critic.model.lora.rank", "critic.model.lora_rank"),
}
LOSSES = {"actor": r"^actor/(pg_)?loss$", "critic": r"^critic/(vf_)?loss$"}


class Verl(Trainer):
    name = "verl"
    lines = of_trainers.VERL
    metrics = metric_names.VERL
    deliverables: ClassVar = {"imports": "Local Bridge import in verl", "run": "verl Megatron backend run"}
    missing_interpreter = "install uv, or set VERL_USE_UV=0 where the image's own Python has every package"

    def is_launch(self, argv: Sequence[str]) -> bool:
        return any(pair == ("-m", MODULE) for pair in itertools.pairwise(argv))

    def interpreter(self, launch: Launch) -> list[str]:
        return launch.argv[: launch.argv.index("-m")]

    def output_arguments(self, outputs: Outputs) -> list[str]:
        return [f"trainer.default_local_dir={outputs.checkpoints}", f"hydra.run.dir={outputs.scratch}"]

    def compose(self, launch: Launch, checkout: Path) -> Composed:
        arguments = launch.argv[launch.argv.index(MODULE) + 1 :]
        named = [text.partition("=")[2] for text in arguments if text.startswith("--config-name=")]
        name = named[-1].removesuffix(".yaml") if named else DEFAULT_CONFIG
        overrides = [text for text in arguments if not text.startswith("-")]
        try:
            return Composed(hydra.compose(checkout / CONFIG_FOLDER, name, overrides))
        except (BadInput, Blocked) as error:
            return Composed(problems=[error.what])

    def gpus(self, config: Mapping[str, Any]) -> Gpus:
        given = hydra.size(config, "trainer.n_gpus_per_node") * hydra.size(config, "trainer.nnodes")
        roles = [_megatron(config, key, given) for key in MODELS]
        inference = "actor_rollout_ref.rollout.tensor_model_parallel_size"
        tp = hydra.size(config, inference)
        return Gpus([*roles, Role("rollout", given, {inference: tp} if tp > 1 else {}, tp)])

    def trained_models(self, config: Mapping[str, Any]) -> list[str]:
        enabled = hydra.select(config, "critic.enable")
        has_critic = hydra.select(config, "algorithm.adv_estimator") == "gae" if enabled is None else bool(enabled)
        return ["actor", "critic"] if has_critic else ["actor"]

    def adapter_models(self, config: Mapping[str, Any]) -> list[str]:
        # Only verl's Megatron engine counts them in the log.
        return [
            model
            for model in self.trained_models(config)
            if hydra.select(config, f"{TRAINED[model]}.strategy") == "megatron"
            and any(hydra.select(config, key) for key in LORA_RANKS[model])
        ]

    def losses(self, config: Mapping[str, Any]) -> dict[str, str]:
        return {model: LOSSES[model] for model in self.trained_models(config)}

    def gradients(self, config: Mapping[str, Any]) -> dict[str, str]:
        return {model: f"^{model}/grad_norm$" for model in self.trained_models(config)}

    def ray_init(self, config: Mapping[str, Any], pythonpath: str) -> dict[str, Any]:
        given = (config.get("ray_kwargs") or {}).get("ray_init") or {}
        runtime_env = {key: value for key, value in (given.get("runtime_env") or {}).items() if value is not None}
        # Ray's workers do not inherit the shell's PYTHONPATH.
        variables = {"PYTHONPATH": pythonpath, **(runtime_env.get("env_vars") or {})}
        return {"runtime_env": {**runtime_env, "env_vars": variables}}

    def checkpoint_problem(self, folder: Path, step: int, config: Mapping[str, Any]) -> str:
        contents = {}
        for model in self.trained_models(config):
            contents[model] = list(hydra.select(config, f"{TRAINED[model]}.checkpoint.save_contents") or [])
            # Its older layout keeps the model beside the other kinds only with Megatron's own format.
            if "model" in contents[model] and hydra.select(config, f"{TRAINED[model]}.megatron.use_dist_checkpointing") is False:
                contents[model].append(verl_checkpoints.HF_MODEL)
        return verl_checkpoints.problem(folder, step, contents)

    def environment_problems(self, env: Mapping[str, str]) -> list[str]:
        if env.get("ROCR_VISIBLE_DEVICES") is None:
            return []
        beside = next((name for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if env.get(name)), "")
        refused = f"ROCR_VISIBLE_DEVICES is set beside {beside}: verl's workers refuse to start; unset ROCR_VISIBLE_DEVICES"
        return [refused] if beside else []


def _megatron(config: Mapping[str, Any], model: str, gpus: int) -> Role:
    """Return what Megatron's sizes need: the dense part TP·PP·CP, and its experts, spread over the same GPUs, EP·ETP·PP."""
    keys = {
        short: f"{model}.megatron.{name}_parallel_size"
        for short, name in {
            "tp": "tensor_model",
            "pp": "pipeline_model",
            "cp": "context",
            "ep": "expert_model",
            "etp": "expert_tensor",
        }.items()
    }
    size = {short: hydra.size(config, key) for short, key in keys.items()}
    if hydra.select(config, keys["etp"]) is None:
        size["etp"] = size["tp"] if size["ep"] > 1 else 1  # Megatron's own default
    dense, expert = size["tp"] * size["pp"] * size["cp"], size["ep"] * size["etp"]
    multiple = math.lcm(dense, expert * size["pp"] if expert > 1 else 1)
    return Role(model, gpus, {keys[short]: value for short, value in size.items() if value > 1}, multiple)


TRAINER = Verl()
