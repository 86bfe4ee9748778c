"""The lines with which each known trainer reports its progress: begin, model built, step done, end reached, checkpoint resumed.

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
class StepLine:
    """Text with the metrics of a training step; it contains ``word`` and matches ``pattern``, perhaps several times in a line.

    The group ``metrics`` is the text with the values; ``note`` is one that proves no step. ``step`` or ``epoch`` (a fraction) is
    which step it is, ``total`` how many there are; where steps start again with every epoch, ``round`` is the epoch from 0, and
    ``total`` counts the steps of one. A script's steps may do so or not: ``in_epoch`` is its epoch, perhaps of ``epochs``.
    Without either, the step is the one that the last line with ``begun`` began; after a line with ``epoch_begun`` (from 1) these
    begin with 1 again.
    """

    word: str
    pattern: str
    trained: str = ""
    """A metric that only training logs; a line without it (of a validation) does not show that the step was trained."""


@dataclass(frozen=True)
class LogPatterns:
    """One trainer's lines; "" and () where the trainer prints no such line."""

    begins: tuple[LineKind, ...] = ()
    """A run begins."""
    logged: tuple[StepLine, ...] = ()
    """The metrics of a training step."""
    ends_at_total: bool = False
    """A script that counts from 0 up to the number of its steps, not to the one before."""
    every_step: bool = False
    """Each step is logged, not only each n-th."""
    redrawn: bool = False
    """Its bar may show a step more than once."""
    mentions: str = ""
    """A step that the run reached or was to reach, in the group that matches, whatever else the line reports."""
    mention_words: tuple[str, ...] = ()
    """Every such line, and every bar of ``position``, contains one of them."""
    ended_well: tuple[LineKind, ...] = ()
    """The trainer's launcher reports that its command succeeded; this alone does not show which step was the last."""

    built: tuple[LineKind, ...] = ()
    """The model has been, or is being, built."""
    stepped: tuple[LineKind, ...] = ()
    """A training step is done, or begins; step 0 is done when the first one begins."""
    finished: tuple[LineKind, ...] = ()
    """The run has reached its end."""
    metrics_word: str = ""
    """Every line of metrics contains this word, so that a fast search can find them."""
    metrics: str = ""
    """The beginning of a line of metrics, ``step:N - key:value - ...``; the group ``step`` is the step."""
    percent: str = ""
    """A progress bar; the group ``percent`` says how far it is."""
    under_way: str = ""
    """A line that is only a progress bar, neither at its beginning nor at its end; the group ``step`` is done."""
    saved_step: str = ""
    """A checkpoint's path, which mentions the step in the group."""
    saved_step_words: tuple[str, ...] = ()
    """Every such path contains one of them."""
    resumed: str = ""
    """A checkpoint was loaded; the group that matches is its step."""
    resumed_words: tuple[str, ...] = ()
    """Every such line contains one of them."""
    position: str = ""
    """A progress bar when it is first drawn; the group is the step that it begins after."""
    goes_on: str = ""
    """The run goes on with the step in the group that matches."""
    counts_from_0: bool = False
    """The first step may be 0."""
    from_scratch: str = ""
    """No checkpoint, or not all of one, was loaded."""
    optimizer_read: str = ""
    """The optimizer's state was read from a checkpoint; the groups ``step`` and ``model`` are those in its path."""
    trainable: str = ""
    """The number (or percentage) of trainable parameters, in the group that matches."""
    sample: tuple[str, ...] = ()
    """Beginnings of the lines in which a reward manager prints a prompt, then its answer, and last what was expected."""


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
            '"step":', r'\{"step": *(?P<step>\d+), *"data": *(?P<metrics>\{.*\})', trained=r'"(?!val)[\w/]*(?:loss|grad_norm)'
        ),
    ),
    every_step=True,
    mentions=(
        r"(?:^|[\s\]]|global_)step:(\d{1,12})\b|(?:Training Progress|Epoch \d+/\d+): .*?\| *(\d+)/\d+ \[|/global_step_(\d+)"
        r"|\bTotal steps: (\d+), num_warmup"
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
    saved_step=r"/global_step_(\d+)",
    saved_step_words=("/global_step_",),
    percent=r"Training Progress:\s*(?P<percent>\d{1,3})%",
    under_way=(
        r"(?:\x1b\[\d+m)?(?:\(\w+ pid=\d+(?:, ip=[\w.:]+)?\)(?:\x1b\[0m)? )?Training Progress: +\d\d?%\|[^|\r\n]*\| "
        r"(?P<step>[1-9]\d{0,11})/[1-9]\d* \[[\d:]+<[\d:]+, +[\d.]+(?:s/it|it/s)\]\r?\n?"
    ),
    resumed=(
        r"(?i)resum\w* from \S*global_step_(\d+)|load\w* from checkpoint folder: \S*global_step_(\d+)"
        r"|Setting global step to (\d+)"
    ),
    from_scratch=(
        r"(?i)training from scratch|no checkpoint found|checkpoint tracker file does not exist|no dataloader state found"
    ),
    optimizer_read=r"Loaded optimizer(?: checkpoint)? from \S*/global_step_(?P<step>\d+)/(?P<model>\w+)\S*",
    resumed_words=("esum", "checkpoint folder", "Setting global step to "),
    position=r"Training Progress: .*?\| (\d+)/\d+ \[00:00<\?",
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
    finished=(LineKind(("[after training is done]",), r"(?:^|\] : )\[after training is done\] datetime"),),
    resumed=r"successfully loaded checkpoint from .* at iteration (\d+)",
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
        *(
            StepLine(word, r"\{(?P<metrics>['\"]loss['\"]: [^{}]*?['\"]epoch['\"]: '?(?P<epoch>\d+(?:\.\d+)?)[^{}]*)\}")
            for word in _HF_LOSS
        ),
        # the tables after a training, an evaluation and a prediction
        *(StepLine(f"  {what}_", rf"^ +(?P<note>{what}_\S+ +=.*)") for what in ("train", "eval", "predict")),
    ),
    finished=(
        LineKind(
            ("'train_runtime':", '"train_runtime":'),
            r"\{['\"]train_runtime['\"]: '?(?P<seconds>[\d.]+)"
            r"(?:[^{}]*?['\"]train_steps_per_second['\"]: '?(?P<speed>[\d.]+))?[^{}]*"
            r"['\"]train_loss['\"]: [^{}]*['\"]epoch['\"]: '?(?P<epoch>\d+(?:\.\d+)?)",
        ),
        LineKind(
            ("TrainOutput(",),  # as a notebook shows it
            r"^TrainOutput\(global_step=\d+, training_loss=[^{}]*\{'train_runtime': (?P<seconds>[\d.]+)"
            r"(?:[^{}]*?'train_steps_per_second': (?P<speed>[\d.]+))?[^{}]*'train_loss': [^{}]*'epoch': (?P<epoch>\d+(?:\.\d+)?)",
        ),
    ),
    resumed=r"Continuing training from global step (\d+)|\bResuming (?:training )?from (?:checkpoint\W+)?\S*\bcheckpoint-(\d+)",
    resumed_words=("Continuing training from global step", "Resuming from", "Resuming training from"),
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
    mentions=r"\btotal steps (\d+)",
    mention_words=("total steps ", "Training starts at step"),
    finished=(LineKind(("Training completed",), r"\bTraining completed$"),),
    goes_on=r"Training starts at step ([2-9]\b|\d{2,})",
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
            r"Train step of epoch (?P<round>\d+): [^\r\n]*?\| *(?P<step>[1-9]\d{0,11})/(?P<total>\d{1,12}) \[[^\]]*?, "
            r"(?P<metrics>\w*loss\w*=[^\]]*)\]",
        ),
    ),
    finished=(
        LineKind(("Train epoch:",), r"Train epoch: 100%\|[^|]*\| *(?P<epochs>[1-9]\d{0,5})/(?P=epochs) \["),
        LineKind(("Episode [",), r"Episode \[(?P<episode>\d+)/(?P=episode)\]: 100%\|"),
    ),
)

