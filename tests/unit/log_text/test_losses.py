"""Losses that no optimizer has moved, and those that only look alike."""

from __future__ import annotations

import pytest

from mvp_helpers.log_text.losses import MOST, Losses

EPOCH = ["0.9741", "1.3742", "1.2390", "0.9670", "1.0386"]
FIRST = "'loss': {}, 'grad_norm': 0.5"


def repeated(*losses: str, text: str = FIRST) -> str:
    found = Losses()
    for loss in losses:
        found.add(text.format(loss))
    return found.repeated


@pytest.mark.parametrize(
    "text",
    [
        FIRST,
        "Loss: {}, acc: 0.5",
        "train Loss: {} Acc: 0.8",
        "Loss {} (0.5)",
        "train_loss={} val_loss=0.1",
        '"loss": "{}"',
        "avg loss: {}",
        "train/loss:{}",
    ],
)
def test_equal_losses_of_every_step_or_epoch_show_that_nothing_was_updated(text: str) -> None:
    assert repeated(*["0.6931"] * 4, text=text) == "loss is 0.6931 in all 4 steps: nothing was updated"
    said = "loss of 5 steps (0.9741, 1.3742, 1.2390, …) comes again after them, to the last digit: nothing was updated"
    assert repeated(*EPOCH, *EPOCH[:4], text=text) == repeated(*EPOCH * 3, text=text) == said


@pytest.mark.parametrize(
    "losses",
    [
        EPOCH,
        ["0.6931"] * 3,
        ["0.12"] * 9,  # rounded
        ["0.0"] * 9,
        ["-1.0000"] * 9,  # of a pipeline's stage that has no loss
        [*EPOCH, *EPOCH[:3], "0.9671"],
        [*EPOCH, *EPOCH[:3]],
        ["1.2345", "1.2345", "1.2344", "1.2343"],
    ],
)
def test_losses_that_may_be_of_a_training_say_nothing(losses: list[str]) -> None:
    assert not repeated(*losses)


def test_losses_of_an_evaluation_and_of_a_policy_are_not_compared() -> None:
    for name in ("val_loss", "eval_loss", "actor/pg_loss", "kl_loss"):
        assert not repeated(*["0.6931"] * 9, text=name + ": {}")


def test_without_a_training_loss_the_first_gradient_counts() -> None:
    text = "critic/grad_norm:{} - actor/pg_loss:0.0 - actor/grad_norm:0.5"
    assert (
        repeated(*["0.8376790285110474"] * 4, text=text) == "grad_norm is 0.8376790285110474 in all 4 steps: nothing was updated"
    )
    assert not repeated(*["1.0"] * 9, text=text), "clipped"
    assert not repeated(*EPOCH, text=text)


def test_of_a_long_run_only_the_first_steps_are_kept() -> None:
    found = Losses()
    for step in range(MOST + 10):
        found.add(f"loss: {step}.12345")
    assert len(found.written) == MOST and not found.repeated
    assert repeated(*["0.6931"] * (MOST + 1)) == f"loss is 0.6931 in the first {MOST} steps: nothing was updated"


def test_losses_of_0_without_a_gradient_show_that_nothing_was_learned() -> None:
    assert (
        repeated("0.0", "0.0", text="'loss': {}, 'grad_norm': 0.0") == "loss is 0 in all 2 steps: nothing shows that it learned"
    )
    assert not repeated("0.0", "0.1", text="'loss': {}, 'grad_norm': 0.0")
    assert not repeated(*["0.0"] * 9, text="'loss': {}, 'grad_norm': 0.0, 'rewards/accuracies': 1.0")
    frozen = repeated(*EPOCH[:3], text="loss: {} | lr: 0.0")
    assert frozen == "the learning rate is 0 in all 3 steps: nothing was updated"
    for rate in ("1e-5", "0.0000", "0.01", "0.0e-5"):  # one that is rounded may be of a run that learns
        assert not repeated(*EPOCH[:3], text=f"loss: {{}} | lr: {rate}"), rate
    warm = Losses()
    for loss, rate in zip(EPOCH, ("0", "0.0", "0.0e+00", "1e-5", "2e-5"), strict=True):
        warm.add(f"loss: {loss} | lr: {rate}")
    assert not warm.repeated
