"""Where verl's trainers are asked to save and stop.

Each trainer decides by itself, in the middle of its loop, whether a step is saved (``save_freq``) and whether it was the last.
A hook does not save: it changes what these decisions read, so that verl's own path runs, with its own timers and callbacks, and
so that ``fit`` returns as after its last step. Validation is left out at a stop: it can take longer than the time there is.

A trainer is hooked when it is constructed. Its ``fit`` is first compared with what the hook relies on; when they differ the
training goes on without the hook, and the job folder says that this trainer cannot be asked to save, and why.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .imports import after_import
from .watch import Watch


@dataclass(frozen=True)
class Hook:
    """One of verl's trainers: what its ``fit`` must contain, in this order, and how it is hooked."""

    module: str
    trainer: str
    fragments: tuple[str, ...]
    attach: Callable[[Any, Watch], None]

    def problem(self, trainer: type) -> str:
        """Why this class cannot be hooked; empty when it can. A subclass with a ``fit`` of its own is judged by that one."""
        try:
            source = inspect.getsource(trainer.fit)  # type: ignore[attr-defined]
        except (AttributeError, TypeError, OSError) as error:
            return f"{trainer.__name__}.fit cannot be inspected ({error})"
        position = 0
        for fragment in self.fragments:
            position = source.find(fragment, position)
            if position < 0:
                return f"{trainer.__module__}.{trainer.__name__}.fit of verl {_verl_version()} does not contain {fragment!r}"
        return ""


def _verl_version() -> str:
    import verl

    return str(getattr(verl, "__version__", "(unknown version)"))


def _attach_v1(trainer: Any, watch: Watch) -> None:
    """PPO and GRPO: ``step`` trains, then ``fit`` decides whether to save; its ``while`` reads ``total_training_steps``."""
    settings = trainer.config.trainer
    due = _SaveDue(settings)
    step, save = trainer.step, trainer._save_checkpoint

    def folder() -> Path:
        return Path(settings.default_local_dir) / f"global_step_{trainer.global_steps}"

    def obey() -> None:
        if watch.ending:
            trainer.total_training_steps = min(trainer.total_training_steps, trainer.global_steps)
            settings.test_freq = -1

    def hooked_step(*args: Any, **kwargs: Any) -> Any:
        batch = step(*args, **kwargs)
        if watch.step_done(trainer.global_steps, last=trainer.global_steps >= trainer.total_training_steps):
            due.now()
        obey()
        return batch

    trainer.step, trainer._save_checkpoint = hooked_step, _reporting(save, folder, watch, due, obey)
    trainer.fit = _begins(trainer.fit, watch)


def _attach_v0(trainer: Any, watch: Watch) -> None:
    """PPO and GRPO with ``use_v1=False``, and before V1: ``fit`` asks for an expiring allocation just before it decides to save.

    Its loops end with the batches of ``train_dataloader``.
    """
    settings = trainer.config.trainer
    due = _SaveDue(settings)
    save, fit = trainer._save_checkpoint, trainer.fit
    module_globals = inspect.unwrap(fit.__func__).__globals__
    should_save = module_globals["should_save_ckpt_esi"]

    def folder() -> Path:
        return Path(settings.default_local_dir) / f"global_step_{trainer.global_steps}"

    def obey() -> None:
        if watch.ending:
            settings.test_freq = -1

    def hooked_should_save(*args: Any, **kwargs: Any) -> Any:
        if watch.step_done(trainer.global_steps, last=trainer.global_steps >= trainer.total_training_steps):
            due.now()
        obey()
        return should_save(*args, **kwargs)

    def hooked_fit(*args: Any, **kwargs: Any) -> Any:
        module_globals["should_save_ckpt_esi"] = hooked_should_save
        trainer.train_dataloader = _Batches(trainer.train_dataloader, watch)
        return fit(*args, **kwargs)

    trainer._save_checkpoint = _reporting(save, folder, watch, due, obey)
    trainer.fit = _begins(hooked_fit, watch)


def _attach_sft(trainer: Any, watch: Watch) -> None:
    """SFT: ``fit`` logs each step just before it decides; its loops end with the batches of ``train_dataloader``."""
    due = _SaveDue(trainer)
    handler, fit = trainer.ckpt_handler, trainer.fit
    save = handler.save_checkpoint
    module_globals = inspect.unwrap(fit.__func__).__globals__
    tracking_class = module_globals["Tracking"]
    made: list[Any] = []

    def obey() -> None:
        if watch.ending:
            trainer.test_freq = -1

    def hooked_tracking(*args: Any, **kwargs: Any) -> Any:
        tracking = tracking_class(*args, **kwargs)
        log = tracking.log

        def hooked_log(data: Any, step: int, *more: Any, **options: Any) -> Any:
            result = log(data, step, *more, **options)
            if "train/loss" in data:  # not the log of a validation, which comes later in the same step
                if watch.step_done(step, last=step >= trainer.total_training_steps):
                    due.now()
                obey()
            return result

        tracking.log = hooked_log
        made.append(tracking)
        return tracking

    def folder(step: int) -> Path:
        return Path(handler.default_local_dir) / f"global_step_{step}"

    def hooked_fit() -> Any:
        module_globals["Tracking"] = hooked_tracking
        trainer.train_dataloader = _Batches(trainer.train_dataloader, watch)
        try:
            return fit()
        finally:  # the last reference: verl's trackers finish while what they need still runs, not at the interpreter's end
            while made:
                del made.pop().log

    handler.save_checkpoint = _reporting(save, folder, watch, due, obey)
    trainer.fit = _begins(hooked_fit, watch)


