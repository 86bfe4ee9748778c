"""The hooks on verl's own trainers: the real ``fit`` runs, and only what trains a step or writes a checkpoint is a stand-in."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mvp_helpers.base.paths import JobFolder
from mvp_helpers.record import control
from mvp_verl.trainers import HOOKS, Hook, _hook, _wrap

if importlib.util.find_spec("verl") is None or importlib.util.find_spec("torch") is None:
    pytest.skip("verl is not installed", allow_module_level=True)

V1, V0, SFT = HOOKS
STEPS = 12
EPOCH = 6


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


def trainer_class(hook: Hook) -> Any:
    return getattr(importlib.import_module(hook.module), hook.trainer)


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.trainer)
def test_the_installed_verl_has_what_each_hook_relies_on(hook: Hook) -> None:
    assert hook.problem(trainer_class(hook)) == ""


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.trainer)
def test_a_fit_that_lacks_any_of_it_or_has_it_in_another_order_does_not_fit(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    source = inspect.getsource(trainer_class(hook).fit)
    doctored = {fragment: source.replace(fragment, "gone") for fragment in hook.fragments}
    for fragment, text in doctored.items():
        monkeypatch.setattr(inspect, "getsource", lambda _, text=text: text)
        assert repr(fragment) in hook.problem(trainer_class(hook)), fragment
    moved = source.replace(hook.fragments[0], "gone") + hook.fragments[0]
    monkeypatch.setattr(inspect, "getsource", lambda _: moved)
    assert "does not contain" in hook.problem(trainer_class(hook))


def test_a_trainer_of_another_verl_trains_without_the_hook_and_the_job_folder_says_so(folder: JobFolder) -> None:
    class PPOTrainer:
        def __init__(self) -> None:
            self.config = SimpleNamespace()

        def fit(self) -> str:
            return "trained"

    module = SimpleNamespace(PPOTrainer=PPOTrainer)
    _wrap(V1, str(folder.path), module)  # type: ignore[arg-type]
    assert module.PPOTrainer().fit() == "trained"
    trainer = control.trainer(folder)
    assert trainer and not trainer.supported
    assert "PPOTrainer.fit of verl 0." in trainer.problem and "does not contain" in trainer.problem


def bare_sft(config: Any) -> Any:
    """An SFT trainer that has nothing but its config."""
    trainer = trainer_class(SFT).__new__(trainer_class(SFT))
    trainer.config = config
    return trainer


def test_a_trainer_that_lacks_an_attribute_trains_without_the_hook(folder: JobFolder) -> None:
    from omegaconf import OmegaConf

    _hook(SFT, bare_sft(OmegaConf.create({})), str(folder.path))
    report = control.trainer(folder)
    assert report and not report.supported and "AttributeError: 'SFTTrainer' object has no attribute 'ckpt_" in report.problem


def test_checkpoints_that_are_written_in_the_background_cannot_be_waited_for(folder: JobFolder) -> None:
    from omegaconf import OmegaConf

    _hook(SFT, bare_sft(OmegaConf.create({"checkpoint": {"async_save": True}})), str(folder.path))
    report = control.trainer(folder)
    assert report and not report.supported and "written in the background (checkpoint.async_save)" in report.problem


def test_a_module_without_the_trainer_is_left_alone(folder: JobFolder) -> None:
    _wrap(V1, str(folder.path), SimpleNamespace())  # type: ignore[arg-type]
    assert control.trainer(folder) is None


class Training:
    """A trainer with verl's own ``fit``; ``on_step`` and ``on_save`` run during a step and a save of that number."""

    def __init__(self) -> None:
        self.trained: list[int] = []
        self.saved: list[int] = []
        self.validated: list[int] = []
        self.on_step: dict[int, Callable[[], object]] = {}
        self.on_save: dict[int, Callable[[], object]] = {}
        self.trainer: Any = None

    def step(self, number: int) -> None:
        self.trained.append(number)
        self.on_step.get(number, lambda: None)()

    def save(self, number: int) -> None:
        self.saved.append(number)
        self.on_save.get(number, lambda: None)()


