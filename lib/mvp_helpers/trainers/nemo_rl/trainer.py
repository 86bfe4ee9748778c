"""NeMo-RL: its launch, config, GPUs, checkpoints, metrics file and log, as its own functional tests start it."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from ...base.errors import BadInput, Blocked
from .. import hydra, metric_names
from ..launch_preview import Launch
from ..patterns import of_trainers
from ..patterns.lines import LineKind
from ..trainer import Composed, Gpus, Metrics, Outputs, Role, Trainer
from . import config as own_config
from . import refit

SCRIPT = re.compile(r"(?:^|/)examples/run_\w+\.py$")
DEFAULT_CONFIGS = {"run_grpo.py": "grpo_math_1B.yaml", "run_sft.py": "sft.yaml", "run_vlm_grpo.py": "vlm_grpo_3B.yaml"}
"""What each script reads from examples/configs without --config."""
WORKER = "python-MegatronPolicyWorker"
"""The policy worker's Python in NeMo-RL's own images."""
WORKER_ENVIRONMENT = "nemo_rl.models.policy.workers.megatron_policy_worker.MegatronPolicyWorker"
"""The folder in which NeMo-RL makes that worker's environment elsewhere."""
DUMP, CHECK = "json_dump_tb_logs.py", "check_metrics.py"
TRAINED, MACHINE = "train/", "ray/"
"""Metrics of a step of training, and of the machine, which have steps of their own."""
GUARDED = 4
"""From this tensor parallel size on NeMo-RL requires micro batches of one size, for training and for log-probabilities."""
MASKS = {
    "NRL_IGNORE_TP_ACCURACY_CHECK": "it switches off the check that batches of different sizes give the same log-probabilities"
}
_LEG = r"^(?:\[[\w ]+\] )?"


