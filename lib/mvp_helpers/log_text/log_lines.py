"""Lines of a log as a person reads them: without colours and prefixes, and whether a line calls itself an error.

Pure. Knows the prefixes of Ray, torch, srun, vLLM, uv, pytest and the usual loggers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import AnyStr, Generic, TypeVar

from ..trainers.patterns.of_trainers import VERL
from . import caught

LONGEST_LINE = 16_384
"""Bytes of a line that are looked at."""
Item = TypeVar("Item")
Raw = tuple[bytes, int, int]
"""A line as it is in the log, its number, and what it may be by its words (see ``scan``)."""

_COLOUR = r"\[(?:\d{1,2};)?\d{1,2}m"
_ANSI = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\^_])"
    rf"|{_COLOUR}|\^\[{_COLOUR}|ESC{_COLOUR}|\ufffd{_COLOUR}"  # each begins with a letter: an optional beginning makes it slow
)
"""Colours, also without the escape character, which web pages remove or write as a word."""
_RESETS = ("\x1b", "[0m", "[0;0m")
"""A line with a colour contains one of these."""
_RAISED = r"(?:[a-z_]\w*\.)*[A-Z]\w+(?:Error|Exception)\b"
"""The beginning of an exception's line."""
_DAY = r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}"
"""A time as C's ctime writes it."""
_SOURCE = re.compile(
    r"(?P<who>\((?:[^()]*[^()\s] |[\w.>-]+\(\S*\) )?pid=\w+(?:, ip=[^(),\s]+)?\)"  # (A pid=1, ip=10.0.0.1), (A(f) pid=1)
    r"|\((?:raylet|autoscaler|gcs_server)[^()]*\)"
    r"|\((?:EngineCore|A[Pp][Ii]Server|Worker|V[Ll]{2}[Mm]Worker|DPCoordinator)(?:Process)?\d*(?:[_-]\w+)?"  # vLLM
    r"(?: \w+=\w+)*\)(?= )"
    r"|\[(?:rank|default)?\d+\]:|rank\d+\]:"  # perhaps an excerpt that begins within
    r"|\d{1,5}:(?!\d\d:\d\d\b)(?= ?\S|   )"  # srun --label
    r"|[\w.-]+/\d+ (?=\[(?:rank|default)\d+\]:)"  # nemo-run, torchx
    rf"|(?:{_DAY} ?)?\[\d+,(?:mpirank:)?\d+(?:,[\w.-]+)?\]<std(?:out|err)>:"  # mpirun --tag-output, SageMaker
    r"|\[pod/[\w./-]+\]"  # kubectl logs --prefix
    r"|\d{1,3}(?:\.\d{1,3}){3}:(?= )"  # pdsh, as DeepSpeed uses it; a host's name may be any word before a colon
    rf"|(?=\S{{0,62}}\d)[a-z][\w.-]{{1,62}}:(?=    +\S|   File | (?:\[rank\d|\[20\d\d-|Traceback \(most|{_RAISED})))"
    r" ?"
    r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} [\w.-]+ [\w.@/-]+(?:\[\d+\])?: (?=\S|  )"  # syslog, journalctl
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?"  # containers' runtimes
    r"|[a-z][\w.-]*[-_]\d+ +\| (?=\S|  )"  # compose
    r"|#\d{1,4} \d{1,5}\.\d{1,3} (?=\S|  )"  # Docker's builds
    r"|\[\d{1,9}(?:\.\d+)?\] (?=\S)"  # the kernel, slurmd's steps, numbered lines
    r"|\d+\.\d+s\t\d+\t"  # notebooks
    r"|\s{0,8}\d{1,6}[ \t](?=  File \"|Traceback \(most|" + _RAISED + r")"  # numbered lines
    r"|E {2,}(?=\S)"  # pytest
    r"|E (?=Traceback \(most|" + _RAISED + r")"  # RKNN
    r"|[A-Za-z]\w* pid=\d+(?:, ip=[^(),\s]+)?\) (?=\S)"  # an excerpt that begins within (TaskRunner pid=1)
    r"|>(?: - | |$)"  # a quotation
    r"|(?:\^C)+(?=\S)"  # a terminal echoes Ctrl-C
    r"|`{1,3}(?=[(\[A-Z])"  # a web page's mark of code
    r"| *[|│] (?=\S|  )"  # exception groups, rich
)
_GLUED = re.compile(
    r"\d/\d+ \[[^\[\]]*\](?=\(\S+ pid=|\[rank\d|\[20\d\d-|\[[EWFI]\d* |[EWFI]\d{4} |[A-Z]{4,8} \d\d-|[A-Z]{4,8}:\w"
    r"|slurmstepd: |srun: |/bin/\w+: |(?:\w+\.)*\w+(?:Error|Exception): )"
    r"|\s(?=\[rank\d+\]: )"
)
"""The end of a progress bar that shares a line with the output of another process."""
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}:(?=\S)"  # verl's loggers
    r"|(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{0,24}\]"  # SGLang adds its rank
    r"|\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?"
    r"|\[?(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?: \d{4})?\]?)[ \t]+(?=\S)"
)
"""A time without a level."""
_LEVELS = "ERROR|CRITICAL|FATAL|PANIC|WARNING|WARN|INFO|DEBUG|NOTICE|TRACE"
_LOGGER = re.compile(
    rf"(?P<a>{_LEVELS}) (?:(?:\d{{4}}-)?\d\d-\d\d (?:[\d:.,]+ )?(?:\[?[\w./]+:\d+\] ?|\[[^\]]*\] ?)?"  # vLLM
    r"|\[?[\w./]+\.py:\d+\] ?)"  # vLLM without a date
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\]?[ \t,:-]+(?:\[[^\]]*\][ :-]*){0,3}"  # Python's logging
    rf"(?:\S+ - |[\w.]+-(?=(?:{_LEVELS})-))?"
    rf"\[?(?P<b>{_LEVELS})\b\]?(?! \d{{3}}: [A-Z])(?: \d\d-\d\d [\d:.]+ \[?[\w.]+:\d+\]| \S+:\d+ --)?[ :-]*"
    r"|\[\d{4}-\d\d-\d\d [\d:,.]+ (?P<c>[A-Z]) \d+ \d+\] (?:\([\w-]+\) )?(?:\S+\.(?:cc|h|cpp):\d+: )?"  # Ray's C++
    rf"|\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\](?:\[[^\]]*\]){{0,2}}\[(?P<f>{_LEVELS})\](?: -)? ?"  # Hydra
    r"|\[?(?P<d>[EFWI])(?:\d{3,4} [\d:.]+)? [^\[\]]*\] "  # glog
    r"|(?P<j>[EFWID]) \d\d-\d\d \d\d:\d\d:\d\d [\w.]+:\d+\] "  # SkyPilot
    r"|\d+\.\d\d\.\d{3}\.\d{3} (?P<k>[EWID]) "  # llama.cpp
    rf"|\d\d/\d\d \d\d:\d\d:\d\d - (?:\S+ - )?(?P<l>{_LEVELS}) - (?:/\S+ - \S+ - \d+ - )?"  # OpenCompass, MMEngine
    rf"|\[(?P<g>{_LEVELS})\|[^\]]*\](?: [\d-]{{10}} [\d:,.]+)?(?: \S+:\d+)? (?:>> )?"  # transformers
    rf"|\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{{3}} \| (?P<h>{_LEVELS}|SUCCESS) *\| [\w.]+:[\w<>]+:\d+ - "  # loguru
    r"|\[\d\d/\d\d/\d{4}-[\d:]{8}\] \[TRT-LLM\] (?:\[RANK \d+\] )?\[(?P<i>[A-Z])\] "
    rf"|\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\S* \| [\w.:<>-]{{1,80}} \| (?P<m>{_LEVELS}) - "  # loguru without a level's column
    rf"|- \d\d:\d\d:\d\d\.\d{{3}} (?P<n>{_LEVELS}): +"  # HH-suite
    rf"| ?\d\d-\d\d-\d{{4}} \d\d:\d\d:\d\d:\d{{3}} \[pid=\d+ tid=\d+\] (?P<o>{_LEVELS}) +(?:[\w-]+:\d+ )?"  # cuFile
    rf"|\[?(?P<e>{_LEVELS})\]?(?! \d{{3}}: [A-Z])(?: {{1,2}}:(?= )|[: ])(?:[\w.-]+:(?=\S))? ?",  # Singularity pads the level
)
_QUIET = re.compile(
    r"\b\w*Warning: |^\s*(?:warning|note|hint|warn|info)\b|^Failed to load generation config| - skipping$"
    r"|\bNCCL INFO \S|\bpid=\d+\) (?:INFO|WARNING) \d\d-\d\d "  # also where a wrapper calls it an error
    r"|^mkdir: cannot create directory .*: File exists$"  # a script's without -p, which goes on
    r"|^(?:\[[\w:.]+\] - )?\"?\w*(?:dev|rank)\w*='[\w:./-]+'\"?$"  # a value that a program prints to be seen
    r"|' thrown while requesting [A-Z]+ https?://"  # the hub's client tries again
    r"|NCCL WARN Failed to open libibverbs\.so"  # it takes sockets
    r"|^Cannot use FA version \d"  # vLLM takes another kernel
    r"|^Failed to decode tool call: "  # of an answer: verl goes on without the call
    r"|^Error retrieving (?:safetensors|file list)"  # and looks into the folder
    r"|/session_\S+ is over \d+% full, available space: "  # Ray's node goes on until it has to spill
    r"|^error: resource\(s\) were provided, but no name was specified"  # kubectl delete of what a search did not find
    r"|^main: failed to get logger path"  # wandb writes no log of its own
    r"|^Could not load bitsandbytes native library|^\S*/libbitsandbytes_\w+\.so: undefined symbol"
    r"|^(?:[\d:.]+ )?\[[ID]\] \S|^Unable to initialize backend '\w+': "  # JAX's programs; another device may do
    r"|^load_backend: failed to find ggml_backend_init in "  # ggml takes the other backends
    r"|^Unable to register cu\w+ factory: "  # TensorFlow keeps the one that it has
    r"|^(?:git )?(?:root|remote(?: url)?|branch|commit|diff) error: Cmd\('git'\)",  # wandb looks for the code's version
    re.IGNORECASE,
)
_ERROR_LINE = re.compile(
    r"([^\x00-\x7f]{1,3} )?(\[[\w.-]+\] )?(\S+: )?(fatal )?error: |(\[[\w-]+\] )?abort(ed|ing)?: | *what\(\): +\w"
    r"|cuda error at \S+:\d+ code=\d|error : (?=[^\d%]{12,300}$)"
    r"|OpenCV(?:\([\w.-]+\) \S+:\d+: error| Error): |(?:\S+\.(?:cc|cpp|cu|h|hpp|cuh):\d+: )?check failed: \S"
    r"|(?:error|exception) (?!handling|reporting|logging|checking|tracking)\w+ing\b[^:]{0,80}: \S"
    r"|(?:\S.{0,200})?[/\\]ggml[\w-]*[/\\][\w-]+\.(?:cpp|cu|c|m|h):\d+: \S"  # GGML_ABORT
    r"|\[[\w-]+\] fail(ed|ure)?: (?!\W*(\d|no\b))"
    r"|(?:[a-z]\w*: )?(failed|unable|could not|cannot) (?![\w ]*: *0$)(?!.*\bfall(s|ing)? ?back\b)"
    r"|(?!.*(?:retry|again|attempt|skip|ignor|fall)).*\bfailed\b.*: \w+(?:Error|Exception)\(",
    re.IGNORECASE,
)
_OF_JOB = "Status message: "
"""Ray prints why a job failed as information."""
_ECHO = re.compile(r"\++ \S")
_REPEATED = re.compile(r" \[repeated \d+x across cluster\].*$")
_NESTED = re.compile(r"[EWFI]\d{4} \d\d:\d\d:\d\d\.|- \d\d:\d\d:\d\d\.\d{3} ")
"""The prefix of a logger whose lines another one prints, as of a program that was started in a container."""
_BEGINS = frozenset("[0123456789ECFWIDNT- ")
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
    """It has the prefix of a logger, or a time: a new record, never the continuation of another line."""
    recorded: bool = False
    """Its level is in the prefix of a program's logger, not a word with which a script begins it."""

    @property
    def error(self) -> bool:
        """Return whether the line calls itself an error."""
        if not self.text.strip():
            return self.loud  # what it reports is in the next line
        return not self.quiet and bool(self.level or _ERROR_LINE.match(self.text) or self.caught)

    @property
    def caught(self) -> str:
        """Return the exception whose text it prints, with its class; "" if it prints none."""
        return caught.named(self.text.strip(), self.loud)

    @property
    def loud(self) -> bool:
        """Return whether a logger calls it an error."""
        return self.level in ("ERROR", "CRITICAL", "FATAL", "PANIC")

    @property
    def warns(self) -> bool:
        """Return whether a logger calls it a warning, or less."""
        return self.level in ("INFO", "DEBUG", "NOTICE", "TRACE", "WARNING", "WARN")

    @cached_property
    def quiet(self) -> bool:
        """Return whether the line calls itself less than an error, or is a command echoed by a shell."""
        return (
            (self.warns and not self.text.startswith(_OF_JOB)) or bool(_QUIET.search(self.text)) or bool(_ECHO.match(self.text))
        )