def sft(folder: JobFolder, monkeypatch: pytest.MonkeyPatch, save_freq: int) -> Training:
    import torch
    from omegaconf import OmegaConf

    module = importlib.import_module(SFT.module)
    training = Training()
    batch = {"input_ids": torch.nested.nested_tensor([torch.ones(3), torch.ones(2)], layout=torch.jagged)}

    class Client:
        def train_batch(self, data: Any) -> Any:
            training.step(len(training.trained) + 1)
            metrics = {"loss": 1.0, "grad_norm": 1.0, "lr": 0.1, "mfu": 0.0}
            return SimpleNamespace(get=lambda: metrics)

        def infer_batch(self, data: Any) -> Any:
            training.validated.append(training.trained[-1])
            return SimpleNamespace(get=lambda: {"loss": 1.0})

    # Metrics and batches travel in tensordicts; here they are plain mappings.
    tensordict_utils = SimpleNamespace(
        get=lambda output, _: dict(output),
        get_tensordict=lambda tensor_dict, non_tensor_dict: tensor_dict,
        assign_non_tensor=lambda *_, **__: None,
    )
    monkeypatch.setattr(module, "tu", tensordict_utils)
    monkeypatch.setattr(module, "Tracking", lambda **_: SimpleNamespace(log=lambda data, step, backend=None: None))
    trainer = module.SFTTrainer.__new__(module.SFTTrainer)
    trainer.config = OmegaConf.create(
        {
            "model": {"use_remove_padding": False},
            "data": {"use_dynamic_bsz": False, "max_token_len_per_gpu": 1, "micro_batch_size_per_gpu": 1, "pad_mode": "x"},
            "trainer": {
                "project_name": "p",
                "experiment_name": "e",
                "logger": [],
                "balance_batch": False,
                "total_epochs": STEPS // EPOCH,
                "default_local_dir": str(folder.checkpoints),
            },
        }
    )
    trainer.model_config = SimpleNamespace(tokenizer=SimpleNamespace(pad_token_id=0))
    trainer.resume_global_step, trainer.steps_per_epoch, trainer.total_training_steps = 0, EPOCH, STEPS
    trainer.global_batch_size, trainer.device_name = 2, "cpu"
    trainer.start_profile_step = trainer.end_profile_step = -1
    trainer.train_sampler = SimpleNamespace(set_epoch=lambda epoch: None)
    trainer.train_dataloader, trainer.val_dataloader = [batch] * EPOCH, [batch]
    trainer.training_client = Client()
    trainer.save_freq, trainer.test_freq = save_freq, 4
    trainer.ckpt_handler = SimpleNamespace(save_checkpoint=lambda step: training.save(step))
    trainer.ckpt_handler.default_local_dir = str(folder.checkpoints)
    _hook(SFT, trainer, str(folder.path))
    training.trainer = trainer
    return training


def v1(folder: JobFolder, monkeypatch: pytest.MonkeyPatch, save_freq: int) -> Training:
    from omegaconf import OmegaConf

    module = importlib.import_module(V1.module)
    training = Training()
    for name in ("Tracking", "ValidationGenerationsLogger", "DapoFilteredRewardTableLogger"):
        monkeypatch.setattr(module, name, lambda **_: SimpleNamespace(log=lambda *_, **__: None))
    monkeypatch.setattr(module, "SkipManager", SimpleNamespace(init=lambda _: None, set_step=lambda _: None))
    monkeypatch.setattr(module, "tq", SimpleNamespace(kv_clear=lambda **_: None))

    class Trainer(module.PPOTrainer):  # type: ignore[name-defined,misc]
        def step(self, metrics: Any, timing_raw: Any) -> Any:
            training.step(self.global_steps)
            return SimpleNamespace(keys=[], partition_id="train")

        def _save_checkpoint(self) -> None:
            training.save(self.global_steps)

        def _validate(self) -> dict[str, float]:
            training.validated.append(self.global_steps)
            return {"val": 1.0}

        def _nothing(self, *args: Any, **kwargs: Any) -> None:
            return None

        on_step_end = on_sample_end = _start_profiling = _stop_profiling = _compute_metrics = _nothing
        _reissue_inflight_prompts = _shutdown_dump_executor = _nothing

    trainer: Any = Trainer.__new__(Trainer)
    trainer.config = OmegaConf.create(
        {
            "trainer": {
                "project_name": "p",
                "experiment_name": "e",
                "logger": [],
                "val_before_train": False,
                "total_epochs": STEPS // EPOCH,
                "save_freq": save_freq,
                "test_freq": 4,
                "default_local_dir": str(folder.checkpoints),
            },
            "global_profiler": {"steps": None},
        }
    )
    trainer.global_steps, trainer.steps_per_epoch, trainer.total_training_steps = 0, EPOCH, STEPS
    _hook(V1, trainer, str(folder.path))
    fit = trainer.fit
    trainer.fit = lambda: fit(None)
    training.trainer = trainer
    return training


