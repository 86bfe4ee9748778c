"""Lines that no signature explains, but that a run without faults does not print: a finished run with one of them proves nothing.

They never explain a failure; they only prevent a log from passing. Patterns are for lines without colours and prefixes.
"""

from __future__ import annotations

import functools
import re

from . import log_lines
from .log_lines import ByWords

_SYMBOLS = r"[^\w\s\"'/.-]"
_RAISED = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)"
_NO_MODULE = r"(?:ModuleNotFound|Import|Connection|HTTP\w*|URL|GatedRepo|EntryNotFound|RepositoryNotFound|FileNotFound|OS)Error"
_BAD = r"(?:(?:nans?|inf|infinity|infinite|non-?finite|not finite|not a number)\b|∞)"
_LIMIT = r"(?![\w/]*(?:max|clip|std|init|target|threshold))"
BAR_AT_0 = r"[^|]*\|[^|]*\| *0/\d{1,12} \[[\d:]{1,9}<\?[^\]]*\]\W*$"
"""It shows the numbers that a script begins with, not those of a step."""
_NUMBER = (
    r"(?:loss|losses|grad(?:ient)?s?(?:[ _]norm)?|rewards?|logits|advantages?|perplexity|ppl|kl|entropy|accuracy|log_?probs?"
    r"|f1|bleu|rouge\w{0,4}|auc|wer|cer|scores?|mse|mae|m?iou|mean_iou|dice|map|psnr)"
)
_NOT_SAVED = (
    r"(?:failed|failure|error|died|incomplete|corrupt(?:ed)?|timed out|not (?:be )?(?:saved|written|uploaded)|refused|denied"
    r"|skipped(?!\W{0,3}(?:0\b|false|none))|disk (?:is )?full|0 bytes)"
)
CHECKPOINT_WORDS = ("heckpoint", "save ", "saving ", "shard ", "global_step_")
"""Ordinary words of checkpoints; a line with them is doubtful only if it also contains one of the next, in any case."""
NOT_SAVED_WORDS = (
    *("fail", "error", "died", "incomplete", "corrupt", "timed out", "not "),
    *("refused", "denied", "skipped", "full", "0 bytes"),
)
_BRIDGE = r"(?:mbridge|legacy|vanilla|generic|default|fallback|without|hf|hugging ?face)"
_NAN_WORDS = ("nan", "NaN", "NAN", " inf", ":inf", "=inf", "'inf", "(inf", "[inf", "Inf", "finite", "∞", "not a number")
_BRIDGE_WORDS = ("bridge", "Bridge")

