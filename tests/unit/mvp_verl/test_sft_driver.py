"""The SFT driver's own decisions; that they train is shown in tests/bats/stop_saves.bats."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from mvp_helpers.base.project import PROJECT
from mvp_verl import sft_driver


class Trainer:
    """As verl's: the workers' device is read while it is made, the driver's own when it fits."""

    def __init__(self, config: Any) -> None:
        self.workers_device = self.device_name = config.trainer.device
        self.driver_device = ""
        self.resume_global_step, self.steps_per_epoch = 0, 4

    def fit(self) -> None:
        self.driver_device = self.device_name
        made.append(self)


made: list[Trainer] = []


def test_workers_get_the_clusters_device_and_the_driver_the_configured_one() -> None:
    made.clear()
    config = SimpleNamespace(trainer=SimpleNamespace(device="cpu"))
    sft_driver.fit(SimpleNamespace(SFTTrainer=Trainer), config, "cuda")
    assert [(trainer.workers_device, trainer.driver_device) for trainer in made] == [("cuda", "cpu")]


@pytest.mark.parametrize(("step", "left"), [(0, 4), (3, 1), (4, 4)])
def test_training_continues_after_a_checkpoint_at_the_end_of_an_epoch_too(step: int, left: int) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    def loader() -> Any:
        return StatefulDataLoader(list(range(8)), batch_size=2)

    class Resumed(Trainer):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.train_dataloader, saved, self.resume_global_step = loader(), loader(), step
            if step:
                batches = iter(saved)
                for _ in range(step):
                    next(batches)
                self.train_dataloader.load_state_dict(saved.state_dict())

        def fit(self) -> None:
            trained.append(sum(1 for _ in self.train_dataloader))

    trained: list[int] = []
    sft_driver.fit(SimpleNamespace(SFTTrainer=Resumed), SimpleNamespace(trainer=SimpleNamespace(device="cpu")), "cpu")
    assert trained == [left]


@pytest.mark.parametrize(("batches", "validates", "test_freq"), [(2, True, 5), (0, False, -1)])
def test_validation_with_less_than_a_batch_is_skipped_with_a_message(
    batches: int, validates: bool, test_freq: int, capsys: pytest.CaptureFixture[str]
) -> None:
    class Validating(Trainer):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.val_dataloader: Any = range(batches)
            self.test_freq = 5

    made.clear()
    sft_driver.fit(SimpleNamespace(SFTTrainer=Validating), SimpleNamespace(trainer=SimpleNamespace(device="cpu")), "cpu")
    trainer: Any = made[0]
    assert (trainer.val_dataloader is not None, trainer.test_freq) == (validates, test_freq)
    assert ("validation skipped" in capsys.readouterr().out) != validates


def test_a_verl_that_stores_its_device_elsewhere_is_refused_before_it_trains() -> None:
    class Other(Trainer):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            del self.device_name

    config = SimpleNamespace(trainer=SimpleNamespace(device="cpu"))
    with pytest.raises(RuntimeError, match="does not support this version of verl"):
        sft_driver.fit(SimpleNamespace(SFTTrainer=Other), config, "cuda")


def test_without_a_cluster_to_join_it_ends_instead_of_starting_one() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "MVP_"))}
    run = subprocess.run(
        [sys.executable, "-m", "mvp_verl.sft_driver"],
        env=environment | {"PYTHONPATH": str(PROJECT / "lib"), "MVP_WORKERS_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 1
    assert run.stderr.startswith("mvp_verl.sft_driver: RAY_ADDRESS or MVP_WORKERS_DEVICE is not set")
