"""An exception that a log shows: its class and message, the frames where it was raised, and the ones that were raised from it."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from .log_lines import Line

CUT_OFF = "a traceback without its last line"
GUESSED = "(cut off)"
"""The message of an exception of which the log shows only where it was raised, and its class."""
IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")
"""Classes of exceptions that an import statement raises."""
_VALIDATION = re.compile(r"\d validation errors? for \w+$")
"""The first line of pydantic's message."""
_PLUMBING = re.compile(r"/ray/_private/|/torch/nn/modules/module\.py|/runpy\.py|/contextlib\.py|/concurrent/futures/|^<")
"""Files that only pass calls on: a frame in them says little."""
_WRAPPER = re.compile(
    r"^(?:\w+\.)*(?P<caught>\w+): Caught \w+ in (?:DataLoader worker|pin memory thread|replica \d)"
    r"|^[\w.]+: .*error raised in its creation task"
    r"|^[\w.]*CheckpointException: CheckpointException ranks"
    r"|^[\w.]*(?:RayTaskError(?:\((?P<carried>\w+)\))?|ExceptionGroup|WorkerGroupError|TrainingFailedError)"
)
_OF_ELASTIC = re.compile(r"\s*(?:exitcode *: *-?\d|traceback *: *Signal ).*")
"""What torchrun's report says of the process that ended first."""
_PLACE_ONLY, _ERROR_IN_QUOTES = re.compile(r": at \d+:\d+:$"), re.compile(r"\w+(Error|Exception)\(")
_DIFFERS = re.compile(r"Mismatched elements: |Greatest \w+ difference: |Max \w+ difference\b")
_GOES_ON = (":", "root error(s) found.")
"""The next line completes one that ends so; the latter is TensorFlow's."""


@dataclass(frozen=True)
class Frame:
    """A place in code, as one entry of a traceback gives it."""

    file: str
    line: int
    name: str = ""
    code: str = field(default="", compare=False)
    """The line of code there, if the traceback shows it alone or marks it."""

    @property
    def says_little(self) -> bool:
        """Return whether the code there only passes calls on."""
        return bool(_PLUMBING.search(self.file))