def has_any(text: AnyStr, words: Iterable[AnyStr]) -> bool:
    """Return whether the text contains one of the words; ``any`` takes three times as long for one or two."""
    for word in words:  # noqa: SIM110
        if word in text:
            return True
    return False


class ByWords(Generic[Item]):
    """Items that each concern only the lines which contain one of their words.

    Most lines differ from others in their digits alone, so what a line may concern is remembered by its other characters.
    """

    MOST_LINES, LONGEST = 2048, 2048
    """This many lines, of this many bytes, are remembered."""

    def __init__(self, items: Iterable[tuple[Item, Iterable[str]]]) -> None:
        self._items = [(item, tuple(_letters(word.encode()) for word in words)) for item, words in items]
        self._known: dict[bytes, tuple[Item, ...]] = {}

    def of(self, line: bytes) -> tuple[Item, ...]:
        """Return, in order, the items of which a word is in the line, and perhaps some of which it would be with other digits."""
        letters = _letters(line)
        found = self._known.get(letters)
        if found is None:
            found = tuple(item for item, words in self._items if has_any(letters, words))
            if len(letters) <= self.LONGEST:
                if len(self._known) >= self.MOST_LINES:
                    self._known.clear()
                self._known[letters] = found
        return found


def _letters(text: bytes) -> bytes:
    return text.translate(None, b"0123456789")


