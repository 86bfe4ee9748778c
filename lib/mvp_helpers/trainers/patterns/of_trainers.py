"""The lines with which each known trainer reports its progress: begin, model built, step done, end reached, checkpoint resumed.

The diagnosis reads logs of unknown origin and looks for the lines of every trainer in ``TRAINERS``; a program that starts a
trainer itself uses the patterns of that trainer alone. They are for ``re.search`` on one line of text without colours.
"""

from __future__ import annotations

import re

from .lines import LineKind, LogPatterns, StepLine
from .of_scripts import SCRIPTS

_VERL_STEP = r"(?:^|[\s\]]|global_)step:(?P<step>\d{1,12})(?:\.0+)?"
_VERL_METRICS = _VERL_STEP + r"(?:\s+-\s|$)"

VERL = LogPatterns(
    sample=("[prompt]", "[response]", "[ground_truth]"),  # verl/workers/reward_manager: naive, dapo, batch
    begins=(
        LineKind(("verl.trainer.",), r"^\++ .*-m verl\.trainer\.\w+"),
        LineKind(("Training Progress:",), r"Training Progress: +0%\|[^|]*\| 0/[1-9]"),
    ),
    logged=(
        StepLine("step:", _VERL_STEP + r"\s+-\s(?P<metrics>.*)", trained=r"(?:^|\s)(?!val)[\w/]*(?:loss|grad_norm)"),
        StepLine(
            '"step":',
            r'\{"step": *(?P<step>\d{1,12}), *"data": *(?P<metrics>\{.*\})',
            trained=r'"(?!val)[\w/]*(?:loss|grad_norm)',
        ),
    ),
    every_step=True,
    mentions=(
        r"(?:^|[\s\]]|global_)step:(\d{1,12})\b|(?:Training Progress|Epoch \d+/\d+): .*?\| *(\d{1,12})/\d+ \["
        r"|/global_step_(\d{1,12})|\bTotal steps: (\d{1,12}), num_warmup"
    ),
    mention_words=("step:", "Training Progress:", "Epoch ", "/global_step_", "Total steps:"),
    built=(
        LineKind((" contains ",), r" contains [\d.]+[KMB]? parameters"),
        LineKind(("Model config after override",)),
    ),
    stepped=(
        LineKind(("step:",), _VERL_METRICS),
        LineKind(("Training Progress:",), r"Training Progress:.*\| (?P<step>\d{1,12})/[1-9]\d* \["),
    ),
    # A bar of nothing, 0/0, is not an end.
    finished=(
        LineKind(("Training Progress:",), r"Training Progress: 100%\|[^|]*\| *(?P<last>[1-9]\d{0,11})/(?P=last) \["),
        LineKind(("Total time for train steps:",), r"^Total time for train steps: [\d.]+s"),  # SFT, whose bar stops one short
        LineKind(("Final validation metrics:",), r"^[(\"']{0,2}Final validation metrics: "),  # only after the last step
    ),
    metrics_word="step:",
    metrics=_VERL_METRICS,
    saved_step=r"/global_step_(\d{1,12})",
    saved_step_words=("/global_step_",),
    percent=r"Training Progress:\s*(?P<percent>\d{1,3})%",
    under_way=(
        r"(?:\x1b\[\d+m)?(?:\(\w+ pid=\d+(?:, ip=[\w.:]+)?\)(?:\x1b\[0m)? )?Training Progress: +\d\d?%\|[^|\r\n]*\| "
        r"(?P<step>[1-9]\d{0,11})/[1-9]\d* \[[\d:]+<[\d:]+, +[\d.]+(?:s/it|it/s)\]\r?\n?"
    ),
    resumed=(
        r"(?i)resum\w* from \S*global_step_(\d{1,12})|load\w* from checkpoint folder: \S*global_step_(\d{1,12})"
        r"|Setting global step to (\d{1,12})"
    ),
    from_scratch=(
        r"(?i)training from scratch|no checkpoint found|checkpoint tracker file does not exist|no dataloader state found"
    ),
    optimizer_read=r"Loaded optimizer(?: checkpoint)? from \S*/global_step_(?P<step>\d{1,12})/(?P<model>\w+)\S*",
    resumed_words=("esum", "checkpoint folder", "Setting global step to "),
    position=r"Training Progress: .*?\| (\d{1,12})/\d+ \[00:00<\?",
    # Megatron-Bridge prints these inside verl's workers.
    trainable=(
        r"(?i)(?:adapter parameters|trainable (?:params|parameters))\D{0,20}(\d[\d,_]*)"
        r"|trainable percentage\D{0,20}(\d+(?:\.\d+)?)"
    ),
)

