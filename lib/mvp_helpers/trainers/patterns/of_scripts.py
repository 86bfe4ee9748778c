"""The lines of scripts with a loop of their own: lines with a loss, and the words in which they report their end."""

from __future__ import annotations

from .lines import LineKind, LogPatterns, StepLine

_HELD_OUT = r"(?:val\w*|eval\w*|test|dev)"
_SET = r"=(?:None|True|False)\b"
_BUILD_STEP = r"(?-i:.*\bStep \d+/\d+ : [A-Z]{3,} )"
"""An instruction of a container's image."""
_NO_ERROR_OR_OPTIONS = (
    rf"(?i)^(?!{_BUILD_STEP}|.*(?:(?<!_)error|_error(?!=\d)|exception|failed|traceback|\bNamespace\(|{_SET}.*{_SET}"
    rf"|\b{_HELD_OUT}\W{{1,4}}(?:epoch|step|iter)|\b(?:checkpoint|ckpt|model|weights) saved\b.*\bepoch))"
)
_OF = r"(?: ?/ ?| of )"
_TOTAL = rf"(?:{_OF}|, ['\"](?:of|total|(?:total|max|num)_steps)['\"]: )(?P<total>\d{{1,9}})(?![\d.])"
_COUNT = rf"['\"]?[\s:=#\[(|]{{0,8}}(?P<step>\d{{1,9}})(?![\d.]|,\d)(?:{_TOTAL})?(?P<metrics>[^\r\n]*)"
_TRAIN_LOSS = (
    "".join(rf"(?<!{what}[ _/-])" for what in ("val", "eval", "test", "dev", "valid", "validation", "best"))
    + r"(?:(?:loss\w*|perplexity|ppl|bpc|train_(?:mse|rmse|mae|nll|ce|bce)\w*)['\"]?(?:\s*(?:::?|[=|])|\s)|\btrain[=:])"
    + r"\s*(?:is )?['\"]?(?:[-+]?\.?\d|nan|-?inf)"
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
    r"(?:(?:INFO \| )?fairseq_cli\.train \| )?"
    rf"(?:(?!{_PART})[a-z/-]+ ){{0,3}}?(?:{_TRAINING}(?: (?:run|loop|process))? (?:is |has |was )?(?:been )?"
    rf"(?:successfully )?(?:completed?|done|finished|ended)|(?:finished|completed|done)(?: with)? (?:the )?{_TRAINING}"
    r"(?: on (?!(?:fold|stage|phase|part|epoch|step|rank|worker|cpu|gpu|cuda)(?![a-z]))[\w.-]*\w)?)\b"
    r"(?: successfully)?(?: (?:in|after|at):? [\d:.]+ ?\w*)?"
    r"(?:(?:, steps: (?=\d+\W*$)| *\((?=\d+ steps?\b))(?P<last>\d{1,12})(?: steps?\b[^()]*\))?)?(?:\W*$|[.!]+ | -+> \S*[/\\]\S+$)"
)
_FINAL_MODEL = (
    r"(?i)^(?!.*(?:error|exception|fail|when |if ))(?:.* (?:I|INFO)\S* (?:\S* - |- )?)?\W*"
    r"(?:saved (?:the )?final model\b|final model (?:(?:was|has been|is) )?saved\b)"
)
_STOPPED_EARLY = (
    r"(?i)^(?!.*(?:counter|patience ?[:=]|callback|error|fail|\b(?:if|when|will|enabled|disabled|best_\w+"
    r"|not (?:yet )?(?:triggered|activated|reached)|no early|resubmit|not finite|no longer)\b)).{0,60}?"
    r"\b(?P<early>early[- _]?stop(?:ped|ping)?\b"
    r"(?:!|:? no [\w -]{0,30}improvement (?:for|in|over) \d|\]? [\w -]{0,30}\bdid not improve (?:for|in) \d"
    r"|\] no improvement\b.{0,20}\bstopping (?:the )?training\W*$"
    r"|(?:.{0,20}\bat|(?: (?:triggered|activated))? in) epoch\W{1,3}(?P<stopped>\d{1,9})\b"
    r"|.{0,20}\b(?:triggered|activated|(?:at|after|on) (?:\w+ )?(?:epoch|step)?\W*\d))|^stopping_early: \w+)"
)
SCRIPT = LogPatterns(
    logged=(
        *(StepLine(word, _NO_ERROR_OR_OPTIONS + r".*?\bepochs?\b" + _COUNT, trained=_WHOLE_EPOCH) for word in ("poch", "POCH")),
        StepLine("pisode", _NO_ERROR_OR_OPTIONS + r".*?\bepisodes?\b" + _COUNT, trained=_WHOLE_EPOCH),
        StepLine(  # below a progress bar that was drawn over
            "poch",
            rf"(?i)(?:\r|\] {{2,}}) *\bepochs?\b{_COUNT}",
            trained=_WHOLE_EPOCH,
        ),
        StepLine(  # its progress bar
            "poch",
            rf"(?i)(?:^|\r)(?![^|\r\n]*\b{_HELD_OUT}\b)[^|\r\n]{{0,60}}?\bepochs?[\s:=#\[(]{{1,3}}"
            rf"(?P<step>\d{{1,9}})(?:{_OF}(?P<total>\d{{1,9}}))?[^|\r\n%]{{0,40}} 100%\|[^|]*\| *"
            rf"(?P<all>[1-9]\d{{0,11}})/(?P=all) \[[^\]\r\n]*?{_BAR}(?=[\r\n]| *$)",
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
        LineKind(("{'best_result': ",), r"^\{'best_result': '-?\d[\d.]* ± \d"),  # Tianshou's
        LineKind(("run complete @ step ",), r"\brun complete @ step (?P<last>\d{1,12})"),
        LineKind(
            ("otal training time", "otal Training time", "otal Training Time"),
            r"(?i)^\W*total training time\W{1,4}(?:is |was )?\d[\d.:]* ?(?:s|secs?|seconds|m|mins?|minutes|h|hours?)?\W*$",
        ),
        LineKind(("done. best ",), r"^done\. best (?:val|loss)\b.*\d"),
        LineKind(  # the status that a launcher saw
            ("finished with ", "exited with ", "completed with "),
            r"(?i)(?:^|\] )\W*(?:execution|process|script|command|program) (?:finished|exited|completed) with "
            r"(?:(?:exit|return) )?(?:(?:code|status) )?0\W*$",
        ),
        LineKind(("Optimization Done",), r"^(?:.*\] )?Optimization Done\.$"),  # Caffe's
        LineKind(("训练完成",), r"^\W*训练完成(?:\W*$|[^\w\s]\W*(?:最终)?(?:模型|权重)\S*保存)"),
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
LITGPT = LogPatterns(
    logged=(
        StepLine(
            "iter ",
            r"(?:^|\| )iter (?P<step>\d{1,9}) step \d{1,9}(?: \||:) (?P<metrics>loss.*iter[ _]time: .*)",
        ),
        StepLine("val loss", r"(?P<note>\bval loss:? .*)"),
    ),
    finished=(
        LineKind(("raining Time ", "raining time: "), r"^(?:[|│] )?(?:- )?Training [Tt]ime *: +\d[\d.]* ?s$"),
        *SCRIPT.finished,
    ),
)
"""Of LitGPT and of Lit-LLaMA before it."""
RSL_RL = LogPatterns(
    logged=(
        StepLine("Learning iteration ", r"^\W*Learning iteration (?P<begun>\d{1,9})/(?P<total>\d{1,9})\W*$"),
        StepLine("Mean value", r"^\s*(?P<metrics>Mean (?:value|value_function) loss: .*)"),
        StepLine("Value function loss", r"^\s*(?P<metrics>Value function loss: .*)"),
        *(
            StepLine(word, r"^\s*(?P<note>(?:Mean|Surrogate) .*)")
            for word in ("Mean surrogate loss", "Surrogate loss", "Mean entropy loss", "Mean reward", "Mean action")
        ),
    ),
    every_step=True,
    counts_from_0=True,
    finished=SCRIPT.finished,
)
"""Of rsl_rl, with which Isaac Lab trains: a heading that numbers the iteration, from 0, and a table below it."""
ESPNET = LogPatterns(
    logged=(
        StepLine("poch started", r"\b(?P<begun>\d{1,6})/(?P<total>\d{1,6})epoch started\b"),
        StepLine("poch results: ", r"\b\d{1,6}epoch results: \[train\] (?P<metrics>[^\[\]]*)", trained="loss"),
        StepLine("poch results: ", r"\b\d{1,6}epoch results: .*?(?P<note>\[valid\] .*)"),
    ),
    every_step=True,
    finished=(LineKind(("training was finished at",), r"\bThe training was finished at (?P<last>\d{1,6}) epochs\b"),),
)
STABLE_BASELINES = LogPatterns(
    logged=(
        StepLine("n_updates ", r"^\|\s+n_updates\s+\| (?P<step>\d{1,12}) +\|(?P<metrics>)"),
        *(
            StepLine(word, r"^\|\s+(?P<note>\w+\s+\| .*)")
            for word in ("   loss ", "_loss ", "approx_kl ", "ep_rew_mean ", "ent_coef ")
        ),
    ),
    first_part=r"(?m)^\|\s+iterations\s+\| 1 +\|",
    finished=(*SCRIPT.finished, LineKind(("100% ━",), r"^\W*100% ━+ (?P<all>[\d,]+)/(?P=all)(?![\d,])")),
)
"""Of a script that trains with Stable-Baselines3: a table after each rollout, here counted by its updates,
which go on from those of a model that was loaded."""
KERAS = LogPatterns(
    logged=(
        StepLine("Epoch ", r"^Epoch (?P<begun>\d{1,6})/(?P<total>\d{1,6})$"),
        StepLine("step - ", r"(?:^|\r) *(?P<all>\d{1,9})/(?P=all) [^\r]* \S+/step - (?P<metrics>[^\r]*\bloss: [^\r]*)"),
        StepLine("s - loss: ", r"^ *(?P<all>\d{1,9})/(?P=all) - \d{1,9}s - (?P<metrics>loss: .*)"),  # verbose=2 before Keras 3
    ),
    redrawn=True,
    finished=SCRIPT.finished,
)
"""Of a script that trains with Keras: the bar of an epoch's batches, full, with its losses, below its heading."""
_HEADING = r"(?i)(?:^|(?<!of)[-:|\]>])[^\w\-:|\]>]*epoch\W{0,3}"
_STEPS = (
    _NO_ERROR_OR_OPTIONS + r"(?!(?!.*?loss.*?epoch).*epoch).*?\b(?:global[_ ])?(?:step|iter(?:ation)?)s?\b(?:\(train\))?" + _COUNT
)
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
                "Iter(train",
                "teration ",
                "teration:",
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
    _NO_ERROR_OR_OPTIONS + r".*?\bepochs?\b(?:\(train\))?[\s:=#\[(|]{0,4}(?P<in_epoch>\d{1,6})(?![\d.])"
    rf"(?:{_OF}(?P<epochs>\d{{1,6}}))?[\s\])\[|,:-]{{1,5}}"
)
SCRIPT_PARTS = LogPatterns(
    logged=tuple(
        StepLine(word, _IN_EPOCH + step + r"(?P<metrics>[^\r\n]*)", trained=_LOSS)
        for word in ("poch", "POCH")
        for step in (
            rf"(?:{_PART_OF_EPOCH}\b[\s:=#]{{0,3}})?[\[(]? *(?P<step>\d{{1,9}}) ?/ *(?P<total>\d{{1,9}})(?![\d.])",
            rf"(?:global[_ ])?{_PART_OF_EPOCH}s?\b[\s:=#\[(]{{0,3}}(?P<step>\d{{1,9}})(?! ?/|[\d.])",
        )
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
                rf"(?:^|[-:|\]>\r])[^\w\-:|\]>\r]*"
                r"(?P<metrics>(?:(?:average|avg|mean|epoch|train\w*)[ _-]){0,3}"
                rf"{_TRAIN_LOSS}[^\r\n]*)",
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
UER = LogPatterns(
    logged=(StepLine("steps| ", r"^\|? +(?P<step>\d{1,9})/ *(?P<total>\d{1,9}) steps\|(?P<metrics>.*\bloss +\d[\d.]*\|.*)"),),
    finished=SCRIPT.finished,
)
"""Of UER-py and TencentPretrain: a row with the loss at a fixed interval of steps, and the total number of steps."""
SCRIPTS = {
    "uer": UER,
    "nanogpt": NANOGPT,
    "litgpt": LITGPT,
    "rsl_rl": RSL_RL,
    "espnet": ESPNET,
    "stable_baselines": STABLE_BASELINES,
    "keras": KERAS,
    "torchtune": TORCHTUNE,
    "script_parts": SCRIPT_PARTS,
    "script": SCRIPT,
    "script_steps": SCRIPT_STEPS,
    "script_epochs": SCRIPT_EPOCHS,
}
"""What they show counts only in a log without lines of another trainer; of these the first counts."""