@dataclass
class Link:
    """One exception of a chain: class, message, the lines after it, and the frames where it was raised (outermost first)."""

    number: int
    name: str
    text: str
    frames: tuple[Frame, ...] = ()
    rest: list[Line] = field(default_factory=list)
    code: str = ""
    """The line of code that raised."""

    @property
    def class_name(self) -> str:
        return self.name.partition("(")[0].rpartition(".")[2]

    @property
    def cut_off(self) -> bool:
        """Return whether the place is known but not the exception."""
        return not self.name and self.text.startswith(CUT_OFF)

    @property
    def guessed(self) -> bool:
        """Return whether the log ends before the exception's own line, so that only its class is known."""
        return self.text.startswith(f"{self.name}: {GUESSED}")

    @property
    def says_little(self) -> bool:
        """Return whether all its frames only pass calls on."""
        return all(frame.says_little for frame in self.frames)

    @property
    def begins(self) -> str:
        """Return the script whose end it was; "" if a function of it may have caught it."""
        return self.frames[0].file if self.frames and self.frames[0].name == "<module>" else ""

    @property
    def at_exit(self) -> bool:
        """Return whether somebody interrupted a program that only waited for its threads to end."""
        return self.class_name == "KeyboardInterrupt" and any(frame.name == "_shutdown" for frame in self.frames)

    @property
    def wrapper(self) -> bool:
        """Return whether it only carries the exception of another process or task, which follows."""
        return bool(_WRAPPER.search(self.text))

    @property
    def carried(self) -> str:
        """Return the class of the exception that it carries; "" if it does not say, or carries none."""
        match = _WRAPPER.search(self.text)
        return (match and (match["carried"] or match["caught"])) or ""

    def puts_in_words(self, first: Link) -> bool:
        """Return whether the function in which ``first`` was raised raises this one instead, to say what it looked for, or this
        one names the key that ``first`` did not find.
        """
        key = first.text.partition(": ")[2].strip("'\"")
        if (
            first.class_name == "KeyError" != self.class_name
            and len(key) > 2
            and re.search(rf"(['\"]){re.escape(key)}\1", self.text)
        ):
            return True
        found_nothing = first.class_name in ("IndexError", "KeyError", "StopIteration")
        if not (found_nothing and first.frames and self.frames and self.code.startswith("raise ") and ": " in self.text):
            return False
        caught, raised = first.frames[0], self.frames[-1]
        return (caught.file, caught.name) == (raised.file, raised.name)

    @property
    def _differs(self) -> list[str]:
        """Return the lines in which torch.testing or numpy.testing says how much differs."""
        return [line.text.strip() for line in self.rest if _DIFFERS.match(line.text)]

    @property
    def headline(self) -> str:
        """Return the text to show: the first line with content."""
        if _VALIDATION.search(self.text):  # which field is wrong, and how, are in the next two lines
            says = (line.text.strip() for line in self.rest[:2] if "For further information" not in line.text)
            return "; ".join([self.text, *says])
        if _PLACE_ONLY.search(self.text):  # Triton's, before the code and what is wrong with it
            named = [line.text.strip() for line in self.rest if _ERROR_IN_QUOTES.match(line.text)]
            return " ".join([self.text, *named[-1:]])
        if self.text.endswith(" in user code:"):  # TensorFlow's, whose frames and message follow indented
            named = [line.text.strip() for line in self.rest if line.text.strip().startswith(f"{self.class_name}: ")]
            return named[-1] if named else self.text
        if "NCCL error" in self.text and (said := [line.text.strip() for line in self.rest if line.text.strip()]):
            last = itertools.dropwhile(lambda text: not text.startswith("Last error:"), said)
            return " ".join([self.text, *itertools.islice(last, 2)])
        if self.text.endswith(" not close!"):
            return "; ".join([self.text, *self._differs])
        if self.text.rstrip(": ") != self.name:
            goes_on = (line.text.strip() for line in self.rest if self.text.endswith(_GOES_ON) and line.text.strip(" =-"))
            return " ".join([self.text, *itertools.islice(goes_on, 1)])
        if ":" not in self.text:  # it has no message, so the next line is another's
            return f"{self.text}: {self.code}" if self.code and self.class_name != "KeyboardInterrupt" else self.text
        first = next((f"{self.name}: {line.text.strip()}" for line in self.rest if line.text.strip(" =-")), self.text)
        root = itertools.dropwhile(lambda line: not line.text.startswith("Root Cause"), self.rest)
        return "; ".join(
            [first, *self._differs, *(" ".join(match[0].split()) for line in root if (match := _OF_ELASTIC.match(line.text)))]
        )


@dataclass
class Chain:
    """Exceptions that belong together, the original first."""

    number: int
    source: str
    links: list[Link] = field(default_factory=list)
    ignored: bool = False
    """Python printed that it ignores the exception."""
    header: str = ""
    """The line that began it; in Ray's messages it contains the method that was called."""
    quiet: bool = False
    """A logger printed it as a warning."""
    of_cpp: bool = False
    """Code in C++ threw it, and nothing caught it."""

    def causes(self) -> list[Link]:
        """Return the exceptions without those that only carry another, or in JAX say that frames were left out."""
        own = [link for link in self.links if not link.wrapper and link.class_name != "SimplifiedTraceback"] or self.links
        # Of a time-out the first exception often has no message; the one that was raised from it says what was waited for.
        says = next((at for at, link in enumerate(own) if ":" in link.text), 0) if own and "Timeout" in own[0].text else 0
        if len(own) > 1 and own[1].puts_in_words(own[0]):
            says = 1
        return [*own[says:], *own[:says]]