_MEGATRON_STEP = r"iteration +(?P<step>\d{1,12})/ *(?P<total>\d{1,12}) \|(?P<metrics> consumed samples: .*)"

MEGATRON = LogPatterns(
    built=(LineKind(("number of parameters on (tensor",)),),
    stepped=(
        LineKind(("consumed samples:",), r"iteration +(?P<step>\d{1,12})/ *\d+ \| consumed samples"),
        LineKind(("saving checkpoint at iteration",)),
    ),
    logged=(
        StepLine("consumed samples:", _MEGATRON_STEP, trained="loss|grad norm"),
        # of Megatron-DeepSpeed with pipeline parallelism
        StepLine("iter time (s)", r"^steps: (?P<step>[1-9]\d{0,11}) (?P<metrics>loss: .* iter time \(s\): .*)"),
    ),
    finished=(LineKind(("[after training is done]",), r"(?:^|\] : |^[\w.-]+: )\[after training is done\] datetime"),),
    interval=r"(?:^|[\s-])log[_-]interval[\s.:=]+(\d{1,9})\b",
    interval_words=("log_interval", "log-interval"),
    resumed=r"successfully loaded checkpoint from .* at iteration (\d{1,12})",
    resumed_words=("successfully loaded checkpoint",),
)

MEGATRON_BRIDGE = LogPatterns(built=(LineKind(("PEFT Adapter Information",)),))

# A script that starts several trainings puts the name of each before its lines.
_NEMO_RL_LEG = r"^(?:\[[\w ]+\] )?"

NEMO_RL = LogPatterns(
    begins=(LineKind(("SETUP COMPLETE",), _NEMO_RL_LEG + r" *SETUP COMPLETE$"), LineKind(("= Epoch 1/",), r"=+ Epoch 1/\d+ =+")),
    built=(LineKind(("Setting up Megatron",)), LineKind(("Model initialized",), r"✓ Model initialized")),
    stepped=(LineKind(("= Step ",), r"=+ Step (?P<next_step>[1-9]\d{0,11})/\d+ =+"),),
    logged=(
        StepLine("= Epoch ", r"=+ Epoch (?P<epoch_begun>\d{1,12})/\d+ =+"),
        StepLine("= Step ", r"=+ Step (?P<begun>\d{1,12})/(?P<total>\d{1,12}) =+"),
        StepLine("• Loss: ", r"• (?P<metrics>Loss: .*)"),
        StepLine("• loss: ", r"• (?P<metrics>loss: .*)"),  # DPO, reward models
        StepLine("• Policy Loss: ", r"• (?P<metrics>Policy Loss: .*)"),  # PPO
        StepLine("• Critic ", r"• (?P<metrics>Critic (?:Loss|Grad Norm): .*)"),
        StepLine("• Avg ", r"• (?P<note>Avg (?:Total |Filtered )?Reward: .*)"),
        StepLine("• Generation KL", r"• (?P<note>Generation KL Error: .*)"),
        StepLine("• Draft Loss: ", r"• (?P<note>Draft Loss: .*)"),
    ),
    every_step=True,
    finished=(
        LineKind(
            ("has been reached",),
            _NEMO_RL_LEG + r"(?:Max number of (?:steps|epochs)|Configured step/epoch limit) has been reached",
        ),
    ),
)

