"""The config keys of verl that the toolkit reads."""

from __future__ import annotations

from typing import Any

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.trainers import verl_config
from mvp_helpers.trainers.verl_config import Settings


def test_a_config_without_the_keys_says_nothing() -> None:
    assert verl_config.settings({}, "x") == Settings()


def test_the_settings_are_those_of_the_config() -> None:
    trainer = {"nnodes": 2, "n_gpus_per_node": 4, "save_freq": -1, "total_epochs": 3, "total_training_steps": None}
    assert verl_config.settings({"trainer": trainer, "data": {"train_batch_size": 8}}, "x") == Settings(
        nnodes=2, processes_per_node=4, save_freq=-1, total_epochs=3, train_batch_size=8
    )


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ({"nnodes": "two"}, "x: trainer.nnodes must be a whole number from 1 to 10000, not 'two'"),
        ({"nnodes": 0}, "trainer.nnodes must be a whole number from 1 to 10000, not 0"),
        ({"n_gpus_per_node": True}, "trainer.n_gpus_per_node must be a whole number from 1 to 10000, not True"),
        ({"total_epochs": 1.5}, "trainer.total_epochs must be a whole number from 1 to 1000000000, not 1.5"),
        ({"total_training_steps": "${oc.env:STEPS}"}, "must be a whole number from 1 to 1000000000, not '${oc.env:STEPS}'"),
    ],
)
def test_a_value_that_verl_cannot_use_is_refused(trainer: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        verl_config.settings({"trainer": trainer}, "x")
    assert message in caught.value.what


def test_a_save_frequency_in_words_is_left_to_the_trainer() -> None:
    assert verl_config.settings({"trainer": {"save_freq": "after_each_epoch"}}, "x").save_freq is None


@pytest.mark.parametrize(
    ("limit", "epochs", "batch", "steps"), [(None, 2, 8, 4), (3, 2, 8, 3), (None, 1, 32, 0), (None, 1, None, None)]
)
def test_steps_are_whole_batches_times_epochs_or_verls_own_limit(
    limit: int | None, epochs: int, batch: int | None, steps: int | None
) -> None:
    assert verl_config.steps_total(limit, epochs, batch, 20) == steps
    assert verl_config.steps_total(limit, epochs, batch, None) == limit


@pytest.mark.parametrize(
    ("config", "one_by_one"),
    [
        ({}, True),
        ({"reward": {"reward_manager": {"name": "dapo"}}}, True),
        ({"reward": {"reward_manager": {"name": "prime"}}}, False),
        ({"reward_model": {"reward_manager": "batch"}, "reward": {"reward_manager": {"name": "naive"}}}, False),
        ({"reward": {"reward_model": {"enable": True}}}, False),
    ],
)
def test_the_reward_manager_decides_how_the_function_is_called(config: dict[str, Any], one_by_one: bool) -> None:
    assert verl_config.calls_reward_one_by_one(config) is one_by_one


def test_a_path_with_two_step_folders_is_misread() -> None:
    assert not verl_config.misreads_step("/jobs/a/checkpoints/global_step_3")
    assert verl_config.misreads_step("/jobs/global_step_9/checkpoints/global_step_3")
