"""Lines of a log as a person reads them: without colours and prefixes, and whether a line calls itself an error.

Pure. Knows the prefixes of Ray, torch, srun, vLLM, uv, pytest and the usual loggers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_LINE = 16_384
"""Bytes of a line that are looked at."""

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\^_])|(?:\^\[|\ufffd)?\[(?:\d{1,2};)?\d{1,2}m")
"""Colours, also without the escape character, which web pages remove."""
_SOURCE = re.compile(
    r"(?P<who>\((?:[^()]*[^()\s] )?pid=\w+(?:, ip=[^(),\s]+)?\)"  # (WorkerDict pid=1, ip=10.0.0.1)
    r"|\((?:raylet|autoscaler|gcs_server)[^()]*\)"
    r"|\[(?:rank|default)?\d+\]:"
    r"|\d{1,5}:(?= ?\S|   )"  # srun --label
    r"|[\w.-]+/\d+ (?=\[(?:rank|default)\d+\]:))"  # nemo-run, torchx
    r" ?"
    r"|\d{4}-\d\d-\d\dT[\d:.]+Z "  # containers' runtimes
    r"|[a-z][\w.-]*[-_]\d+ +\| (?=\S|  )"  # compose
    r"|\[\d{1,9}(?:\.\d+)?\] (?=\S)"  # the kernel, slurmd's steps, numbered lines
    r"|\d+\.\d+s\t\d+\t"  # notebooks
    r"|E {2,}(?=\S)"  # pytest
    r"|[A-Za-z]\w* pid=\d+(?:, ip=[^(),\s]+)?\) (?=\S)"  # an excerpt that begins within (TaskRunner pid=1)
    r"|>(?: - | |$)"  # a quotation
    r"| *[|│] (?=\S|  )"  # exception groups, rich
)
_GLUED = re.compile(
    r"\d/\d+ \[[^\[\]]*\](?=\(\S+ pid=|\[rank\d|\[[EWFI]\d* |[EWFI]\d{4} |[A-Z]{4,8} \d\d-|[A-Z]{4,8}:\w|slurmstepd: |srun: )"
    r"|\s(?=\[rank\d+\]: )"
)
"""The end of a progress bar that shares a line with the output of another process."""
_STAMP = re.compile(
    r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{0,24}\]"  # SGLang adds its rank
    r"|\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?"
    r"|\[?(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?: \d{4})?\]?)[ \t]+(?=\S)"
)
"""A time without a level."""
_LEVELS = "ERROR|CRITICAL|FATAL|WARNING|WARN|INFO|DEBUG|NOTICE|TRACE"
_LOGGER = re.compile(
    rf"(?P<a>{_LEVELS}) \d\d-\d\d [\d:.]+ (?:\[?[\w.]+:\d+\] ?|\[[^\]]*\] ?)?"  # vLLM
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\]?[ \t,:-]+(?:\[[^\]]*\][ :-]*){0,3}(?:\S+ - )?"  # Python's logging
    rf"\[?(?P<b>{_LEVELS})\b\]?(?: \d\d-\d\d [\d:.]+ \[?[\w.]+:\d+\]| \S+:\d+ --)?[ :-]*"
    r"|\[\d{4}-\d\d-\d\d [\d:,.]+ (?P<c>[A-Z]) \d+ \d+\] (?:\([\w-]+\) )?(?:\S+\.(?:cc|h|cpp):\d+: )?"  # Ray's C++
    r"|\[?(?P<d>[EFWI])(?:\d{3,4} [\d:.]+)? [^\[\]]*\] "  # glog
    rf"|\[?(?P<e>{_LEVELS})\]?[: ](?:[\w.]+:(?=\S))? ?",
)
_QUIET = re.compile(r"\b\w*Warning: |^\s*(?:warning|note|hint|warn|info)\b", re.IGNORECASE)
_ERROR_LINE = re.compile(
    r"(\S+: )?(fatal )?error: |(failed|unable|could not|cannot) "
    r"|(?!.*(?:retry|again|attempt|skip|ignor|fall)).*\bfailed\b.*: \w+(?:Error|Exception)\(",
    re.IGNORECASE,
)
_ECHO = re.compile(r"\++ \S")
_REPEATED = re.compile(r" \[repeated \d+x across cluster\].*$")
_BEGINS = frozenset("[0123456789ECFWIDNT")
"""First characters of a logger's line."""
_CODES = {"E": "ERROR", "F": "FATAL", "C": "FATAL", "W": "WARNING", "I": "INFO", "D": "DEBUG"}


@dataclass(frozen=True)
class Line:
    """One line without colours and prefixes. ``level`` is "" if the line has none."""

    number: int
    text: str
    source: str = ""
    level: str = ""
    logged: bool = False
    """It has the prefix of a logger: a new record, never the continuation of another line."""

    @property
    def error(self) -> bool:
        """Return whether the line calls itself an error."""
        return bool(self.text.strip()) and not self.quiet and bool(self.level or _ERROR_LINE.match(self.text))

    @property
    def quiet(self) -> bool:
        """Return whether the line calls itself less than an error, or is a command echoed by a shell."""
        return (
            self.level in ("INFO", "DEBUG", "NOTICE", "TRACE", "WARNING", "WARN")
            or bool(_QUIET.search(self.text))
            or bool(_ECHO.match(self.text))
        )


def plain(raw: bytes) -> str:
    """Return a raw line as a terminal finally shows it."""
    text = raw[:LONGEST_LINE].decode(errors="replace").rstrip("\r\n ")
    if "\x1b" in text or "[0m" in text:
        text = _ANSI.sub("", text)
    return text.rpartition("\r")[2] if "\r" in text else text


def whole(raw: bytes) -> str:
    """Return a raw line of any length without colours, but with every state that a progress bar drew over itself."""
    text = raw.decode(errors="replace").rstrip("\r\n ")
    return _ANSI.sub("", text) if "\x1b" in text or "[0m" in text else text


def clean(raw: bytes, number: int) -> Line:
    """Return a raw line without colours and prefixes; ``number`` counts from 1."""
    text = plain(raw)
    if ("%|" in text or "[rank" in text or "it/s]" in text or "s/it]" in text) and (glued := _GLUED.search(text)):
        text = text[glued.end() :]
    source, level, logged = "", "", False
    while True:
        if match := _SOURCE.match(text):
            source += "" if logged else match["who"] or ""
        elif not logged and text[:1] in _BEGINS and (match := _LOGGER.match(text)):
            level = match["a"] or match["b"] or match["e"] or _CODES.get(match["c"] or match["d"] or "", "INFO")
            logged = True
        elif not (match := _STAMP.match(text)):
            break
        text = text[match.end() :]
    if text.endswith("]") or "across cluster]" in text:
        text = _REPEATED.sub("", text)
    return Line(number, text, source, level, logged)
