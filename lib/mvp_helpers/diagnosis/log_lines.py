"""Lines of a log as a person reads them: who says it, how loud, and which lines together are one Python traceback.

Pure. Knows the prefixes of Ray, torch, srun, vLLM, uv, pytest and the usual loggers, and that a traceback of one process is torn
apart by the lines of others, or by where an excerpt begins and ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST_LINE = 16_384
"""Bytes of a line that are looked at."""
CONTINUATION_LINES = 40
"""So many lines after an exception's first may still belong to its message."""
LOST_AFTER_LINES = 300
"""A traceback of which nothing more came for so many lines of the log is complete."""
CUT_OFF = "a traceback without its last line"
MOST_OPEN = 128
"""Sources whose tracebacks may be open at the same time."""

_HEADER = re.compile(
    r"Traceback \(most recent call last\)|^(?:Exception raised in creation task|Unhandled error \(suppress).*ray::"
)
_SAID = re.compile(r"(?P<name>[A-Z]\w+) {2,}Traceback")
"""IPython names the exception's class beside the header."""
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\^_])|(?:\^\[|\ufffd)?\[(?:\d{1,2};)?\d{1,2}m")
"""Colours; also as they look where a page took the escape character away."""
_SOURCE = re.compile(
    r"(?P<who>\((?:[^()]*[^()\s] )?pid=\w+(?:, ip=[^(),\s]+)?\)"  # (WorkerDict pid=1, ip=10.0.0.1)
    r"|\((?:raylet|autoscaler|gcs_server)[^()]*\)"
    r"|\[(?:rank|default)\d+\]:"
    r"|\d{1,5}:(?= ?\S|   ))"  # srun --label
    r" ?"
    r"|\d{4}-\d\d-\d\dT[\d:.]+Z "  # containers' runtimes
    r"|[a-z][\w.-]*[-_]\d+ +\| (?=\S|  )"  # compose
    r"|\[\d{1,9}(?:\.\d+)?\] (?=\S)"  # the kernel, slurmd's steps, numbered lines
    r"|\d+\.\d+s\t\d+\t"  # notebooks
    r"|E {2,}(?=\S)"  # pytest
    r"|>(?: - | |$)"  # a quotation
    r"| *[|│] (?=\S|  )"  # exception groups, rich
)
_GLUED = re.compile(
    r"\d/\d+ \[[^\[\]]*\](?=\(\S+ pid=|\[rank\d|\[[EWFI]\d* |[EWFI]\d{4} |[A-Z]{4,8} \d\d-|slurmstepd: |srun: )"
    r"|\s(?=\[rank\d+\]: )"
)
"""Ends what stands before another process's line in the same line: a progress bar, mostly."""
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
_ERROR_LINE = re.compile(r"(\S+: )?(fatal )?error: |(failed|unable|could not|cannot) ", re.IGNORECASE)
_ECHO = re.compile(r"\++ \S")
_REPEATED = re.compile(r" \[repeated \d+x across cluster\].*$")
_FRAME = re.compile(
    r'\s*File ["“](?P<file>[^"“”]+)(?:["”], line (?P<line>\d+)(?:, in (?P<name>.+))?)?'  # perhaps cut off
    r"|(?:File )?\[?(?P<file_>[^\s\[\]():\"]+\.py|<[\w-]+>)(?:\]\([^)]*\))?(?::(?P<line_>\d+))?[,:]? in (?P<name_>[\w.<>]+)"
)
"""Python's; and IPython's, pytest's, rich's."""
_CODE = re.compile(r"\s|$|-+> *\d|\d+ |[│╭╰❱]|_ _ _|(?:Cell|Input) In ?\[")
"""How a line between frames begins that is the code of a frame, or points at it."""
_IMPORTS = re.compile(r"\s*(?:from \S+ )?import \S")
_CALLS = re.compile(r"(?P<name>[A-Za-z_]\w+)\(")
_RAISES = re.compile(r"(?:-+> *\d+)?\s*raise (?P<name>[\w.]+)\(")
_PLACE = re.compile(r"(?P<file>\S+\.py):(?P<line>\d+): \w+$")
_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\([\w.]+\))?"
_EXCEPTION = re.compile(rf"(?P<name>{_NAME})(?:: ?(?P<message>.*))?$")
_LOUD_NAME = re.compile(r"(?:Error|Exception|Interrupt|Exit|Exited|Died|Failure|Timeout|Unavailable|Empty)(?:\(\w+\))?$")
_DOTTED = re.compile(r"\w+(?:\.\w+)+: ?\S")
_WRAPPER = re.compile(
    r"^[\w.]*(?:RayTaskError(?:\((?P<carried>\w+)\))?|ExceptionGroup)|^[\w.]+: .*error raised in its creation task"
)
_FRESH = re.compile(r"[\w./-]+: (?:fatal )?(?:error|warning)\b|\++ \S|(?:error|fatal)(?:\[\w+\])?: |step:\d", re.IGNORECASE)
_REMOTE = re.compile(r"ray::\S+ \(pid=")
"""Stands in Ray's messages between chained exceptions, where Python prints its header."""
_BEGINS = frozenset("[0123456789ECFWIDNT")
"""First characters of what loggers print."""
_CODES = {"E": "ERROR", "F": "FATAL", "C": "FATAL", "W": "WARNING", "I": "INFO", "D": "DEBUG"}


@dataclass(frozen=True)
class Line:
    """One line without colours and prefixes. ``level`` is "" where the line does not say."""

    number: int
    text: str
    source: str = ""
    level: str = ""
    logged: bool = False
    """It had the preamble of a logger: a fresh record, never the rest of another."""

    @property
    def error(self) -> bool:
        """Calls itself an error."""
        return bool(self.text.strip()) and not self.quiet and bool(self.level or _ERROR_LINE.match(self.text))

    @property
    def quiet(self) -> bool:
        """Says of itself that it is no error, or is a command that a shell echoes."""
        return (
            self.level in ("INFO", "DEBUG", "NOTICE", "TRACE", "WARNING", "WARN")
            or bool(_QUIET.search(self.text))
            or bool(_ECHO.match(self.text))
        )


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    name: str = ""


@dataclass
class Link:
    """One exception of a chain: its class, its message with what follows, and where it was raised (outermost frame first)."""

    number: int
    name: str
    text: str
    frames: tuple[Frame, ...] = ()
    rest: list[Line] = field(default_factory=list)

    @property
    def class_name(self) -> str:
        return self.name.partition("(")[0].rpartition(".")[2]

    @property
    def cut_off(self) -> bool:
        """Only where it was raised is known, not what."""
        return not self.name and self.text.startswith(CUT_OFF)

    @property
    def wrapper(self) -> bool:
        """Only carries another process's or task's exception, which follows."""
        return bool(_WRAPPER.search(self.text))

    @property
    def headline(self) -> str:
        """What to show: the first line that says something."""
        if self.text.rstrip(": ") != self.name:
            return self.text
        return next((f"{self.name}: {line.text.strip()}" for line in self.rest if line.text.strip(" =-")), self.text)


@dataclass
class Chain:
    """Exceptions that belong together, the original first. ``traceback`` tells a printed traceback from a lone line."""

    number: int
    source: str
    traceback: bool
    links: list[Link] = field(default_factory=list)
    ignored: bool = False
    """Python itself said that the exception is ignored."""
    header: str = ""
    """The line that began it; Ray's names the method that was called."""

    def causes(self) -> list[Link]:
        """The exceptions without those that only carry another."""
        return [link for link in self.links if not link.wrapper] or self.links


def plain(raw: bytes) -> str:
    """One raw line as a terminal shows it in the end."""
    text = raw[:LONGEST_LINE].decode(errors="replace").rstrip("\r\n ")
    if "\x1b" in text or "[0m" in text:
        text = _ANSI.sub("", text)
    return text.rpartition("\r")[2] if "\r" in text else text


def clean(raw: bytes, number: int) -> Line:
    """One raw line of the log, its number counted from 1."""
    text = plain(raw)
    if ("%|" in text or "[rank" in text) and (glued := _GLUED.search(text)):
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


class Tracebacks:
    """Takes lines in order; gives back chains as they become complete."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._ignored: set[str] = set()
        """Sources of which Python said that it ignores the exception whose traceback follows."""

    @property
    def waiting(self) -> bool:
        """Whether the next lines matter whatever they say."""
        return bool(self._open)

    def take(self, line: Line) -> tuple[bool, list[Chain]]:
        """Whether the line belongs to a traceback, and the chains that are complete now."""
        done = self._forget(line.number)
        ignored = line.source in self._ignored
        self._ignored.discard(line.source)
        if line.text.startswith("Exception ignored "):
            self._ignored.add(line.source)
        opened = self._open.get(line.source)
        if _HEADER.search(line.text) or (opened and opened.continues and _REMOTE.match(line.text)):
            if opened and not opened.continues:
                done += self._close(line.source)
                opened = None
            if opened is None:
                chain = Chain(line.number, line.source, traceback=True, ignored=ignored, header=line.text)
                self._open[line.source] = opened = _Open(chain, logged=line.logged)
            opened.begin(line.number, said["name"] if (said := _SAID.match(line.text)) else "")
            return True, done
        if opened is None and not line.quiet and (frame := _FRAME.match(line.text)) and frame["name"]:
            # An excerpt that begins within a traceback, or one that another process tore apart.
            self._open[line.source] = opened = _Open(Chain(line.number, line.source, traceback=True), logged=line.logged)
            opened.begin(line.number)
        if opened and opened.take(line):
            return True, done
        if opened:
            done += self._close(line.source)
        if line.quiet or not (found := exception_in(line.text)):
            return False, done
        chain = Chain(line.number, line.source, traceback=False, links=[Link(line.number, *found)])
        self._open[line.source] = _Open(chain, last=line.number, logged=False)
        return True, done

    def rest(self) -> list[Chain]:
        """What is still open at the end of the log."""
        return [chain for source in list(self._open) for chain in self._close(source)]

    def _close(self, source: str) -> list[Chain]:
        chain = self._open.pop(source).finish()
        return [chain] if chain.links else []

    def _forget(self, number: int) -> list[Chain]:
        stale = [source for source, opened in self._open.items() if number - opened.last > LOST_AFTER_LINES]
        if not stale and len(self._open) > MOST_OPEN:
            stale = [min(self._open, key=lambda source: self._open[source].last)]
        return [chain for source in stale for chain in self._close(source)]


def exception_in(text: str) -> tuple[str, str] | None:
    """Class name and text when a line, alone, says that an exception was raised."""
    head = text.partition(":")[0]
    if not _LOUD_NAME.search(head) or not (match := _EXCEPTION.match(text)) or match["message"] is None:
        return None
    return match["name"], text


@dataclass
class _Open:
    """A chain that may go on. ``frames`` is None between an exception's line and the next traceback."""

    chain: Chain
    logged: bool
    """Whether each of its lines is a logger's record, as in vLLM; else a record begins something new."""
    last: int = 0
    frames: list[Frame] | None = None
    code: str = ""
    """The last line of code that was printed."""
    code_due: bool = False
    """The line before was a frame, so that the next is its code, even where a web page took its indentation."""
    continues: bool = False
    said: str = ""
    """The exception's class, where its header names it."""

    def begin(self, number: int, said: str = "") -> None:
        self.last, self.frames, self.continues, self.said = number, [], False, said

    def take(self, line: Line) -> bool:
        """Whether the line belongs here."""
        inside = self.frames is not None
        frame = _FRAME.match(line.text) if inside or (self.chain.links and self.chain.links[-1].wrapper) else None
        if frame:
            self.frames = [*(self.frames or []), _frame(frame)]
            self.code, self.code_due = "" if frame["line"] or frame["name_"] else self.code, True
        elif self.frames is not None:
            # A page may have indented all of it, or none.
            text = line.text.strip() if not self.code_due and exception_in(line.text.strip()) else line.text
            raised = _EXCEPTION.match(text)
            sure = raised and (_LOUD_NAME.search(raised["name"]) or _DOTTED.match(text) or raised["name"].startswith("Stop"))
            if not sure and (self.code_due or (raised and not raised["message"])):
                raised = None  # code, or where the log was cut
            if _CODE.match(text) or (self.code_due and not raised):
                shows = text.strip(" ^~-│") and not 'File "'.startswith(text.strip())
                self.code, self.code_due = text if shows else self.code, False
            elif raised:
                self.chain.links.append(Link(line.number, raised["name"], text, tuple(self.frames)))
                self.frames = None
            else:
                return False
        elif any(line.text.startswith(words) for words in _CHAIN):
            self.continues = True
        elif not self._continuation(line):
            return False
        self.last = line.number
        return True

    def _continuation(self, line: Line) -> bool:
        link = self.chain.links[-1] if self.chain.links else None
        if link is None or len(link.rest) >= CONTINUATION_LINES or self.continues:
            return link is not None and self.continues and not line.text.strip()
        if place := _PLACE.match(line.text):
            link.frames = (*link.frames, Frame(place["file"], int(place["line"])))
            return True
        raised = exception_in(line.text)
        if raised and link.wrapper:
            self.chain.links.append(Link(line.number, *raised))
            return True
        if (line.logged and not self.logged) or raised or _FRESH.match(line.text):
            return False
        link.rest.append(line)
        return True

    def finish(self) -> Chain:
        """The chain. Where the log ends, or is torn, before an exception's own line, its class is told at best."""
        links, frames = self.chain.links, tuple(self.frames or ())
        carried = _WRAPPER.search(links[-1].text) if links else None
        name = self.said or (carried and carried["carried"]) or ""
        if frames:
            inner = frames[-1]
            if (raises := _RAISES.match(self.code)) and _LOUD_NAME.search(raises["name"]):
                name = raises["name"]
            elif _IMPORTS.match(self.code) and inner.name in ("<module>", ""):
                name = "ImportError"
            place = f"{inner.file}:{inner.line}, in {inner.name}" if inner.name else inner.file
            if calls := _CALLS.search(self.code):
                frames = (*frames, Frame(inner.file, inner.line, calls["name"]))  # where it was when it raised
            links.append(Link(self.last, name, f"{name}: (cut off) {place}" if name else f"{CUT_OFF}: {place}", frames))
        elif name and (not links or carried):
            text = links[-1].text if links else ""
            links.append(Link(self.last, name, f"{name}: (cut off) {text}".rstrip(), links[-1].frames if links else ()))
        return self.chain


def _frame(match: re.Match[str]) -> Frame:
    file, line, name = (match[key] or match[f"{key}_"] or "" for key in ("file", "line", "name"))
    return Frame(file.replace("\\", "/"), int(line or 0), name)