_HF_LOSS = "'loss':", '"loss":'
"""As printed, and as JSON."""
_NUMBER = r"\d{1,12}(?:\.\d{1,20})?"
_HF_EPOCH = rf"['\"]epoch['\"]: '?(?P<epoch>{_NUMBER})"
_HF_END = (
    rf"(?P<seconds>{_NUMBER})(?:[^{{}}]*?['\"]train_steps_per_second['\"]: '?(?P<speed>{_NUMBER}))?"
    rf"[^{{}}]*['\"]train_loss['\"]: [^{{}}]*{_HF_EPOCH}"
)
TRANSFORMERS = LogPatterns(
    begins=(
        LineKind(("***** Running training *****",)),
        LineKind(("Num Epochs = ",), r"Num examples = [\d,]+ \| Num Epochs = [\d,]+"),  # Unsloth's header in its place
    ),
    stepped=(
        LineKind(("Num Epochs = ",), r"Num examples = [\d,]+ \| Num Epochs = [\d,]+(?P<begun>)"),
        LineKind(("***** Running training *****",), r"\*{5} Running training \*{5}(?P<begun>)"),
        LineKind(_HF_LOSS, r"\{['\"]loss['\"]: "),
    ),
    logged=(
        *(StepLine(word, rf"\{{(?P<metrics>['\"]loss['\"]: [^{{}}]*?{_HF_EPOCH}[^{{}}]*)\}}") for word in _HF_LOSS),
        # the tables after a training, an evaluation and a prediction
        *(StepLine(f"  {what}_", rf"^ +(?P<note>{what}_\S+ +=.*)") for what in ("train", "eval", "predict")),
    ),
    finished=(
        LineKind(
            ("'train_runtime':", '"train_runtime":'),
            rf"\{{['\"]train_runtime['\"]: '?{_HF_END}",
        ),
        LineKind(
            ("TrainOutput(",),  # as a notebook shows it
            rf"^TrainOutput\(global_step=\d+, training_loss=[^{{}}]*\{{'train_runtime': {_HF_END}",
        ),
    ),
    resumed=(
        r"Continuing training from global step (\d{1,12})"
        r"|\bResuming (?:training )?from (?:checkpoint\W+)?\S*\bcheckpoint-(\d{1,12})"
        r"|\bCheckpoint detected, resuming training at (?:last_checkpoint=)?\S*\bcheckpoint-(\d{1,12})"
    ),
    resumed_words=(
        "Continuing training from global step",
        "Resuming from",
        "Resuming training from",
        "Checkpoint detected, resuming training at",
    ),
)

TORCHTITAN = LogPatterns(
    begins=(LineKind(("Training starts at step",), r"Training starts at step \d"),),
    stepped=(
        LineKind(("Training starts at step",), r"Training starts at step (?P<next_step>\d{1,12})"),
        LineKind(("loss:",), r"(?<!validate )\bstep: +(?P<step>\d{1,12}) +loss: "),
    ),
    logged=(
        StepLine("loss:", r"(?<!validate )\bstep: +(?P<step>\d{1,12}) +(?P<metrics>loss: .*)"),
        StepLine("loss:", r"\bvalidate step: +\d{1,12} +(?P<note>loss: .*)"),
    ),
    mentions=r"\btotal steps (\d{1,12})",
    mention_words=("total steps ", "Training starts at step"),
    finished=(LineKind(("Training completed",), r"\bTraining completed$"),),
    goes_on=r"Training starts at step ([2-9]\b|\d{2,12})",
)

DEEPSPEED = LogPatterns(
    stepped=(LineKind((", skipped=",), r"\bstep=(?P<step>[1-9]\d{0,11}), skipped="),),
    logged=(StepLine(", skipped=", r"\bstep=(?P<step>[1-9]\d{0,11}), (?P<metrics>skipped=.*)"),),
    finished=(
        LineKind(("exits successfully",), r"Process \d+ exits successfully"),
        LineKind(
            ("raining ",), r"^Training (?:is )?(?:done|completed?|finished)(?: in [\d.:]+ ?\w*)?[.!]*$"
        ),  # the script's own words
    ),
)

OPENRLHF = LogPatterns(
    stepped=(
        LineKind(("Train epoch [",)),
        LineKind(("Global step ",), r"Global step (?P<step>\d{1,12}): \{"),
        LineKind(("Train step of epoch",), r"Train step of epoch 0: .*\| (?P<step>[1-9]\d{0,11})/\d+ \["),
    ),
    logged=(
        StepLine("Global step ", r"Global step (?P<step>\d{1,12}): (?P<metrics>\{.*\})", trained="loss"),
        StepLine(
            "Train step of epoch",
            r"Train step of epoch (?P<round>\d{1,12}): [^\r\n]*?\| *(?P<step>[1-9]\d{0,11})/(?P<total>\d{1,12}) \[[^\]]*?, "
            r"(?P<metrics>\w*loss\w*=[^\]]*)\]",
        ),
    ),
    finished=(
        LineKind(("Train epoch:",), r"Train epoch: 100%\|[^|]*\| *(?P<epochs>[1-9]\d{0,5})/(?P=epochs) \["),
        LineKind(("Episode [",), r"Episode \[(?P<episode>\d{1,12})/(?P=episode)\]: 100%\|"),
    ),
)