@pytest.fixture(params=[sft, v1], ids=["SFT", "V1"])
def make(request: pytest.FixtureRequest, folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Training]:
    return lambda save_freq: request.param(folder, monkeypatch, save_freq)


def test_a_training_that_nobody_asks_anything_is_as_without_the_hook(make: Callable[[int], Training], folder: JobFolder) -> None:
    training = make(5)
    training.trainer.fit()
    assert training.trained == [*range(1, STEPS + 1)] and training.saved == [5, 10, 12] and training.validated == [4, 8, 12]
    trainer = control.trainer(folder)
    assert trainer and trainer.supported and control.saved(folder) is None


@pytest.mark.parametrize("save_freq", [5, -1])
def test_a_stop_ends_with_the_step_it_comes_in_saved_and_without_validation(
    make: Callable[[int], Training], folder: JobFolder, save_freq: int
) -> None:
    training = make(save_freq)
    training.on_step[8] = lambda: control.ask_stop(folder)
    training.trainer.fit()
    assert training.trained == [*range(1, 9)] and training.validated == [4]
    assert training.saved == ([5, 8] if save_freq == 5 else [8])
    saved = control.saved(folder)
    assert saved and (saved.step, saved.path, saved.reason) == (8, str(folder.checkpoints / "global_step_8"), "stop")


def test_a_stop_during_a_save_ends_after_it(make: Callable[[int], Training], folder: JobFolder) -> None:
    training = make(5)
    training.on_save[5] = lambda: control.ask_stop(folder)
    training.trainer.fit()
    assert training.trained == [*range(1, 6)] and training.saved == [5]
    saved = control.saved(folder)
    assert saved and (saved.step, saved.ends) == (5, True)


def test_a_stop_in_a_step_that_is_saved_anyway_saves_once(make: Callable[[int], Training], folder: JobFolder) -> None:
    training = make(5)
    training.on_step[5] = lambda: control.ask_stop(folder)
    training.trainer.fit()
    assert training.trained[-1] == 5 and training.saved == [5]


def test_a_stop_at_the_end_of_an_epoch_does_not_begin_the_next(make: Callable[[int], Training], folder: JobFolder) -> None:
    training = make(5)
    training.on_step[EPOCH] = lambda: control.ask_stop(folder)
    training.trainer.fit()
    assert training.trained[-1] == EPOCH and training.saved == [5, EPOCH]


def test_a_save_is_extra_and_changes_neither_the_frequency_nor_the_end(
    make: Callable[[int], Training], folder: JobFolder
) -> None:
    training = make(5)
    training.on_step[7] = lambda: control.ask_save(folder)
    training.trainer.fit()
    assert training.trained[-1] == STEPS and training.saved == [5, 7, 10, 12] and training.validated == [4, 8, 12]
    saved = control.saved(folder)
    assert saved and (saved.step, saved.reason) == (7, "save")


def test_a_stop_in_the_last_step_is_the_trainers_own_end(make: Callable[[int], Training], folder: JobFolder) -> None:
    training = make(5)
    training.on_step[STEPS] = lambda: control.ask_stop(folder)
    training.trainer.fit()
    assert training.saved == [5, 10, 12] and training.validated == [4, 8, 12] and control.saved(folder) is None


def test_a_save_that_fails_ends_the_training_as_without_the_hook(make: Callable[[int], Training], folder: JobFolder) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    training = make(5)
    training.on_step[3] = lambda: control.ask_stop(folder)
    training.on_save[3] = full
    with pytest.raises(OSError, match="No space left"):
        training.trainer.fit()
    assert control.saved(folder) is None
