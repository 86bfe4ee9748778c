"""verl as a trainer: what its config means for GPUs and adapters, and what its arguments mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.trainers import trainer
from mvp_helpers.trainers.trainer import Outputs

VERL = trainer.load("verl")


def config(gpus: Any = 8, rollout: int = 1, **sizes: Any) -> dict[str, Any]:
    megatron = {f"{name}_parallel_size": value for name, value in sizes.items()}
    return {
        "trainer": {"n_gpus_per_node": gpus, "nnodes": 1},
        "actor_rollout_ref": {"actor": {"megatron": megatron}, "rollout": {"tensor_model_parallel_size": rollout}},
    }


@pytest.mark.parametrize(
    ("sizes", "multiple"),
    [
        ({}, 1),
        ({"tensor_model": 2, "pipeline_model": 2, "rollout": 2}, 4),
        ({"expert_model": 2, "expert_tensor": 1}, 2),
        ({"expert_model": 2, "tensor_model": 2}, 4),
        ({"expert_model": 2, "expert_tensor": 2, "pipeline_model": 2}, 8),
        ({"tensor_model": 2, "rollout": 4}, 4),
        ({"tensor_model": 2, "context": 3}, 6),
    ],
)
def test_gpus_must_be_a_multiple_of_what_the_parallel_sizes_need(sizes: dict[str, int], multiple: int) -> None:
    assert not VERL.gpus(config(gpus=multiple, **sizes)).problem()
    assert VERL.gpus(config(gpus=multiple + 1, **sizes)).problem() or multiple == 1


def test_gpus_name_the_sizes_and_a_size_that_is_not_a_number_is_refused() -> None:
    needed = VERL.gpus(config(gpus=3, tensor_model=2))
    words = "3 GPUs are not a multiple of 2 (actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2)"
    assert needed.problem() == words and needed.total == 3
    for bad in ("two", 0, True):
        with pytest.raises(BadInput, match="is not a number of GPUs"):
            VERL.gpus(config(gpus=bad))


def test_an_argument_is_a_key_and_a_value() -> None:
    assert VERL.setting("++a.b=1=2") == ("a.b", "1=2") and VERL.setting("~a.b") == ("a.b", "")
    with pytest.raises(BadInput, match="'nothing' is not key=value"):
        VERL.setting("nothing")


def trained(critic: dict[str, object], **actor: object) -> dict[str, object]:
    both = {"actor": {"strategy": "megatron"}, "model": actor}
    return {"actor_rollout_ref": both, "critic": {"strategy": "megatron", **critic}, "algorithm": {"adv_estimator": "gae"}}


def test_models_are_trained_and_adapters_only_where_a_rank_is_set() -> None:
    lora = trained({"model": {"lora": {"rank": 4}}}, lora={"rank": 4})
    assert VERL.trained_models(lora) == ["actor", "critic"] == VERL.adapter_models(lora)
    assert set(VERL.losses(lora)) == {"actor", "critic"}
    assert VERL.adapter_models(trained({}, lora_rank=8)) == ["actor"]
    assert VERL.adapter_models(trained({}, lora={"rank": 0}, lora_rank=0)) == []
    assert VERL.trained_models(trained({"enable": False}, lora_rank=8)) == ["actor"]
    grpo = {**lora, "algorithm": {"adv_estimator": "grpo"}}
    assert VERL.trained_models(grpo) == ["actor"] == VERL.adapter_models(grpo)


def test_what_verl_says_about_a_checkpoint_is_known() -> None:
    import re

    read = re.search(
        str(VERL.lines.optimizer_read), "INFO:[Rank 0] Loaded optimizer checkpoint from /c/global_step_1/actor/optimizer"
    )
    assert read and read.group("model", "step") == ("actor", "1")
    assert re.search(
        VERL.lines.optimizer_read, "[Rank 0] Loaded optimizer from /c/global_step_1/actor/optim_world_size_1_rank_0.pt"
    )
    for line in (
        "Training from scratch",
        "No checkpoint found",
        "Warning: No dataloader state found at /x, will start from scratch",
    ):
        assert re.search(VERL.lines.from_scratch, line), line


def test_log_probabilities_are_those_that_verl_logs() -> None:
    import re

    for name in ("training/rollout_probs_diff_mean", "rollout_corr/training_log_ppl", "actor/old_log_prob"):
        assert re.search(VERL.metrics.logprobs, name), name
    for name in ("training/rollout_probs_diff_valid", "timing_s/old_log_prob", "rollout_corr/log_ppl_diff"):
        assert not re.search(VERL.metrics.logprobs, name), name


def test_ray_starts_as_the_config_says_with_the_path_of_the_launch() -> None:
    own = {"ray_kwargs": {"ray_init": {"num_cpus": 8, "runtime_env": {"py_executable": None, "env_vars": {"A": "1"}}}}}
    assert VERL.ray_init(own, "/x") == {"runtime_env": {"env_vars": {"PYTHONPATH": "/x", "A": "1"}}}
    own["ray_kwargs"]["ray_init"]["runtime_env"]["env_vars"]["PYTHONPATH"] = "/own"  # type: ignore[index]
    assert VERL.ray_init(own, "/x")["runtime_env"]["env_vars"]["PYTHONPATH"] == "/own"


def test_a_training_writes_where_it_is_told() -> None:
    outputs = Outputs(checkpoints=Path("/run/checkpoints"), scratch=Path("/run/out"))
    assert VERL.output_arguments(outputs) == ["trainer.default_local_dir=/run/checkpoints", "hydra.run.dir=/run/out"]


def test_a_trainer_is_found_by_name_or_file_and_a_mistake_is_named(tmp_path: Path) -> None:
    assert "verl" in trainer.names()
    for text, words in (("1/0\n", "ZeroDivisionError"), ("TRAINER = 1\n", "has no TRAINER")):
        (tmp_path / "mine.py").write_text(text)
        with pytest.raises(BadInput, match=words):
            trainer.load(str(tmp_path / "mine.py"))