def plain(raw: bytes) -> str:
    """Return a raw line as a terminal finally shows it."""
    if len(raw) > LONGEST_LINE:  # of one that a bar drew over itself, what it shows last
        raw = raw[-LONGEST_LINE:] if b"\r" in raw[-LONGEST_LINE:].rstrip() else raw[:LONGEST_LINE]
    text = raw.decode(errors="replace").rstrip("\r\n ")
    if any(reset in text for reset in _RESETS):
        text = _ANSI.sub("", text)
    return text.rpartition("\r")[2] if "\r" in text else text


def whole(raw: bytes) -> str:
    """Return a raw line of any length without colours, but with every state that a progress bar drew over itself."""
    text = raw.decode(errors="replace").rstrip("\r\n ")
    return _ANSI.sub("", text) if any(reset in text for reset in _RESETS) else text


def clean(raw: bytes, number: int) -> Line:
    """Return a raw line without colours and prefixes; ``number`` counts from 1."""
    text = plain(raw)
    if ("%|" in text or "[rank" in text or "it/s]" in text or "s/it]" in text) and (glued := _GLUED.search(text)):
        text = text[glued.end() :]
    source, level, logged, stamped, recorded = "", "", False, False, False
    while True:
        if match := _SOURCE.match(text):
            source += "" if logged else (match["who"] or "").lstrip("[")
        elif (not logged or _NESTED.match(text)) and text[:1] in _BEGINS and (match := _LOGGER.match(text)):
            level = match[match.lastgroup or 0]
            level = _CODES.get(level, "INFO") if len(level) == 1 else level
            logged, recorded = True, match.lastgroup != "e"
        elif match := _STAMP.match(text):
            stamped = True
        else:
            break
        text = text[match.end() :]
    if text.endswith("]") or "across cluster]" in text:
        text = _REPEATED.sub("", text)
    return Line(number, text, source, level, logged or stamped, recorded)