_BEFORE_THE_END: tuple[tuple[str, tuple[str, ...]], ...] = (
    # An exception that is mentioned, caught or not. What could not be imported or reached at the start is ordinary, and
    # PowerShell's record (`[], RemoteException`) of a program's first line on stderr.
    (
        rf"(?<![\w.\"'])(?!(?:\w+\.)*{_NO_MODULE}\b)(?!.*thrown while requesting )"
        rf"(?<!raise )(?<!except )(?<!\[\], )(?!NativeCommandError$){_RAISED}(?:\(['\"]|: \S|\W*$)",
        ("rror", "xception"),
    ),
    (
        r"(?i)^\W*(?:an )?(?:exception|error)(?: occurred)? (?:in|while|during|at)\b|never retrieved|hit an exception",
        ("rror", "xception", "never ret"),
    ),
    (
        rf"^[\d:., -]*(?:{_SYMBOLS}+ ?)?(?:\w+ \| )?(?:ERROR|FATAL|CRITICAL)\b(?! *[:=]? *0\b|: pip's dependency resolver )"
        r"|^(?:\S+ \S+ )?\[(?:error|critical) *\]",
        ("ERROR", "FATAL", "CRITICAL", "error", "critical"),
    ),
    (
        r"(?i)\"(?:level|severity|levelname)\": *\"(?:error|critical|fatal)\"|\blevel=(?:error|critical|fatal)\b"
        r"|^(?:fatal )?error: ",
        ("rror", "ERROR", "critical", "fatal", "CRITICAL", "FATAL"),
    ),
    # Compiled code, and programs in other languages.
    (
        r"^terminate called |^\s+what\(\): |\bpanicked at |^panic: |^Exception in thread \"|Segfault encountered",
        ("terminate called", "what():", "panic", "xception", "Segfault"),
    ),
    (
        r"NCCL operations have failed|NCCL error in|kernel errors might be asynchronously|\bout of memory: Killed\b",
        ("ailed", "NCCL error", "rror", "illed"),
    ),
    (
        r"(?i)^(?:\S+: line \d+: +\d+ +|\[\d+\][-+]? +)(?:killed|aborted|terminated|segmentation fault)\b",
        ("illed", "borted", "erminated", "egmentation"),
    ),
    (r"(?i)worker group FAILED|\bwas restarted because\b|\bworker\b.* crashed\b", ("FAILED", "was restarted", "crashed")),
    # Memory that ran out in a part of a step, and work that was left out.
    (
        r"(?i)^(?!.*\b(?:avoid\w*|prevent\w*|may|might|could|if|can|risk\w*|without)\b)"
        r".*(?:\bOOM\b|\bout of memory\b)(?!.*_adj)",
        ("OOM", "ut of memory"),
    ),
    (
        r"(?i)(?<!will )\b(?:skip(?:ped|ping)|dropp(?:ed|ing)) (?:the |this |a )?(?:(?:micro|mini)-?)?"
        r"(?:batch|(?:optimizer )?step|update)\b(?!.*loss scale)|\b(?:batch|update) (?:was )?(?:skipped|dropped)\b",
        ("kipp", "ropp"),
    ),
    (
        rf"(?i)(?:step|batch|update|rollout|scoring) \d+ (?:has )?failed\b"
        rf"|{_SYMBOLS} *(?:training|step|sav(?:e|ing))\b.* failed\b",
        ("ailed",),
    ),
    (
        r"(?i)^(?=.*\b(?:reward|scor))(?=.*\b(?:error|failed|failure|timeout|exception|respond)\b)"
        r".*\b(?:to|returning|score ?=|reward ?=) ?0(?:\.0)?\b",
        ("rror", "ailed", "imeout", "xception"),
    ),
    (
        r"(?i)^(?!.*\b(?:no|not|without|0|if|when|until|may|might|can|could|would|against|avoid\w*|prevent\w*|check\w*|detect\w*)\b)"
        r".*\b(?:(?:gradients?|loss|losses|training|run) (?:explosion\b|exploded\b|(?:has |have )?diverged\b|is exploding\b)"
        r"|exploding gradients?\b)",
        ("xplosion", "xploded", "xploding", "iverged"),
    ),
    (
        r"(?i)\bexiting (?:\w+ ){0,3}early\b|\btime (?:budget|limit) (?:is |was )?(?:used up|reached|exceeded|exhausted)\b"
        r"|\bran out of data\b|\bnot to be a single sample in your epoch_iterator\b",
        ("arly", "ime budget", "ime limit", "an out of data", "epoch_iterator"),
    ),
    (
        r"(?i)^(?!exception ignored |.*\b(?:if|when|may|might|can|could|would|no|0|without)\b)"
        r".*\b(?:errors?|exception|crash\w*|went wrong|fehler|erreur|errore|fallo)\b.{0,80}"
        r"\b(?:ignor\w+|moving on|continu\w+|carry\w* on|going on|skipp\w+|wird ignoriert|on continue|continuando)\b",
        ("rror", "xception", "rash", "ent wrong", "ehler", "rreur", "allo"),
    ),
    (
        r"(?i)\b\d{1,9} (?:of|/|out of) \d{1,9} (?:samples|images|batches|rollouts|instances|examples|rows|prompts)\b"
        r".{0,40}\b(?:could not|unreadable|corrupt\w*|gave up|lost)\b",
        ("could not", "nreadable", "orrupt", "gave up", "lost"),
    ),
    # Requests that were not met.
    (
        rf"(?i)bridge\b.*\b(?:not (?:available|installed|found|supported)|unavailable|disabled|failed|could not)\b"
        rf".*\b(?:using|use|try\w*|retry\w*|continu\w+)\b.*\b{_BRIDGE}\b",
        _BRIDGE_WORDS,
    ),
    (
        rf"(?i)\b(?:could not|no|not)\b.*bridge\b.*\b(?:using|trying)\b.*\b{_BRIDGE}\b"
        r"|\b(?:switch\w*|downgrad\w*|falls? back|fell back) (?:back )?to (?:\w+ ){0,6}m?bridge\b"
        r"|\bnot supported by AutoBridge\b",
        _BRIDGE_WORDS,
    ),
    (
        r"(?i)\bfallback bridge\b|\bbridge(?: backend)?: *\W*(?:\w+ \()?(?:fallback|legacy|vanilla)|\busing mbridge because\b"
        r"|\binstead of megatron.bridge\b|\bwithout bridge\b|\bprovider not found\b.*\bdefault\b|\bbridge disabled for\b",
        (*_BRIDGE_WORDS, "provider not found"),
    ),
    (
        r"(?i)\bno (?:trainable parameters|parameters (?:require|are trainable))"
        r"|\bno (?:target )?modules (?:were )?(?:matched|found)\b"
        r"|\b(?:to|found|matched|injected|converted|wrapped) 0 (?:\w+ )?(?:lora |adapter |linear )?(?:modules|layers|adapters)\b"
        r"|\blora modules: \[\]|\b(?:lora|adapter)s?\b[^:=]{0,20}: *0(?:\.0*)?(?![\w%]|[.,]\d| *%)",
        ("o trainable", "o parameters", " modules", "o target", "LoRA", "lora ", "dapters", " layers"),
    ),
)
_ALWAYS: tuple[tuple[str, tuple[str, ...]], ...] = (
    # Numbers outside of the trainers' lines of metrics.
    (
        rf"(?i)^(?=.*(?<![a-z]){_BAD})(?!{BAR_AT_0})(?!.*\bimprov\w+\b.*\binf(?:inity)? *(?:-+>|→|to) *\d)"
        rf".*?\b{_LIMIT}(?:[\w-]+/)*(?:\w+_)?{_NUMBER}(?: value| ppl| is| are| became| contains?)?"
        r"[\"'`]?\s*(?:[:=\uff1a│|,]|->)?"
        rf"\s*[\"'`(\[]?(?:[\w.]+\()?[\"']?[-+.]?{_BAD}",
        _NAN_WORDS,
    ),
    (
        rf"(?i)^(?=.*(?<![a-z]){_BAD}|.*overflow).*?(?:\b{_BAD} (?:detected |found |values? )?(?:in )?"
        rf"(?:the )?(?:local )?{_NUMBER}\b"
        rf"|\b{_NUMBER}\b[^:=]{{0,9}}[:=] *[-+\d.e]+ *(?:-+>|→|to) *{_BAD}"
        r"|\b(?:rewards|losses)\b[^:=]*[:=] *\[[^\]]*\b(?:nan|inf)\b|\bgradient overflow\b(?!.*scale))",
        (*_NAN_WORDS, "overflow"),
    ),
    (  # the rows of Ultralytics
        r"(?:^|\r)\s*(?:\d{1,6}/\d{1,6} +[\d.]+[GM]|all +\d+ +\d+)(?: +[\d.e-]+)* +(?:nan|inf)\b",
        ("nan", " inf"),
    ),
    (
        r"(?i)['\"]val-(?:core/[^'\"]+|aux/[^'\"]*(?:reward|score|acc)/mean[^'\"]*)['\"]: *"
        r"(?:np\.\w+\()?['\"]?[-+]?(?:nan|inf)\b",
        ("val-core/", "val-aux/"),
    ),
    (
        rf"(?i)\b(?:save|saving|checkpoint|global_step_\d+|shard)\b.*\b(?<!no )(?<!0 ){_NOT_SAVED}\b"
        r"|\b(?:could|can) ?not (?:be )?(?:write|save)\b.*\b(?:checkpoint|shard|model)\b",
        CHECKPOINT_WORDS,
    ),
    (
        r"(?i)^(?!.*\bimprov).*(?:\bdisk (?:is )?full\b|\bskipping (?:the )?sav(?:e|ing)\b|\bmodel\b.{0,40}\bnot saved\b"
        r"|\bcould not (?:push|upload)\b|\bnever wrote a file\b"
        r"|\bpermission denied\b.{0,80}(?:\.safetensors|\.pth?\b|\.ckpt|checkpoint))"
        r"|(?:保存|写入|上传|训练|评测|验证)\S{0,8}失败|磁盘空间不足",
        (
            *("isk is full", "isk full", "kipping sav", "kipping the sav", "not saved", "ould not push", "ould not upload"),
            *("never wrote a file", "ermission denied", "失败", "空间不足"),
        ),
    ),
    (r"^terminate called after|\bpanicked at |^Exception in thread \"main", ("terminate called", "panic", "xception")),
)
_DOUBTS = [(re.compile(pattern), table is _ALWAYS, words) for table in (_BEFORE_THE_END, _ALWAYS) for pattern, words in table]
_BY_WORDS = ByWords(((at, always), words) for at, (_, always, words) in enumerate(_DOUBTS))
WORDS = tuple(dict.fromkeys(word for table in (_BEFORE_THE_END, _ALWAYS) for _, words in table for word in words))
"""Every such line contains one of these."""


def doubtful(raw: bytes, ended: bool) -> str:
    """Return what the line says if it speaks against a run without faults, else ""; ``ended``: after the run's end."""
    wanted = tuple(at for at, always in _BY_WORDS.of(raw) if always or not ended)
    if not wanted:
        return ""
    text = log_lines.clean(raw, 0).text
    return text.strip() if _matches(text, wanted) else ""


@functools.lru_cache(maxsize=256)
def _matches(text: str, wanted: tuple[int, ...]) -> bool:
    """Return whether one of the patterns matches. Every process, and every run in a log, prints the same warnings."""
    return any(_DOUBTS[at][0].search(text) for at in wanted)