class NemoRl(Trainer):
    name = "nemo_rl"
    # A script that starts several trainings names each before its lines; one of them ends when it must have saved.
    lines = replace(
        of_trainers.NEMO_RL,
        finished=(LineKind(("has been reached",), _LEG + r"(?:Max number of (?:steps|epochs)|Timeout) has been reached"),),
    )
    metrics = metric_names.NEMO_RL
    deliverables: ClassVar = {
        "imports": "Local Bridge import in NeMo-RL",
        "run": "NeMo-RL Megatron policy run",
        "logs": "Metrics/log capture",
    }
    missing_interpreter = f"install uv, or start it in NeMo-RL's image, which has {WORKER}"

    def is_launch(self, argv: Sequence[str]) -> bool:
        return any(SCRIPT.search(word) for word in argv)

    def interpreter(self, launch: Launch) -> list[str]:
        # Policy workers have an environment of their own, in which the driver's packages prove nothing.
        if launch.env.get("NEMO_RL_PY_EXECUTABLES_SYSTEM") == "1":
            return ["uv", "run", "python"]
        if worker := shutil.which(WORKER, path=launch.env.get("PATH")):
            return [worker]
        made = Path(launch.env.get("NEMO_RL_VENV_DIR") or launch.cwd / "venvs") / WORKER_ENVIRONMENT / "bin/python"
        if made.exists():
            return [str(made)]
        return ["uv", "run", "--locked", "--extra", "mcore", "--directory", str(launch.cwd), "python"]

    def output_arguments(self, outputs: Outputs) -> list[str]:
        # Events and metrics stay where the script looks for them: below tests/functional, which the checkout ignores.
        return [f"checkpointing.checkpoint_dir={outputs.checkpoints}"]

    def compose(self, launch: Launch, checkout: Path) -> Composed:
        at = next(at for at, word in enumerate(launch.argv) if SCRIPT.search(word))
        words, config, overrides = iter(launch.argv[at + 1 :]), "", []
        for word in words:
            if word == "--config":
                config = next(words, "")
            elif word.startswith("--config="):
                config = word.partition("=")[2]
            else:
                overrides.append(word)
        default = DEFAULT_CONFIGS.get(Path(launch.argv[at]).name, "")
        if not config and not default:
            return Composed(problems=[f"{launch.argv[at]} is started without --config"])
        file = launch.cwd / config if config else checkout / "examples/configs" / default
        try:
            return own_config.compose(checkout, file, overrides)
        except Blocked as error:
            return Composed(problems=[error.what])

    def printed_configs(self, log: Path) -> list[dict[str, Any]] | None:
        return own_config.printed(log)

    def gpus(self, config: Mapping[str, Any]) -> Gpus:
        total = hydra.size(config, "cluster.gpus_per_node") * hydra.size(config, "cluster.num_nodes")
        generation = hydra.select(config, "policy.generation.colocated") or {}
        if generation.get("enabled", True):
            return Gpus([_policy(config, total)])
        resources = "policy.generation.colocated.resources"
        own = hydra.size(config, f"{resources}.gpus_per_node") * hydra.size(config, f"{resources}.num_nodes")
        if own >= total:
            raise BadInput(f"{resources}: {own} GPUs of {total} generate, so that none is left to train")
        tp = "policy.generation.vllm_cfg.tensor_parallel_size"
        return Gpus(
            [
                _policy(config, total - own),
                Role("generation", own, {tp: size} if (size := hydra.size(config, tp)) > 1 else {}, size),
            ],
            colocated=False,
        )

    def refusals(self, config: Mapping[str, Any]) -> list[str]:
        megatron = hydra.select(config, "policy.megatron_cfg.enabled")
        key = "policy.megatron_cfg.tensor_model_parallel_size" if megatron else "policy.dtensor_cfg.tensor_parallel_size"
        batches = {name: hydra.select(config, f"policy.{name}") for name in ("train_micro_batch_size", "logprob_batch_size")}
        if hydra.size(config, key) < GUARDED or batches["logprob_batch_size"] is None or len(set(batches.values())) == 1:
            return []
        shown = " and ".join(f"policy.{name}={value}" for name, value in batches.items())
        return [f"{key}={hydra.size(config, key)} needs {shown} to be equal: set both, or a size of 1 or 2"]

    def trained_models(self, config: Mapping[str, Any]) -> list[str]:
        return ["policy"]

    def gradients(self, config: Mapping[str, Any]) -> dict[str, str]:
        return {"policy": "^train/grad_norm$"}

    def ray_init(self, config: Mapping[str, Any], pythonpath: str) -> dict[str, Any]:
        # init_ray hands the driver's whole environment to the workers.
        return {"runtime_env": {"env_vars": {"PYTHONPATH": pythonpath}}}

    def checkpoint_problem(self, folder: Path, step: int, config: Mapping[str, Any]) -> str:
        checkpoint = folder / f"step_{step}"
        try:
            json.loads((checkpoint / "training_info.json").read_bytes())
        except (OSError, ValueError) as error:
            return f"{checkpoint}/training_info.json: {error}"
        weights = checkpoint / "policy" / "weights"
        if not any(file.is_file() and file.stat().st_size for file in weights.rglob("*")):
            return f"{weights} is missing or empty"
        return ""

    def training(self, metrics: Metrics) -> Metrics:
        # Step 0 is the validation before the training.
        return {
            step: {name: value for name, value in values.items() if not name.startswith(MACHINE)}
            for step, values in metrics.items()
            if not step or any(name.startswith(TRAINED) for name in values)
        }

    def reports(self, metrics: Metrics, config: Mapping[str, Any]) -> list[str]:
        separate = hydra.select(config, "policy.generation.colocated.enabled") is False
        return refit.sentences(metrics) if separate else []

    def metrics_file(self, launch: Launch, config: Mapping[str, Any]) -> Path | None:
        dump = next((argv for argv in launch.after if any(word.endswith(DUMP) for word in argv)), [])
        file = dump[dump.index("--output_path") + 1] if "--output_path" in dump[:-1] else "metrics.json"
        return launch.cwd / file

    def read_metrics(self, file: Path) -> Metrics:
        steps: Metrics = {}
        try:
            for name, series in json.loads(file.read_bytes()).items():
                for step, value in series.items():
                    steps.setdefault(int(step), {})[name] = float(value)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise BadInput(f"{file} is not a file of metrics by name and step: {error}") from None
        return steps

    def assertions(self, launch: Launch) -> list[str]:
        check = next((argv for argv in launch.after if any(word.endswith(CHECK) for word in argv)), [])
        at = next((at for at, word in enumerate(check) if word.endswith(CHECK)), 0)
        words, texts = iter(check[at + 2 :]), []
        for word in words:
            if word == "--table-width":
                next(words, "")
            elif not word.startswith("--table-width="):
                texts.append(word)
        return texts

    def artifacts(self, launch: Launch, config: Mapping[str, Any]) -> list[Path]:
        file, events = self.metrics_file(launch, config), hydra.select(config, "logger.log_dir")
        logs = sorted(file.parent.glob("run.log*")) if file else []
        return [*logs, *sorted((launch.cwd / str(events)).rglob("*tfevents*") if events else [])]

    def environment_problems(self, env: Mapping[str, str]) -> list[str]:
        return [
            f"{name}={env[name]} is set: {why}, so no run with it is evidence; unset it"
            for name, why in MASKS.items()
            if env.get(name)
        ]


def _policy(config: Mapping[str, Any], gpus: int) -> Role:
    """Return what the parallel sizes of the policy need: of Megatron's, when that is on, else of DTensor's."""
    megatron = hydra.select(config, "policy.megatron_cfg.enabled")
    section = "policy.megatron_cfg" if megatron else "policy.dtensor_cfg"
    names = ("tensor_model", "pipeline_model", "context", "expert_model", "expert_tensor") if megatron else ("tensor", "context")
    sizes = {f"{section}.{name}_parallel_size": hydra.size(config, f"{section}.{name}_parallel_size") for name in names}
    if not megatron:
        return Role("policy", gpus, {key: size for key, size in sizes.items() if size > 1}, math.prod(sizes.values()))
    tp, pp, cp, ep, etp = sizes.values()
    return Role(
        "policy",
        gpus,
        {key: size for key, size in sizes.items() if size > 1},
        math.lcm(tp * pp * cp, ep * etp * pp if ep > 1 else 1),
    )


TRAINER = NemoRl()