class Samples:
    """Leaves prompts and answers out of a log where verl's reward managers printed them: what they say is nothing about the run.

    A sample is left out only as a whole. Its lines are held until its end appears in the same source, and are read like any other
    when it does not come within ``MOST_LINES`` and ``MOST_BYTES``, or another sample begins first: an error cannot hide behind a
    line that only looks like the beginning of one. Lines of other sources are always read.
    """

    BEGIN = VERL.sample[0].encode()
    """Every first line of a sample contains it."""
    MOST_LINES, MOST_BYTES = 5000, 4 << 20

    def __init__(self) -> None:
        self._held: list[tuple[bool, Raw]] = []
        """Lines in order, each with whether it is of the sample's source."""
        self._source, self._bytes, self._answered = "", 0, False

    @property
    def waiting(self) -> bool:
        """Return whether a sample is open, so that every next line matters."""
        return bool(self._held)

    def take(self, raw: bytes, number: int, kinds: int = 0) -> list[Raw]:
        """Return the lines that can be read now, in order: this one, none, or those that were held."""
        if not self._held and self.BEGIN not in raw:
            return [(raw, number, kinds)]
        line = clean(raw, number)
        ready: list[Raw] = []
        begin, answer, end = (line.text.startswith(text) for text in VERL.sample)
        if begin:
            ready = self.rest()
            self._source = line.source
        elif not self._held:
            return [(raw, number, kinds)]
        own = line.source.startswith(self._source) if self._source else not line.source
        self._held.append((own, (raw, number, kinds)))
        self._bytes += len(raw)
        self._answered = self._answered or (own and answer)
        if own and end and self._answered:
            self._held = [(False, each) for of_sample, each in self._held if not of_sample]
            return self.rest()
        if len(self._held) > self.MOST_LINES or self._bytes > self.MOST_BYTES:
            return self.rest()
        return ready

    def rest(self) -> list[Raw]:
        """Return the lines that are held; the log, or the sample, ends."""
        lines = [each for _, each in self._held]
        self._held, self._bytes, self._answered = [], 0, False
        return lines
