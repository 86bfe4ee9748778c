"""Python tracebacks in a log: the lines that belong together, read one after the other.

Pure. Lines of other processes may interrupt a traceback, and an excerpt may begin or end within one.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..trainers.patterns.of_trainers import VERL
from .exceptions import CUT_OFF, GUESSED, Chain, Frame, Link
from .log_lines import Line

CONTINUATION_LINES = 40
"""At most this many lines after an exception's first belong to its message."""
DUMPED_LINES = 400
"""At most this many lines after a fatal error are faulthandler's, which lists the frames of every thread."""
LOST_AFTER_LINES = 300
"""A traceback is complete when none of the next lines, this many, continued it."""
MOST_OPEN = 128
"""At most this many sources may have an open traceback."""

_HEADER = re.compile(
    r"(?<!\[['\"])Traceback \(most recent call last\)|^(?:Exception raised in creation task|Unhandled error \(suppress).*ray::"
)
_IGNORES = re.compile(
    r"^Exception ignored |\[[\w ]+\] Retry attempt failed:$|Exception while exporting Span|--- Logging error ---$"
    r"|^Exception in thread \S+ \(_readerthread\):$"
    r"|^Could not load bitsandbytes native library"
)
"""Python, wandb, OpenTelemetry and bitsandbytes say so directly before a traceback that does not end the program."""
_OF_NUMPY = "We expect that some modules will need time to support NumPy 2"
"""NumPy 2 says so, and after an empty line prints where a module that was built for NumPy 1 is imported."""
BETWEEN = 8
"""Lines of other processes that may come between the two, at most."""
SAME, NEAR = 80, 40
"""A part of an ignored traceback begins with as many characters, and comes at most this many lines later."""
_NAMED = re.compile(r"(?:RayTaskError\()?(?P<name>[A-Z]\w+)\)? {2,}Traceback")
"""IPython prints the exception's class beside the header."""
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME = re.compile(
    r'\s*(?:File ["“]|(?=[^\s"]+\.py", line \d+, in ))(?P<file>[^"“”]+)'  # perhaps cut off at its beginning or end
    r'(?:["”], line (?P<line>\d{1,9})(?:(?:,|(?P<dump>)) in (?P<name>.+))?)?'
    r"|(?:File )?\[?(?P<file_>(?:(?:[A-Za-z]:(?=\\))?[/\\][^\[\]():\"]{0,300}[/\\])?[^\s\[\]():\"]+\.py|<[\w .-]+>)"
    r"(?:\]\([^)]*\))?(?::(?P<line_>\d{1,9}))?[,:]? in (?P<name_>[\w.<>]+)"
    r"|(?P<cell>(?:Cell|Input) In ?\[\d+\]|[/~].*\.ipynb Cell \d+'?),?(?: line (?P<line_in_cell>\d{1,9}))?"
    r"(?:,? in (?P<name_in_cell>[\w.<>]+))?"
    r"|File (?P<module>[~/][^\s:\"]*\.py):(?P<line_in_module>\d{1,9})$"
)
"""A frame as Python, IPython, pytest and rich print it; perhaps cut off. ``dump``: by faulthandler, the innermost first."""
_TORN = re.compile(r'[^\s"]+\.py", line \d+, in ')
"""A frame without its beginning, which no exception's message continues with."""
_CODE = re.compile(r"\s|[\^~ ]*$|(?:\.{3,}|…)$|-+> *(?:<a href=[^>]*>|\[)?\d|\d+ |[│╭╰❱]|_ _ _|(?:Cell|Input) In ?\[")
"""The beginning of a line that shows the code of a frame, or marks a place in it."""
_RICH = re.compile(r"❱ +\d+ [│|]")
"""The line that rich marks in the code of a frame."""
_MARKED = re.compile(r"(?:-+> *(?:<a href=[^>]*>|\[)?\d+(?:</a>|\])?|❱ +\d+ [│|])(?P<code>.*?)\s*[│|]?$")
"""The line that IPython or rich marks in the code of a frame."""
_IPYTHON = re.compile(r"File [~/][^\s\":]*\.py:\d+, in [\w.<>]+\(")
"""A frame of IPython with the signature of its function."""
_PYTEST = re.compile(r"\S+\.py:\d+: in \w+$")
"""A frame of pytest's short tracebacks."""
_CREATES = re.compile(r"[\w.]*InstantiationException: Error in call to target '[^']*':$")
"""The first line of Hydra's message; the next one is the representation of the exception that it caught."""
_CAUGHT = re.compile(r"(?P<name>[A-Za-z_]\w*)\((?P<message>.*)\)$")
"""The representation of an exception."""
_WRAPPED = re.compile(r"(?P<path>[/~][^\s:│|]*)\s*[│|]?$")
"""The first part of a frame's path that rich wrapped."""
_GLUED = re.compile(
    r"\s*raise .*?(?:\s{8,}(?=(?:\w+\.)*\w+(?:Error|Exception)(?:\(\w+\))?: )|[\"')](?=\w+(?:Error|Exception): ?$))"
)
"""Code of a frame that shares a line with the exception, where a web page or a log removed the end of the line."""
IMPORTS = re.compile(r"\s*(?:from \S+ )?import \S")
"""A line of code that imports something."""
_CALLS = re.compile(r"(?P<whole>(?:\b(?!self\b)[A-Za-z_]\w+\.)?(?P<name>[A-Za-z_]\w+))\(")
_BAR = re.compile(r"^.{0,60}?\d%\|[^|]*\| *\d+/\d+ \[[^\]]*\]\s*")
"""A progress bar before the code of a frame in one line."""
_LISTED = re.compile(r"\\n', (?P<quote>['\"])(?P<text>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .{1,400}?)\\n(?P=quote)\]$")
"""The end of a traceback that was logged as a list of its lines."""
_RAISES = re.compile(r"(?:-+> *\d+)?\s*raise (?P<name>[\w.]+)\(")
_PLACE = re.compile(r"(?P<file>\S+\.py):(?P<line>\d{1,9}): \w+$")
_BARE = re.compile(r"\s+(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)$")
"""An exception without a message in a text that is indented."""
_OF_NCCL = re.compile(r"nccl\w+Error: ")
"""The second line of PyTorch's message about an error of NCCL, which explains the error's name."""
_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\([\w.]+\))?"
_EXCEPTION = re.compile(rf"(?P<name>{_NAME})(?:: ?(?P<message>.*))?$")
_LOUD_NAME = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Exited|Died|Failure|Timeout|Unavailable|Empty|BdbQuit|PackageNotFound|OutOfResources)(?:\(\w+\))?$"
)
_OF_LIBRARY = re.compile(r"(?:\w+\.)+(?:_?errors?|_?exceptions?|exc|lib|onnxruntime_pybind11_state|_impl)\.[A-Z]\w+$")
"""An exception by its module."""
_DOTTED = re.compile(r"\w+(?:\.\w+)+: ?\S")
_FRESH = re.compile(
    r"[\w./-]+: (?:fatal )?(?:error|warning)\b|\++ \S|(?:error|fatal)(?:\[\w+\])?: |KeyboardInterrupt$"
    r"|Aborted(?: \(core dumped\))?$|!{3,} Interrupted: |Ran \d+ tests? in [\d.]+ ?s$|FAILED \((?:failures|errors)=|"
    + VERL.metrics,
    re.IGNORECASE,
)
"""The beginning of a line that no exception's message continues with."""
_HEADED = {
    "CMake Error at ": "CMakeError",
    "Fatal Python error: ": "FatalPythonError",
    "Failed: DID NOT RAISE ": "Failed",  # pytest
    "Failed: Timeout (>": "Failed",
    "× No solution found when resolving ": "ResolutionError",  # uv
    "error    libmamba Could not solve ": "ResolutionError",
    "Error:   × failed to solve the conda requirements ": "ResolutionError",  # pixi
    "Error: × failed to solve the conda requirements ": "ResolutionError",
    "error: Failed to download ": "DownloadError",  # uv
}
"""How errors begin that the next lines explain and that Python did not raise; the name of each."""
_CRASHED = re.compile(r"(?:Current thread \S+|Stack) .*\(most recent call first\):")
"""After a fatal error faulthandler prints this before the frames that crashed, the innermost first."""
SYNTAX = re.compile(r"(?:Syntax|Indentation|Tab)Error\b")
"""Python could not parse the code."""
_PLACE_OF_CODE = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d{1,9})')
CODE_LINES = 4
"""The error of code that Python cannot parse comes at most this many lines after its place."""
_UNCAUGHT = re.compile(r"^(?:Uncaught|Unhandled)(?: [Ee]xception)?:? (?=[\w.]+(?:Error|Exception)\b)")
"""What a program's own hook prints before the exception that ends it."""
_THROWN = re.compile(r"(?:libc\+\+abi: )?terminate called after throwing an instance of '(?P<name>[\w:]+)'")
_WHAT = re.compile(r" *what\(\): +(?P<text>\S.*)")
"""What C++ prints of an exception that nothing caught: its class, and its text in the next line."""
_OF_MODULE = re.compile(r"^[\w./\\-]+\.py(?:::\S+)? - (?=(?:\w+\.)*\w+(?:Error|Exception): )")
"""What pytest's summary prints before the error of a module that it could not import."""
_REMOTE = re.compile(r"ray::\S+ \(pid=")
"""Ray's messages separate chained exceptions with this, where Python prints its header."""


