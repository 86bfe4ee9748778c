"""Rollouts that cannot be written end no training."""

from __future__ import annotations

import importlib
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from mvp_verl import rollouts


def module_with(write: Any) -> Any:
    trainer = type("PPOTrainer", (), {"_write_generations": write})
    return SimpleNamespace(__name__="verl.trainer.ppo.v1.trainer_base", PPOTrainer=trainer)


def test_a_write_that_fails_is_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    def write(rows: object) -> None:
        raise TypeError(f"Object of type {type(rows).__name__} is not JSON serializable")

    module = module_with(staticmethod(write))
    rollouts._hook(module)
    module.PPOTrainer._write_generations(Decimal(1))
    assert "MVP_WARNING: the rollouts of a step are not kept: TypeError: Object of type Decimal" in capfd.readouterr().err


def test_another_kind_of_writer_is_left_alone() -> None:
    def write(self: object) -> None:
        pass

    module = module_with(write)
    rollouts._hook(module)
    assert module.PPOTrainer._write_generations is write


@pytest.mark.parametrize("name", rollouts.TRAINERS)
def test_the_installed_verl_writes_them_so(name: str) -> None:
    pytest.importorskip("verl")
    assert isinstance(vars(getattr(importlib.import_module(name), rollouts.TRAINERS[name]))["_write_generations"], staticmethod)
