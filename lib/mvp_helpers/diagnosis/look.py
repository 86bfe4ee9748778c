"""What to look at after an error that no rule explains: what its message asks for, and the place in the code that raised it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..log_text.exceptions import Frame, Link
from .causes import Finding

EVIDENCE = 600
"""Characters of evidence that are kept."""
NO_FRAMES = "the lines before it, and its traceback, in the log of the process that printed it; this log has only this line"
ASKED = re.compile(r'what the message asks for \(".*?"\)(?:; |$)')
"""What it asks for; less than a sentence that explains the message."""
UNCHANGED = ", on the unchanged checkout, too"
_PARTS = re.compile(r"(?<=[.!?;]) +|(?<=Error): |, (?=but |please )")
"""Between two sentences of a message."""
_ASKS = re.compile(
    r"(?i)\b(?:must|should|(?<!can )requires?(?! a buffer)|needs? to(?! be known)|ha(?:s|ve) to be"
    r"|please|try (?:\w+ing|to)|consider|make sure|are you sure"
    r"|did you|do you|install|upgrade|unset|(?:increas|decreas|reduc|enabl|disabl)(?:e|ing)|instead"
    r"|(?:set(?! to)|pass|use|set the) [`'\"-]{0,3}\w+)\b"
)
"""What a sentence says that asks the reader for a change."""
_REPORTS = re.compile(
    r"(?i)^\[notice\]|tracemalloc|^Device set to|^but got\b"
    r"|report (a|the|this)|TORCHDYNAMO_|TORCH_LOGS|stack ?trace|(open|file) an issue|TORCH_USE_CUDA_DSA"
    r"|CUDA_LAUNCH|Did you mean|indices must be |must (?:have the same|match|be equal|be a matrix)|\(position \d+\) must be "
    r"|\bgot\b.{0,80}\binstead\b(?! of)|\barg(?:ument)? \d+ (?:\(\w+\) )?must be |TRACEBACK_FILTERING|\s{3,}: "
)
"""Such a sentence asks for a report or says what differs, not what to change; or it is a row of a table."""
_WARNS = re.compile(r"\bWARN(?:ING)?\b")
"""A warning that a program printed after its error."""
_PACKAGE = re.compile(r"-packages/(?!torch/|ray/|hydra/|omegaconf/|accelerate/utils/operations)(\w+)/")
"""A package that does more than pass calls on."""
_OF_PACKAGE = re.compile(_PACKAGE.pattern.replace("-packages/", "(?:-packages/|^)", 1))
"""A file of such a package, perhaps without the folder that packages are in."""
CHECKED_OUT = re.compile(r"(?:^|/)(?:verl|nemo_rl|megatron|mbridge)/")
"""Code of which an unchanged checkout can be compared."""


def at(cause: Finding, link: Link | None, culprit: Frame | None, target: Mapping[str, str]) -> str:
    """Return what to look at after an error that nothing explains: what the program said just before, what its message asks
    for, the settings that it names (``target["has"]``), the code that raised, an error before it (``target["outlived"]``), what a
    shell said (``target["shell"]``), or else the log.
    """
    texts = [cause.evidence, *(line.text for line in (link.rest if link else ()) if not (line.quiet or _WARNS.search(line.text)))]
    sentences = (part for text in texts if "HYDRA_FULL_ERROR" not in text for part in _PARTS.split(text))
    asked = next((part.strip() for part in sentences if _ASKS.search(part) and not _REPORTS.search(part)), "")
    code = _quoted(culprit) if culprit else ""
    again = UNCHANGED if culprit and CHECKED_OUT.search(culprit.file) else ""
    place = f"{culprit.name[: EVIDENCE // 6] or 'the code'} at {culprit.file}:{culprit.line}{code}{again}" if culprit else ""
    called = [frame for frame in link.frames if not frame.name.startswith("__getattr")] if link else []
    inner = _PACKAGE.search(called[-1].file) if called else None
    if culprit and culprit.code.startswith("sys.exit("):  # a package's command, which does nothing else
        place = ""
    elif culprit and inner and inner[1] not in culprit.file:
        raised = f"{called[-1].file.rpartition('-packages/')[2]}:{called[-1].line}"
        place = f"{place.removesuffix(UNCHANGED)}, which calls {inner[1]}{again} (it was raised at {raised})"
    elif culprit and culprit.code.startswith(("raise ", "assert ")) and (caller := _caller(link, culprit)):
        place += f", called by {caller.name} at {caller.file}:{caller.line}{_quoted(caller)}"
    elif culprit and (user := _user(called, culprit)):
        place += f", called by {user.file.rpartition('-packages/')[2]}:{user.line}{_quoted(user)}"
    before = f'what the log says just before it ("{cause.said_before[: EVIDENCE // 3]}")' if cause.said_before else ""
    found = [
        before,
        f'what the message asks for ("{asked[: EVIDENCE // 2]}")' if asked else "",
        target.get("has", ""),
        place,
        target.get("outlived", ""),
        f'what the shell said ("{target["shell"]}")' if target.get("shell") else "",
    ]
    if any(found):
        return "; ".join(filter(None, found))
    return NO_FRAMES if cause.chain else f"less +{cause.number} {target.get('log') or cause.log}"


def _quoted(frame: Frame) -> str:
    """Return the line of code of a frame, in brackets; "" if the log does not show it."""
    return f' ("{frame.code[: EVIDENCE // 4]}")' if frame.code else ""


def _caller(link: Link | None, culprit: Frame) -> Frame | None:
    """Return the frame that called ``culprit``; None if it is in a package or not known. It chose what that function refuses."""
    frames = link.frames if link else ()
    at = frames.index(culprit) if culprit in frames else 0
    return frames[at - 1] if at and frames[at - 1].name and "-packages/" not in frames[at - 1].file else None


def _user(called: Sequence[Frame], culprit: Frame) -> Frame | None:
    """Return the last frame of another package before ``culprit``, whose package refused what that one passed; None if no other
    was in between."""
    if not (package := _OF_PACKAGE.search(culprit.file)):
        return None
    earlier = called[: called.index(culprit)] if culprit in called else []
    others = (frame for frame in reversed(earlier) if (other := _OF_PACKAGE.search(frame.file)) and other[1] != package[1])
    return next(others, None)
