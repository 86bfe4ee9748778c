"""What a log shows of a run that ended early: its last progress line, its last checkpoint, where compiled code crashed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ..trainers.patterns.of_trainers import VERL
from . import log_lines

QUOTED = 110
"""Characters of a line that are quoted."""
LAST_LINES = 100
"""Search for progress in this many lines before the end."""
LONGEST = 1000
"""Characters of a line that are looked at."""
_WORKS = re.compile(
    r"(?i)\d ?/ ?\d|\d(?:it|s|\w*(?:examples?|steps?|samples?|batch(?:es)?|tokens?))/(?:s|it)\b"
    r"|\b(?:Evaluating|Validating|Testing|Generating|Downloading|Saving) |\b(?:loss|reward|acc(?:uracy)?)\b\W{1,3}\d"
    r"|\b(?:steps?|iter\w*|epochs?|batch(?:es)?|episodes?|rounds?|updates?|(?:valid|evalu|gener)at\w+|sav\w+|download\w*|load\w*)\b.*\d"
)
_BAR = re.compile(r"(?:[\w ]{1,30}: +)?\d+%\|.{0,200}?\d+/\d+(?: \[[^\[\]]*\])?")
_NO_WORK = re.compile(
    r"^(?:\([^)]*\))?\W*'\w+': [^{}]*,?$"  # of a printed configuration
    r"|^\s+File \"|^\s{4,}\S|Traceback \(|(?:Error|Exception|Interrupt)\b|[Kk]ill|[Ss]ignal|[Tt]erminat|https?://"
    r"|\b(?:srun|wandb): |\b[Mm]ake sure\b|\b[Pp]lease\b"
)
_WEIGHTS = re.compile(rb"Model loading took ([\d.]+ Gi?B)\b")
"""What vLLM says of the memory on each GPU that the weights take."""
_IS = r"['\"]?\s*(?:[:=|]|is\b)\s*['\"]?(?:(?:np\.)?\w+\()?['\"]?"
_BAD = re.compile(
    r"(?i)(?<![\w/])(?P<name>[\w/]{0,40}?(?:loss|grad_?norm|reward|score|kl|perplexity|entropy)[\w/]{0,40})"
    rf"{_IS}[+-]?(?:nan|inf)"
)
"""A metric that is not finite."""
VALUES, GROWN = 10, 1.5
"""How many values before it are compared; from which multiple of the first of them the last ones have grown."""
MOST_LINES = 1000
"""Parse at most this many lines that contain a word of ``_SAVES``."""
_SAVES = re.compile(
    rb"(?i)(?:sav|stor)(?:ed|ing)|wr(?:ote|iting|itten)|dumped|\xe4\xbf\x9d\xe5\xad\x98|" + VERL.saved_step.encode()
)
"""Every line that names a checkpoint contains one of these."""
_SAVED = re.compile(
    r"(?i)(?:^|[\W_])(?:saved|saving|stored|storing|wrote|writing|written|dumped)\b.{0,100}?"
    r"(?:checkpoint|ckpt|\bmodel|weight|adapter|global_step|\.pth?\b|\.safetensors)"
    r"|已保存.{0,20}(?:检查点|模型|权重|checkpoint)"
    r"|(?:checkpoint|ckpt|\bmodel|weights)\b[^.;]{0,100}?\b(?:saved|stored|written|dumped)\b|" + VERL.saved_step
)
_NOT_SAVED = re.compile(
    r"(?i)\b(?:will|would|start|begin\w*|not|cannot|fail(?:ed|s|ure)?|errors?|unable|if|to be|when|should"
    r"|skip\w*|how to|every|before)\b"
    r"|n't\b|\.\.\.\s*$|warn|exception|self\.|\(\)|^\s*def |\bimport |config|_steps?\b.?[=:]"
)
_CLOCK = re.compile(r"(?<![\d:<\[])([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?![\d:<])")
"""A time of day, except the durations in a bar."""
DATED_LINES = 20
"""A line without a time is as old as the last one with a time among this many before it."""
IDLE_S, MOST_S = 300, 12 * 3600
"""A run without progress for at least ``IDLE_S`` may hang; from ``MOST_S`` on times of day are ambiguous."""
HOUR = 3600
LAST_WORKS = 20
"""Of so many of the last lines with progress the longest time between two is usual."""
FRAMES = 40
"""A backtrace begins at most this many lines after the line that reports the crash, and is no longer."""
_C_FRAME = re.compile(
    r"@ +(?:0x)?[0-9a-f]{5,16} +(?P<glog>\S.*)|#\d+ +(?:0x[0-9a-f]+ in )?(?P<gdb>[^\s(]+) ?\(.*"
    r"|\[ ?\d+\] (?:\S*/)?(?P<library>[^/\s(]+)\((?P<mpi>[^+)]*)[^)]*\)\[0x"
)
"""A frame as glog (Ray, TensorFlow), gdb and Open MPI print it."""
_NO_NAME = re.compile(
    r"^\(?(?:unknown|nil)|^0x|libc[.-]|libpthread|ld-linux|linux-vdso|__kernel_rt|^\?\?|sigaction|restore_rt|raise$|abort$|_start"
    r"|FailureSignalHandler"
)

_NOT_WRITTEN = re.compile(r"(?i)\bserializ|StreamWriter|no space left|quota exceeded|read-only file system")
"""An error of a save."""
_BEGINS = re.compile(r"(?i)\b(?:sav|stor|writ|dump)ing\b")
"""A save begins; lines about its parts may follow before it fails."""
_PATH = re.compile(r"[~.\w-]*/[\w./-]+")


def before(log: bytes, first: int, line: int | None, evidence: str) -> dict[str, str]:
    """Return what a log shows of a run, from line ``first`` to ``line`` (from 1; None: the end), which contains ``evidence``.

    ``last``: the last progress line, with ``idle`` (the time from it to the end, if long), ``moved`` (if short) or ``undated``;
    ``saved``: the last line that names a checkpoint; ``weights``: what those of an engine take on each GPU.
    """
    lines = log.split(b"\n")[first - 1 : line]
    end, found = len(lines) - (line is not None), dict[str, str]()
    worked = ((at, text) for at in range(end - 1, max(end - LAST_LINES, 0) - 1, -1) if (text := _at_work(lines[at])))
    works = list(itertools.islice(worked, LAST_WORKS))
    last = works[0][1] if works else ""
    ended = log_lines.plain(lines[end]) if end < len(lines) else evidence
    if bars := _BAR.findall(ended[-LONGEST:]):  # a bar, and behind it what ended the run
        found = {"last": bars[-1][:QUOTED], "moved": "yes"}
    elif last:
        found = {"last": last, **_idle(lines, [at for at, _ in works], len(lines) - 1)}
    candidates = itertools.islice(filter(_SAVES.search, reversed(lines[:end])), MOST_LINES)
    if saved := _last_saved(list(filter(None, map(_saved, candidates))), evidence):
        found["saved"] = saved
    if weights := _WEIGHTS.findall(log):
        found["weights"] = weights[-1].decode()
    return found


def _idle(lines: Sequence[bytes], works: Sequence[int], end: int) -> dict[str, str]:
    """Return whether the run made no progress for long between its lines ``works[0]`` and ``end``, also measured by the earlier
    lines with progress.
    """
    times = [_clock(lines[max(work - DATED_LINES, 0) : work + 1]) for work in works]
    began, work = times[0], works[0]
    ended = _clock(lines[max(end - DATED_LINES, work + 1) : end + 1])
    elapsed = (ended - began) % (24 * HOUR) if began is not None and ended is not None else MOST_S
    if elapsed >= MOST_S or (elapsed >= HOUR and elapsed % HOUR < IDLE_S):  # whole hours: two time zones
        return {"undated": "yes"}
    usual = (
        (later - earlier) % (24 * HOUR)
        for later, earlier in itertools.pairwise(times)
        if later is not None and earlier is not None
    )
    return {"idle": f"{elapsed // 60} minutes"} if elapsed >= max(IDLE_S, *usual, 0) else {"moved": "yes"}


def _clock(lines: Sequence[bytes]) -> int | None:
    """Return the time of day of the last of ``lines`` with one, in seconds; None without one."""
    found = (_CLOCK.search(log_lines.plain(raw)[:LONGEST]) for raw in reversed(lines))
    return next((int(time[1]) * HOUR + int(time[2]) * 60 + int(time[3]) for time in found if time), None)


def _at_work(raw: bytes) -> str:
    text = log_lines.plain(raw)[:LONGEST].rstrip()
    return text.lstrip()[:QUOTED] if _WORKS.search(text) and not _NO_WORK.search(text) else ""


def _saved(raw: bytes) -> str:
    text = log_lines.plain(raw)[:LONGEST].strip()
    return text[: 2 * QUOTED] if _SAVED.search(text) and not _NOT_SAVED.search(text) else ""


def _last_saved(saved: Sequence[str], evidence: str) -> str:
    """Return the last of the lines that name a checkpoint, of which the first is the latest; not of a save that failed."""
    begun = next(filter(_BEGINS.search, saved), "") if _NOT_WRITTEN.search(evidence) else ""
    path = _PATH.search(begun)
    failed = path[0].rstrip("/.") if path else begun
    return next((text for text in saved if not (failed and failed in text)), "")


def values_before(log: bytes, first: int, line: int, evidence: str) -> dict[str, str]:
    """Return the values before ``line`` of the metric that is not finite there: as ``grew`` if they grew, else ``steady``."""
    if not (bad := _BAD.search(evidence[:LONGEST])):
        return {}
    value = re.compile(rf"(?i)(?<![\w/]){re.escape(bad['name'])}{_IS}(?P<value>-?\d[\d.]{{0,20}}(?:e[+-]?\d{{1,3}})?)")
    texts = (log_lines.plain(raw)[:LONGEST] for raw in reversed(log.split(b"\n")[first - 1 : line - 1][-MOST_LINES:]))
    found = [match["value"].rstrip(".") for match in itertools.islice(filter(None, map(value.search, texts)), VALUES)][::-1]
    try:
        numbers = list(map(float, found))
    except ValueError:  # 1.2.3
        return {}
    if not found:
        return {}
    shown = f"{bad['name']} {', '.join(found if len(found) < 4 else [*found[:2], '…', *found[-2:]])}"
    grew = len(numbers) > 2 and numbers[0] > 0 and min(numbers[-2:]) > GROWN * numbers[0]
    return {"grew": shown} if grew else {"steady": f" (before it: {shown})"}


def crashed_in(log: bytes, line: int) -> str:
    """Return the first frame with a name in the backtrace of compiled code below a log's line (from 1); "" without one."""
    frames = (_C_FRAME.search(log_lines.plain(raw)[:LONGEST]) for raw in log.split(b"\n", line + FRAMES)[line : line + FRAMES])
    for frame in filter(None, frames):
        name = frame["glog"] or frame["gdb"] or f"{frame['library']} ({frame['mpi']})".removesuffix(" ()")
        if not _NO_NAME.search(name):
            return name[:QUOTED].strip()
    return ""
