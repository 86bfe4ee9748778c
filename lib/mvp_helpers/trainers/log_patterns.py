"""The lines with which each known trainer reports its progress: model built, step done, end reached, checkpoint resumed.

The diagnosis reads logs of unknown origin and looks for the lines of every trainer in ``TRAINERS``; a program that starts a
trainer itself uses the patterns of that trainer alone. They are for ``re.search`` on one line of text without colours.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LineKind:
    """Lines that contain one of ``words`` (a fast search finds those first) and match ``pattern``.

    The group ``step`` of the pattern is the step just done, ``next_step`` the step that begins.
    """

    words: tuple[str, ...]
    pattern: str = ""


@dataclass(frozen=True)
class LogPatterns:
    """One trainer's lines; "" and () where the trainer prints no such line."""

    built: tuple[LineKind, ...] = ()
    """The model has been, or is being, built."""
    stepped: tuple[LineKind, ...] = ()
    """A training step is done, or one after the first begins."""
    finished: tuple[LineKind, ...] = ()
    """The run has reached its end."""
    metrics_word: str = ""
    """Every line of metrics contains this word, so that a fast search can find them."""
    metrics: str = ""
    """The beginning of a line of metrics, ``step:N - key:value - ...``; the group ``step`` is the step."""
    percent: str = ""
    """A progress bar; the group ``percent`` says how far it is."""
    resumed: str = ""
    """A checkpoint was loaded; the group that matches is its step."""
    from_scratch: str = ""
    """No checkpoint, or not all of one, was loaded."""
    optimizer_read: str = ""
    """The optimizer's state was read from a checkpoint; the group that matches is the path, which names the model."""
    trainable: str = ""
    """The number (or percentage) of trainable parameters, in the group that matches."""


_VERL_METRICS = r"(?:^|[\s_\]])step:(?P<step>\d{1,12})(?:\.0+)?(?:\s+-\s|$)"

VERL = LogPatterns(
    built=(
        LineKind((" contains ",), r" contains [\d.]+[KMB]? parameters"),
        LineKind(("Model config after override",)),
    ),
    stepped=(
        LineKind(("step:",), _VERL_METRICS),
        LineKind(("Training Progress:",), r"Training Progress:.*\| (?P<step>[1-9]\d{0,11})/\d+ \["),
    ),
    # A bar of nothing, 0/0, is not an end.
    finished=(LineKind(("Training Progress:",), r"Training Progress: 100%\|[^|]*\| *(?P<last>[1-9]\d{0,11})/(?P=last) \["),),
    metrics_word="step:",
    metrics=_VERL_METRICS,
    percent=r"Training Progress:\s*(?P<percent>\d{1,3})%",
    resumed=(
        r"(?i)resum\w* from \S*global_step_(\d+)|load\w* from checkpoint folder: \S*global_step_(\d+)"
        r"|Setting global step to (\d+)"
    ),
    from_scratch=(
        r"(?i)training from scratch|no checkpoint found|checkpoint tracker file does not exist|no dataloader state found"
    ),
    optimizer_read=r"Loaded optimizer(?: checkpoint)? from (\S+)",
    # Megatron-Bridge prints these inside verl's workers.
    trainable=(
        r"(?i)(?:adapter parameters|trainable (?:params|parameters))\D{0,20}(\d[\d,_]*)"
        r"|trainable percentage\D{0,20}(\d+(?:\.\d+)?)"
    ),
)

MEGATRON = LogPatterns(
    built=(LineKind(("number of parameters on (tensor",)),),
    stepped=(
        LineKind(("consumed samples:",), r"iteration +(?P<step>\d{1,12})/ *\d+ \| consumed samples"),
        LineKind(("saving checkpoint at iteration",)),
    ),
    finished=(LineKind(("[after training is done]",), r"^\[after training is done\] datetime"),),
)

MEGATRON_BRIDGE = LogPatterns(built=(LineKind(("PEFT Adapter Information",)),))

NEMO_RL = LogPatterns(
    built=(LineKind(("Setting up Megatron",)),),
    stepped=(LineKind(("= Step ",), r"=+ Step (?P<next_step>[2-9]|[1-9]\d{1,11})/\d+ =+"),),
    finished=(LineKind(("has been reached",), r"^Max number of (steps|epochs) has been reached"),),
)

TRANSFORMERS = LogPatterns(stepped=(LineKind(("'grad_norm':",), r"\{'loss': "),))

OPENRLHF = LogPatterns(stepped=(LineKind(("Train epoch [",)),))

TRAINERS = {
    "verl": VERL,
    "megatron": MEGATRON,
    "megatron_bridge": MEGATRON_BRIDGE,
    "nemo_rl": NEMO_RL,
    "transformers": TRANSFORMERS,
    "openrlhf": OPENRLHF,
}