def _reporting(
    save: Callable[..., object], folder: Callable[..., Path], watch: Watch, due: _SaveDue, obey: Callable[[], None]
) -> Callable[..., None]:
    """Return ``save`` so that it also reports each checkpoint; ``folder`` of the same arguments is where it is."""

    def reporting_save(*args: Any, **kwargs: Any) -> None:
        began = time.monotonic()
        save(*args, **kwargs)
        due.as_before()
        watch.saved(str(folder(*args, **kwargs)), time.monotonic() - began)
        obey()

    return reporting_save


class _SaveDue:
    """Makes the trainer save the step it is in, by the frequency that it reads, and puts that frequency back."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.frequency: Any = None

    def now(self) -> None:
        if self.frequency is None:
            self.frequency = self.settings.save_freq
        self.settings.save_freq = 1

    def as_before(self) -> None:
        if self.frequency is not None:
            self.settings.save_freq, self.frequency = self.frequency, None


class _Batches:
    """A data loader that has no further batch once the training must end; everything else is the loader's own."""

    def __init__(self, loader: Any, watch: Watch) -> None:
        self._loader = loader
        self._watch = watch

    def __iter__(self) -> Iterator[Any]:
        if self._watch.ending:  # before the loader starts its processes for another epoch
            return
        batches = iter(self._loader)
        while not self._watch.ending:
            try:
                batch = next(batches)
            except StopIteration:
                return
            yield batch

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _begins(fit: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @functools.wraps(fit)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        watch.begin()
        return fit(*args, **kwargs)

    return hooked


HOOKS = (
    Hook(
        module="verl.trainer.ppo.v1.trainer_base",
        trainer="PPOTrainer",
        fragments=(
            "self.global_steps <= self.total_training_steps:",
            "self.step(",
            "self.config.trainer.save_freq > 0 and (",
            "self.global_steps % self.config.trainer.save_freq == 0",
            "self._save_checkpoint()",
            "self.config.trainer.test_freq > 0 and (",
            "self.logger.log(",
            "self.global_steps += 1",
        ),
        attach=_attach_v1,
    ),
    Hook(
        module="verl.trainer.ppo.ray_trainer",
        trainer="RayPPOTrainer",
        fragments=(
            "in self.train_dataloader:",
            "update_actor(",
            "should_save_ckpt_esi(",
            "self.config.trainer.save_freq > 0 and (",
            "self.global_steps % self.config.trainer.save_freq == 0",
            "self._save_checkpoint()",
            "self.config.trainer.test_freq > 0 and (",
            "logger.log(",
            "self.global_steps += 1",
        ),
        attach=_attach_v0,
    ),
    Hook(
        module="verl.trainer.sft_trainer_ray",
        trainer="SFTTrainer",
        fragments=(
            "Tracking(",
            "self.train_dataloader,",
            "self.training_client.train_batch(",
            'metrics["train/loss"]',
            "tracking.log(data=metrics, step=global_step)",
            "is_last_step = global_step >= self.total_training_steps",
            "global_step % self.save_freq == 0",
            "(self.test_freq > 0 and is_valid_step)",
            "self.ckpt_handler.save_checkpoint(step=global_step)",
        ),
        attach=_attach_sft,
    ),
)


def arm(job_folder: str) -> None:
    """Hook each trainer of the job in ``job_folder`` when it is constructed."""
    for hook in HOOKS:
        after_import(hook.module, functools.partial(_wrap, hook, job_folder))


def _wrap(hook: Hook, job_folder: str, module: ModuleType) -> None:
    trainer_class = getattr(module, hook.trainer, None)
    if trainer_class is None:  # a version of verl that trains with another one
        return
    construct = trainer_class.__init__

    @functools.wraps(construct)
    def constructed(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        _hook(hook, self, job_folder)

    trainer_class.__init__ = constructed


def _hook(hook: Hook, trainer: Any, job_folder: str) -> None:
    """Attach ``hook``, or say why not; the training goes on in any case."""
    from mvp_helpers.base.paths import JobFolder

    watch = Watch(JobFolder(Path(job_folder)), type(trainer).__name__)
    try:
        problem = hook.problem(type(trainer)) or _asynchronous(trainer)
        if not problem:
            hook.attach(trainer, watch)
    except Exception as error:  # another verl must still train, without the hook
        problem = f"{type(trainer).__name__} of verl {_verl_version()}: {type(error).__name__}: {error}"
    if problem:
        watch.unsupported(problem)


def _asynchronous(trainer: Any) -> str:
    """Why a checkpoint is not on disk when verl's call to save it returns; empty when it is."""
    from omegaconf import OmegaConf

    for option in ("actor_rollout_ref.actor.checkpoint.async_save", "checkpoint.async_save"):
        if OmegaConf.select(trainer.config, option):
            return f"its checkpoints are written in the background ({option})"
    return ""