class Tracebacks:
    """Collects chains of exceptions from lines in order."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._of_numpy: tuple[str, int] | None = None
        """The source that said last that NumPy prints where a module is imported, and the line after that."""
        self._ignored: dict[str, int] = {}
        """Sources that printed that the exception which follows is ignored, and the last line where that begins."""
        self._thrown: dict[str, tuple[int, str]] = {}
        """By source: the line in which C++ printed the class of an exception that nothing caught, and that class."""
        self._of_syntax: dict[str, tuple[int, Frame]] = {}
        """By source: the last place that a line gave without a function, as Python does for code that does not parse."""
        self._harmless: dict[str, int] = {}
        """Such exceptions, and their lines: another process may print one of them between the lines of another."""

    @property
    def waiting(self) -> bool:
        """Return whether a traceback is open or announced, so that every next line matters."""
        return bool(self._open or self._ignored)

    def take(self, line: Line) -> tuple[bool, list[Chain]]:
        """Return whether the line belongs to a traceback, and the chains that are complete now."""
        done = self._forget(line.number)
        ignored = line.number <= self._ignored.pop(line.source, 0)
        if line.text.startswith(_OF_NUMPY):
            self._of_numpy = line.source, line.number + 1
            ignores = True
        else:
            ignores = bool(_IGNORES.search(line.text))
            ignores |= self._of_numpy == (line.source, line.number) and not line.text.strip()
        if ignores:
            self._ignored[line.source] = line.number + 1 + BETWEEN
        opened = self._open.get(line.source)
        if _HEADER.search(line.text) or (opened and opened.continues and _REMOTE.match(line.text)):
            if opened and not (opened.continues or opened.carries or line.text.startswith("Original Traceback")):
                done += self._close(line.source)
                opened = None
            if opened is None:
                chain = Chain(line.number, line.source, ignored=ignored, header=line.text, quiet=line.quiet)
                self._open[line.source] = opened = _Open(chain, line.level, line.logged)
            opened.begin(line.number, named["name"] if (named := _NAMED.match(line.text)) else "")
            return True, done
        if opened and opened.continues and (line.text.startswith("    ") or _begins_within(line.text)):
            opened.begin(line.number)  # a web page, or who quoted it, left out the header
        if opened is None and not line.quiet and _begins_within(line.text):
            # An excerpt that begins within a traceback, or after lines of another process.
            self._open[line.source] = opened = _Open(Chain(line.number, line.source), line.level, line.logged)
            opened.begin(line.number)
        if opened and opened.take(line):
            return True, done
        if opened:
            done += self._close(line.source)
        if place := _PLACE_OF_CODE.fullmatch(line.text):
            self._of_syntax[line.source] = line.number, Frame(place["file"], int(place["line"]))
        if thrown := _THROWN.match(line.text):
            self._thrown[line.source] = line.number, thrown["name"]
        what = self._what(line)
        if line.quiet or not (lone := exception_in(line.text) or what):
            return False, done
        before, frame = self._of_syntax.pop(line.source, (0, Frame("", 0)))
        frames = (frame,) if SYNTAX.match(line.text) and line.number - before <= CODE_LINES else ()
        chain = Chain(line.number, line.source, links=[Link(line.number, *lone, frames)], ignored=ignored, of_cpp=lone == what)
        self._open[line.source] = _Open(chain, last=line.number)
        return True, done

    def _what(self, line: Line) -> tuple[str, str] | None:
        """Return class and text of an exception of C++ whose text is in the line; None if it is in another."""
        before, name = self._thrown.pop(line.source, (0, "")) if (what := _WHAT.match(line.text)) else (0, "")
        return (name, f"{name}: {what['text']}") if what and 0 < line.number - before <= BETWEEN and before else None

    def rest(self) -> list[Chain]:
        """Return the chains that are still open at the end of the log."""
        return [chain for source in list(self._open) for chain in self._close(source, end=True)]

    def _close(self, source: str, end: bool = False) -> list[Chain]:
        chain = self._open.pop(source).finish()
        if end and not chain.links:
            chain.links.append(Link(chain.number, "", f"{CUT_OFF}: only its first line is in the log"))
        texts = {link.text[:SAME] for link in chain.links}
        if chain.ignored:
            self._harmless |= dict.fromkeys(texts, chain.number)
        elif not chain.header:
            chain.ignored = all(chain.number - self._harmless.get(text, -NEAR) < NEAR for text in texts)
        return [chain] if chain.links else []

    def _forget(self, number: int) -> list[Chain]:
        if self._ignored:
            self._ignored = {source: last for source, last in self._ignored.items() if number <= last}
        stale = [source for source, opened in self._open.items() if number - opened.last > LOST_AFTER_LINES]
        if not stale and len(self._open) > MOST_OPEN:
            stale = [min(self._open, key=lambda source: self._open[source].last)]
        return [chain for source in stale for chain in self._close(source)]


def _begins_within(text: str) -> bool:
    """Return whether the line can only be a part of a traceback whose header is missing."""
    frame = _FRAME.match(text)
    return bool(frame and frame["name"]) or bool(_RICH.match(text) or _IPYTHON.match(text) or _PYTEST.match(text))


def exception_in(text: str) -> tuple[str, str] | None:
    """Return class name and text of the exception that a line by itself reports; None when it reports none."""
    text = _OF_MODULE.sub("", _UNCAUGHT.sub("", text), count=1)
    if text.endswith("]") and (listed := _LISTED.search(text)):
        text = listed["text"]
    stripped = text.lstrip(" ")
    if headed := next((name for begin, name in _HEADED.items() if stripped.startswith(begin)), ""):
        return headed, text
    head = text.partition(":")[0]
    if (
        not (_LOUD_NAME.search(head) or _OF_LIBRARY.match(head))
        or not (match := _EXCEPTION.match(text))
        or match["message"] is None
    ):
        return None
    return match["name"], text


@dataclass
class _Open:
    """A chain that may continue. ``frames`` is None between an exception's line and the next traceback."""

    chain: Chain
    level: str = ""
    """The level at which a logger printed it."""
    logged: bool = False
    """Whether a logger printed each of its lines, as in vLLM; otherwise a logger's line begins something new."""
    last: int = 0
    frames: list[Frame] | None = None
    code: str = ""
    """The line of code in it that says most: the first of a statement, the last of a listing."""
    listing: bool = False
    """The frame shows the lines around its code, as IPython, pytest and rich do."""
    code_due: bool = False
    """The previous line was a frame, so the next one is its code, even if a web page removed the indentation."""
    continues: bool = False
    named: str = ""
    """The exception's class, if the header contains it."""
    wrapped: str = ""
    """The first part of the next frame's path, if the previous line has only that."""

    @property
    def carries(self) -> bool:
        """Return whether its last exception only carries the one that follows."""
        return self.frames is None and bool(self.chain.links) and self.chain.links[-1].wrapper

    def begin(self, number: int, named: str = "") -> None:
        self.last, self.frames, self.continues, self.named = number, [], False, named

    def take(self, line: Line) -> bool:
        """Return whether the line continues this chain, and add it if so."""
        inside = self.frames is not None
        if inside and (glued := _GLUED.match(line.text)):
            line = dataclasses.replace(line, text=line.text[glued.end() :])
        frame = _FRAME.match(line.text) if inside or (self.chain.links and self.chain.links[-1].wrapper) else None
        if frame:
            before = self.frames or []
            place = _frame(frame, self.wrapped)
            self.frames, self.wrapped = [place, *before] if frame["dump"] is not None else [*before, place], ""
            # Of code that is in no file Python shows no line.
            self.code, self.code_due = "" if frame["line"] or frame["name_"] else self.code, not place.file.startswith("<")
            self.listing = not frame["line"]
        elif inside and (path := _WRAPPED.match(line.text)):
            self.wrapped = path["path"]
        elif self.frames is not None:
            # A web page may have indented every line, or none.
            indented = not self.code_due and (exception_in(line.text.strip()) or _BARE.match(line.text))
            text = line.text.strip() if indented else line.text
            raised = _EXCEPTION.match(text)
            sure = raised and (_LOUD_NAME.search(raised["name"]) or _DOTTED.match(text) or raised["name"].startswith("Stop"))
            if not sure and (self.code_due or (raised and not raised["message"])):
                raised = None  # code, or the end of an excerpt
            if _CODE.match(text) or (self.code_due and not raised):
                shows = text.strip(" ^~-│.…") and not 'File "'.startswith(text.strip())
                if shows and (self.listing or not self.code):
                    self.code = text = _BAR.sub("", text)
                    marked = _MARKED.match(text)
                    if self.frames and (marked or not self.listing):
                        code = marked["code"] if marked else text
                        self.frames[-1] = dataclasses.replace(self.frames[-1], code=code.strip())
                self.code_due = self.code_due and not text.strip()  # a copy may have an empty line after every line
            elif raised:
                self.chain.links.append(Link(line.number, raised["name"], text, tuple(self.frames), code=self.code.strip()))
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
        most = DUMPED_LINES if link and link.name == "FatalPythonError" else CONTINUATION_LINES
        if link is None or len(link.rest) >= most or self.continues:
            return link is not None and self.continues and not line.text.strip()
        if place := _PLACE.match(line.text):
            link.frames = (*link.frames, Frame(place["file"], int(place["line"])))
            return True
        if _CREATES.match(link.text) and (caught := _CAUGHT.match(line.text)) and _LOUD_NAME.search(caught["name"]):
            self.chain.links.append(Link(line.number, caught["name"], f"{caught['name']}: {caught['message']}", link.frames))
            return True
        of_nccl = "NCCL error" in link.text and _OF_NCCL.match(line.text)
        raised = None if of_nccl else exception_in(line.text)
        if raised and link.wrapper:
            self.chain.links.append(Link(line.number, *raised))
            return True
        another = line.logged and (line.level != self.level or not self.logged)
        if another or raised or any(begins(line.text) for begins in (_FRESH.match, _TORN.match, _PLACE_OF_CODE.fullmatch)):
            return False
        link.rest.append(line)
        return True

    def finish(self) -> Chain:
        """Return the chain. If the log ends before an exception's own line, guess at most its class."""
        links, frames = self.chain.links, tuple(self.frames or ())
        for crash in (link for link in links if link.name == "FatalPythonError"):
            crash.frames = _dumped(crash.rest)
        carried = bool(links) and links[-1].wrapper
        name = self.named or (links[-1].carried if links else "")
        if frames and carried and not any(frame.name for frame in frames):  # it ends within its first frame's path
            frames, self.code = links[-1].frames, ""
        if frames:
            inner = frames[-1]
            if (raises := _RAISES.match(self.code)) and _LOUD_NAME.search(raises["name"]):
                name = raises["name"]
            elif IMPORTS.match(self.code) and inner.name in ("<module>", ""):
                name = "ImportError"
            # When the excerpt cuts off a path, the frame before it is more useful.
            named = [frame for frame in frames if frame.name]
            known = next((frame for frame in reversed(named) if not frame.says_little), named[-1] if named else inner)
            place = f"{known.file}:{known.line}, in {known.name}" if known.name else known.file
            # The call that raised is one of the line's; what it is called on may say more than its name.
            names = [name for match in _CALLS.finditer(self.code) for name in dict.fromkeys((match["whole"], match["name"]))]
            frames = (*frames, *(Frame(inner.file, inner.line, name) for name in names))
            code = f": {self.code.strip()}" if self.code.strip() and known is (named[-1] if named else inner) else ""
            text = f"{name}: {GUESSED} {place}{code}" if name else f"{CUT_OFF}: {place}{code}"
            links.append(Link(self.last, name, text, frames, code=self.code.strip()))
        elif name and (not links or carried):
            text = links[-1].text if links else ""
            links.append(Link(self.last, name, f"{name}: {GUESSED} {text}".rstrip(), links[-1].frames if links else ()))
        elif not links and (announcement := self.chain.header.partition("Traceback (most")[0].strip(" :-|")):
            links.append(Link(self.chain.number, "", f"{CUT_OFF}: {announcement}"))  # the rest is cut off
        return self.chain


def _dumped(lines: Iterable[Line]) -> tuple[Frame, ...]:
    """Return the frames of the thread that crashed, outermost first, in what faulthandler printed after the error."""
    texts = itertools.dropwhile(lambda text: not _CRASHED.match(text), (line.text for line in lines))
    frames = itertools.takewhile(bool, map(_FRAME.match, itertools.islice(texts, 1, None)))
    return tuple(reversed([_frame(frame) for frame in frames if frame]))


def _frame(match: re.Match[str], folder: str = "") -> Frame:
    file = match["file"] or match["file_"] or match["cell"] or match["module"]
    line = match["line"] or match["line_"] or match["line_in_cell"] or match["line_in_module"]
    name = match["name"] or match["name_"] or match["name_in_cell"] or ""
    return Frame((folder + file).replace("\\", "/"), int(line or 0), name)