LIGHTNING = LogPatterns(
    built=(LineKind(("Trainable params",), r"^[\d.]+ *[KMB]? +Trainable params"),),
    stepped=(LineKind(("Epoch ",), r"^(?:\x1b\S*)?Epoch (?P<next_step>\d{1,9}): +\d+%\|[^|]*\| *[1-9]\d*/\d+ \["),),
    logged=(
        StepLine(
            "Epoch ",
            r"Epoch (?P<step>\d{1,9}): 100%\|[^|]*\| *(?P<all>[1-9]\d*)/(?P=all) \[(?P<metrics>[^\r\n]*?)\](?=[\r\n]| *$)",
            trained="loss",
        ),
        StepLine("Epoch ", r"Epoch \d{1,9}: +\d{1,2}%\|[^|]*\| *\d+/\d+ \[(?P<note>[^\r\n]*)"),
    ),
    every_step=True,
    redrawn=True,
    counts_from_0=True,
    finished=(LineKind(("Trainer.fit",), r"`Trainer\.fit` stopped: `max_epochs=(?P<last>\d+)` reached"),),
)

LEROBOT = LogPatterns(
    # Steps above a thousand are rounded (12K), epochs are not.
    logged=(StepLine(" epch:", r"\bstep:\S+ smpl:\S+ ep:\S+ epch:(?P<epoch>\d+\.\d+) (?P<metrics>loss:.*)"),),
    finished=(LineKind(("End of training",), r"train\.py:\d+ End of training$"),),
)