LIGHTNING = LogPatterns(
    built=(LineKind(("Trainable params",), r"^[\d.]+ *[KMB]? +Trainable params"),),
    stepped=(LineKind(("Epoch ",), r"^(?:\x1b\S*)?Epoch (?P<next_step>\d{1,9}): +\d+%\|[^|]*\| *[1-9]\d*/\d+ \["),),
    logged=(
        StepLine(
            "Epoch ",
            r"Epoch (?P<step>\d{1,9}): 100%\|[^|]*\| *(?P<all>[1-9]\d{0,11})/(?P=all) \[(?P<metrics>[^\r\n]*?)\](?=[\r\n]| *$)",
            trained="loss",
        ),
        StepLine("Epoch ", r"Epoch \d{1,9}: +\d{1,2}%\|[^|]*\| *\d+/\d+ \[(?P<note>[^\r\n]*)"),
    ),
    every_step=True,
    redrawn=True,
    counts_from_0=True,
    finished=(LineKind(("Trainer.fit",), r"`Trainer\.fit` stopped: `max_epochs=(?P<last>\d{1,12})` reached"),),
)

LEROBOT = LogPatterns(
    # Steps above a thousand are rounded (12K), epochs are not.
    logged=(StepLine(" epch:", r"\bstep:\S+ smpl:\S+ ep:\S+ epch:(?P<epoch>\d{1,9}\.\d{1,20}) (?P<metrics>loss:.*)"),),
    finished=(LineKind(("End of training",), r"train\.py:\d+ End of training$"),),
)

ULTRALYTICS = LogPatterns(
    # An epoch's row ends with the bar of its batches. Epochs count from 1, before YOLOv8 from 0 up to the one before the last.
    logged=(
        StepLine(
            ": 100%",
            r"(?:^|\r)\s+(?P<step>\d{1,6})/(?P<total>\d{1,6}) +[\d.]+[GM] +(?P<metrics>(?:\d[\d.]* +)+\d+): 100%",
        ),
    ),
    every_step=True,
    redrawn=True,
    finished=(LineKind(("epochs completed in",), r"^(?P<count>[1-9]\d{0,11}) epochs completed in [\d.]+ hours"),),
    goes_on=r"^Resuming training \S.* from epoch (\d{1,6}) to \d+ total epochs",
    mention_words=("Resuming training ",),
)

OLMO = LogPatterns(
    stepped=(LineKind(("[step=",), r"\[step=(?P<step>[1-9]\d{0,11})/\d+"),),
    logged=(
        StepLine("[step=", r"\[step=(?P<begun>\d{1,12})/(?P<total>\d{1,12})(?:,epoch=\d+.*)?\]"),
        StepLine("train/C", r"^\s+(?P<metrics>train/(?:CrossEntropyLoss|CE loss)=.*)"),
        StepLine("optim/total_grad_norm=", r"^\s+(?P<note>optim/total_grad_norm=.*)"),
    ),
    finished=(LineKind(("Training complete",), r"(?:^|\s)(?:train|olmo\S*|olmo_core\S*):\d+\S*\s+INFO\s+Training complete$"),),
)

RAY_JOBS = LogPatterns(ended_well=(LineKind(("' succeeded",), r"(?:^|cli\.py:\d+ -- )Job '\S+' succeeded$"),))

OF_RL_TRAINERS = re.compile(rb"\bverl\b|\bnemo[_-]rl\b|actor_rollout_ref|\bWorkerDict\b")
"""A log of verl or NeMo-RL contains one of these near its beginning or end."""
TRAINERS = {
    "verl": VERL,
    "megatron": MEGATRON,
    "megatron_bridge": MEGATRON_BRIDGE,
    "nemo_rl": NEMO_RL,
    "transformers": TRANSFORMERS,
    "torchtitan": TORCHTITAN,
    "deepspeed": DEEPSPEED,
    "openrlhf": OPENRLHF,
    "lightning": LIGHTNING,
    "lerobot": LEROBOT,
    "ultralytics": ULTRALYTICS,
    "olmo": OLMO,
    **SCRIPTS,
    "ray_jobs": RAY_JOBS,
}