ULTRALYTICS = LogPatterns(
    # An epoch's row ends with the bar of its batches.
    logged=(
        StepLine(
            ": 100%",
            r"(?:^|\r)\s+(?P<step>[1-9]\d{0,5})/(?P<total>\d{1,6}) +[\d.]+[GM] +(?P<metrics>(?:\d[\d.]* +)+\d+): 100%",
        ),
    ),
    every_step=True,
    redrawn=True,
    finished=(LineKind(("epochs completed in",), r"^(?P<last>[1-9]\d*) epochs completed in [\d.]+ hours"),),
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

# Scripts with a loop of their own: lines with a loss, and the words in which they report their end.
_HELD_OUT = r"(?:val\w*|eval\w*|test|dev)"
_SET = r"=(?:None|True|False)\b"
_NO_ERROR_OR_OPTIONS = (
    rf"(?i)^(?!.*(?:error|exception|failed|traceback|\bNamespace\(|{_SET}.*{_SET}|\b{_HELD_OUT}\W{{1,4}}(?:epoch|step|iter)))"
)
_OF = r"(?: ?/ ?| of )"
_TOTAL = rf"(?:{_OF}|, ['\"](?:of|total|(?:total|max|num)_steps)['\"]: )(?P<total>\d{{1,9}})(?![\d.])"
_COUNT = rf"['\"]?[\s:=#\[(|]{{0,4}}(?P<step>\d{{1,9}})(?![\d.]|,\d)(?:{_TOTAL})?(?P<metrics>[^\r\n]*)"
_TRAIN_LOSS = (
    "".join(rf"(?<!{what}[ _/-])" for what in ("val", "eval", "test", "dev", "valid", "validation", "best"))
    + r"(?:(?:loss\w*|perplexity|ppl|bpc)['\"]?(?:\s*(?:::?|[=|])|\s)|\btrain[=:])\s*(?:is )?['\"]?(?:[-+]?\.?\d|nan|-?inf)"
)
_LOSS = rf"(?i)^(?!\W*{_HELD_OUT}\b).*?{_TRAIN_LOSS}"
_PART_OF_EPOCH = r"(?:step|batch|iter(?:ation)?)"
_WHOLE_EPOCH = (
    rf"(?i)^(?!.*\b{_PART_OF_EPOCH}s?\b\W{{0,4}}\d|.*(?:\d%\||\(\d+%\)|\[ *\d+ */)|\W*\d+ ?/ ?\d"
    rf"|\W*{_HELD_OUT}\b).*?{_TRAIN_LOSS}"
)
"""Of metrics: they are those of an epoch, not of a part of one."""
_BAR = r"(?:it/s|s/it), ?(?P<metrics>[^\]\r\n]*)\]"
_TRAINING = r"(?:training|fine-?tuning|optimi[sz]ation|sft|dpo|grpo|ppo)"
_PART = "epoch|step|iter|pre|stage|phase|fold|round|warm|reward|critic|tokenizer|wait|until|if|when|after|before|once"
_OWN_END = (
    r"(?i)^(?!.*(?:error|exception|fail|abort|stopp|interrupt|cancel|not |no |partial))\W*"
    rf"(?:(?!{_PART})[a-z/-]+ ){{0,3}}?(?:{_TRAINING}(?: (?:run|loop|process))? (?:is |has |was )?(?:been )?"
    rf"(?:successfully )?(?:completed?|done|finished|ended)|(?:finished|completed|done)(?: with)? (?:the )?{_TRAINING})\b"
    r"(?: successfully)?(?: (?:in|after|at):? [\d:.]+ ?\w*|, steps: (?P<last>\d+))?(?:\W*$|[.!]+ )"
)
_FINAL_MODEL = (
    r"(?i)^(?!.*(?:error|exception|fail|when |if ))(?:.* (?:I|INFO)\S* (?:\S* - |- )?)?\W*"
    r"(?:saved (?:the )?final model\b|final model (?:(?:was|has been|is) )?saved\b)"
)
_STOPPED_EARLY = (
    r"(?i)^(?!.*(?:counter|patience ?[:=]|callback|error|fail|\b(?:if|when|will|enabled|disabled|best_\w+)\b)).{0,60}?"
    r"\b(?P<early>early[- _]?stop(?:ped|ping)?\b"
    r"(?:!|.{0,20}\b(?:triggered|activated|(?:at|after|on) (?:\w+ )?(?:epoch|step)?\W*\d))|^stopping_early: \w+)"
)
SCRIPT = LogPatterns(
    logged=(
        StepLine("poch", _NO_ERROR_OR_OPTIONS + r".*?\bepochs?\b" + _COUNT, trained=_WHOLE_EPOCH),
        StepLine(  # below a progress bar that was drawn over
            "poch",
            rf"(?i)(?:\r|\] {{2,}}) *\bepochs?\b{_COUNT}",
            trained=_WHOLE_EPOCH,
        ),
        StepLine(  # its progress bar
            "poch",
            rf"(?i)(?:^|\r)(?![^|\r\n]*\b{_HELD_OUT}\b)[^|\r\n]{{0,60}}?\bepochs?[\s:=#\[(]{{1,3}}"
            rf"(?P<step>\d{{1,9}})(?:{_OF}(?P<total>\d{{1,9}}))?[^|\r\n%]{{0,40}} 100%\|[^|]*\| *"
            rf"(?P<all>[1-9]\d*)/(?P=all) \[[^\]\r\n]*?{_BAR}(?=[\r\n]| *$)",
            trained=_LOSS,
        ),
    ),
    finished=(
        LineKind(
            (
                "raining ",
                "tuning ",
                "ptimization F",
                "ptimization f",
                "ed training",
                "one training",
                "one with t",
                *("sft done", "SFT done", "dpo done", "DPO done", "grpo done", "GRPO done", "ppo done", "PPO done"),
                "ed fine",
                "one fine",
            ),
            _OWN_END,
        ),
        LineKind(("run complete @ step ",), r"\brun complete @ step (?P<last>\d+)"),
        LineKind(("inal model", "inal Model"), _FINAL_MODEL),
        LineKind(
            ("arly stop", "arly Stop", "arlyStop", "arly-stop", "arly_stop", "ARLY STOP", "topping_early: "), _STOPPED_EARLY
        ),
    ),
)
"""Of a script that numbers its epochs."""
NANOGPT = LogPatterns(
    logged=(
        StepLine("iter ", r"^iter (?P<step>\d{1,9}): (?P<metrics>loss [^,]+, time .*)"),
        StepLine("train loss ", r"^step \d{1,9}: (?P<note>train loss .*)"),
    ),
    ends_at_total=True,
    finished=SCRIPT.finished,
)
"""Of nanoGPT and programs made from it: a step's loss on a line, and those of an evaluation on another."""
STABLE_BASELINES = LogPatterns(
    logged=(
        StepLine("n_updates ", r"^\|\s+n_updates\s+\| (?P<step>\d{1,12}) +\|(?P<metrics>)"),
        *(
            StepLine(word, r"^\|\s+(?P<note>\w+\s+\| .*)")
            for word in ("   loss ", "_loss ", "approx_kl ", "ep_rew_mean ", "ent_coef ")
        ),
    ),
    finished=SCRIPT.finished,
)
"""Of a script that trains with Stable-Baselines3: a table after each rollout, here counted by its updates."""
_HEADING = r"(?i)(?:^|[-:|\]>])\W*epoch\W{0,3}"
_STEPS = _NO_ERROR_OR_OPTIONS + r"(?!.*epoch).*?\b(?:global[_ ])?(?:step|iter(?:ation)?)s?\b" + _COUNT
SCRIPT_STEPS = LogPatterns(
    logged=(
        StepLine("poch ", rf"{_HEADING}(?P<heading>\d{{1,6}})(?:{_OF}(?P<headings>\d{{1,6}}))?\W*$"),
        *(
            StepLine(word, _STEPS, trained=_LOSS)
            for word in (
                "iter ",
                "Iter ",
                "step ",
                "Step ",
                "teration ",
                "step:",
                "Step:",
                "step=",
                "iter:",
                "Iter:",
                "iter=",
                'step":',
            )
        ),
        *(
            StepLine(
                word,
                rf"(?:^|\r)(?![^\r\n]*(?i:epoch|\bval|eval|test))[^|\r\n]{{0,60}}%\|[^|]*\| *"
                rf"(?P<step>[1-9]\d{{0,8}})/(?P<total>\d{{1,9}}) "
                rf"\[[^\]\r\n]*?{_BAR}",
                trained=_LOSS,
            )
            for word in ("it/s, ", "s/it, ")
        ),
    ),
    finished=SCRIPT.finished,
)
"""Of a script that numbers its steps alone."""
_IN_EPOCH = (
    _NO_ERROR_OR_OPTIONS
    + rf".*?\bepochs?\b[\s:=#\[(|]{{0,4}}(?P<in_epoch>\d{{1,6}})(?![\d.])(?:{_OF}(?P<epochs>\d{{1,6}}))?[\s\])|,:-]{{1,5}}"
)
SCRIPT_PARTS = LogPatterns(
    logged=(
        StepLine(
            "poch",
            rf"{_IN_EPOCH}(?:{_PART_OF_EPOCH}\b[\s:=#]{{0,3}})?[\[(]? *(?P<step>\d{{1,9}}) ?/ *(?P<total>\d{{1,9}})(?![\d.])"
            r"(?P<metrics>[^\r\n]*)",
            trained=_LOSS,
        ),
        StepLine(
            "poch",
            rf"{_IN_EPOCH}(?:global[_ ])?{_PART_OF_EPOCH}s?\b[\s:=#\[(]{{0,3}}(?P<step>\d{{1,9}})(?! ?/|[\d.])"
            r"(?P<metrics>[^\r\n]*)",
            trained=_LOSS,
        ),
    ),
    finished=SCRIPT.finished,
)
"""Of a script that numbers the steps of each epoch."""
SCRIPT_EPOCHS = LogPatterns(
    logged=(
        StepLine("poch ", rf"{_HEADING}(?P<begun>\d{{1,6}})(?:{_OF}(?P<total>\d{{1,6}}))?\W*$"),
        *(
            StepLine(
                word,
                rf"{_NO_ERROR_OR_OPTIONS}(?!.*\b(?:epoch|{_PART_OF_EPOCH})s?\b\W{{0,4}}\d)(?:.*\r)?(?:(?!\b{_HELD_OUT}\b)[^\r\n])*?"
                rf"(?:^|[-:|\]>\r])\W*(?P<metrics>(?:(?:average|avg|mean|epoch|train\w*)[ _-]){{0,3}}{_TRAIN_LOSS}[^\r\n]*)",
                trained=_LOSS,
            )
            for word in ("loss:", "Loss:", "loss=", "rain loss ", "rain Loss ")
        ),
    ),
    finished=SCRIPT.finished,
)
"""Of a script whose lines of an epoch's loss are below a heading that numbers the epoch."""
TORCHTUNE = LogPatterns(
    logged=(
        StepLine(
            "|Loss: ",
            r"(?:^|\r)\d{1,6}\|(?P<step>\d{1,9})\|(?P<metrics>Loss: [^|\r\n]*?): +\d+%\|[^|\r\n]*\| *\d+/(?P<total>\d{1,9}) \[",
        ),
    ),
    redrawn=True,
)
"""Of torchtune: a bar for each epoch, named by the epoch, the step of the run, and its loss; no words about its end."""
SCRIPTS = ("nanogpt", "stable_baselines", "torchtune", "script_parts", "script", "script_steps", "script_epochs")
"""Their names below: what they show counts only in a log without lines of another trainer; of these the first counts."""

RAY_JOBS = LogPatterns(ended_well=(LineKind(("' succeeded",), r"(?:^|cli\.py:\d+ -- )Job '\S+' succeeded$"),))

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
    "nanogpt": NANOGPT,
    "torchtune": TORCHTUNE,
    "stable_baselines": STABLE_BASELINES,
    "script_parts": SCRIPT_PARTS,
    "script": SCRIPT,
    "script_steps": SCRIPT_STEPS,
    "script_epochs": SCRIPT_EPOCHS,
    "ray_jobs": RAY_JOBS,
}
