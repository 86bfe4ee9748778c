"""Read one log once: the errors in it, and how far the run was at each.

``Scan`` is pure over chunks of bytes. It looks only at lines that contain one of a few literal words, and at those that may
belong to a traceback, so that a log of any size costs little more than reading it.
"""

from __future__ import annotations

import codecs
import functools
import heapq
import itertools
import operator
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..base import files, word_search
from ..base.errors import BadInput
from ..log_text import doubts, log_lines, ordinary, step_record, tracebacks
from ..log_text.log_lines import ByWords, Samples
from ..success import proven, said
from .phases import PHASES, Phase
from .runs import Runs

CHUNK = 1 << 20
"""Bytes read at once; a longer line is looked at in pieces."""
FIRST_LINES, FIRST_BYTES = 5, 4096
"""Where a log's first line is looked for that shows, when it comes again, that the program was started again."""
WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""What a text in UTF-16 begins with, as PowerShell writes it."""
_FILLED = re.compile(rb"\0{8,}")
"""Zeros where a file was emptied while a program wrote it, or where its host went down. The file may still be text."""
_PAIRS = re.compile(rb"(?:[\t\n\r\x1b -~]\0){8,}")
"""Characters of ASCII in UTF-16, the low byte first."""
_CONTROLS, MOST_CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]"), 0.02
"""What text has hardly any of; others in UTF-16 leave some."""
_PADDED = re.compile(rb"\0+(?=[\r\n])")
"""Zeros with which a program fills the rest of a line."""
_COUNTER = re.compile(rb"\d ?/ ?\d| of \d")
"""A line that counts parts of the work begins none."""
_DIGITS = b"0123456789"
_TIME = re.compile(rb"\d{4}-\d\d-\d\d\D{1,2}\d\d\D\d\d\D\d\d")
LARGE = 8 << 20
"""Bytes of a file from which on a search program finds its lines of interest."""
_ERROR, _MARK, _RECORD, _UNKNOWN, _SAMPLE, _DOUBT = 1, 2, 4, 8, 16, 32
"""What a line may be by its words: an error, a mark of progress, evidence of success, any of them; the beginning of a sample;
what speaks against success."""


@dataclass
class Scan(Runs):
    """One log, read once."""

    _opening: bytes = b""
    """The first line of the log, without digits: when it comes again after an error, the program was started again."""
    _once: bytes = b""
    """That line, if it contains a date and time: with the same one after a run's end it is still that run's."""
    _opens: bytes = b""
    """Words of that line, as long as it matters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        words = self.signatures.once(("words", self.known_only), lambda: {phase: self._words_of(phase) for phase in PHASES})
        self._words = {phase: table.copy() for phase, table in words.items()}
        self._samples = Samples()
        self._number = 1
        self._offset = 0
        """The next line, when a file is read."""

    def _words_of(self, phase: Phase) -> dict[bytes, int]:
        """Return the words to search for in a run that is in ``phase``, and what a line with one may be."""
        words = dict.fromkeys(self.signatures.needles(since=phase, every=self.known_only), _ERROR)
        for mark in self.signatures.all_marks():
            for text in mark.any:
                words[text.encode()] = words.get(text.encode(), 0) | _MARK
        for word in self._ready:
            words[word] = words.get(word, 0) | _MARK
        for text in (*step_record.KINDS, *said.WORDS):
            words[text.encode()] = words.get(text.encode(), 0) | _RECORD
        for text in doubts.WORDS:
            words[text.encode()] = words.get(text.encode(), 0) | _DOUBT
        words[Samples.BEGIN] = _SAMPLE
        return words

    def _look(self) -> tuple[ByWords[int], ordinary.Shapes]:
        """Return what looks at a line of which only that it contains a word is known: at its words, and at its shape."""
        kinds = ByWords((kind, [word.decode(errors="replace")]) for word, kind in self._words["start"].items())
        return kinds, ordinary.Shapes(self.words())

    @functools.cached_property
    def _own_look(self) -> tuple[ByWords[int], ordinary.Shapes]:
        """That with the words of the log's first line."""
        return self._look()

    @property
    def _looks(self) -> tuple[ByWords[int], ordinary.Shapes]:
        return self._own_look if self._opens else self.signatures.once(("look", self.known_only), self._look)

    def _opens_with(self, beginning: bytes) -> None:
        """Remember the first line that says enough to recognise it, and search for it."""
        for line in beginning[:FIRST_BYTES].splitlines()[:FIRST_LINES]:
            letters = line.translate(None, _DIGITS)
            words = max(re.split(rb"\d+", line), key=lambda part: len(part.split()), default=b"").strip()
            kinds = functools.reduce(operator.or_, self._looks[0].of(line), 0)
            # What follows an error (the code in a traceback) or a step (its other numbers) may come again with the next one.
            if kinds & _ERROR or step_record.shows_step(log_lines.whole(line)):
                return
            if (
                len(letters.split()) < 2
                or len(words) < len("Driver Version:")
                or kinds
                or b"arning" in line
                or line.startswith(b'  File "')
                or line.startswith(b"Ultralytics ")  # its versions, before each validation, too
                or line.rstrip().endswith(b":")  # as multiprocessing's before each process's traceback
                or _COUNTER.search(line)
                or (opening := log_lines.clean(line, 1)).source
                or opening.level.startswith("WARN")
                or (beginning.count(words) > 2 and _between_steps(beginning, letters.strip()))
            ):
                continue
            self._opening, self._opens = letters.strip(), words
            self._once = line.strip() if _TIME.search(line) else b""
            for table in self._words.values():
                table.setdefault(words, _MARK)
            return

    def words(self) -> list[bytes]:
        """Return every word that is searched for in a file."""
        return list(self._words["start"])

    def read_file(self, path: Path) -> Scan:
        """Read a log. Raises BadInput if it cannot be read, is empty, or is not text."""
        chunks = pieces(path)
        first = next(chunks)
        if len(first) < CHUNK and (inner := _without_margin(first)) != first:  # the whole log, as a web page quotes it
            return self.read([inner])
        self._opens_with(first)
        searchable = path.stat().st_size >= LARGE and not files.has_hole(path) and not _odd(path)
        if searchable and (blocks := word_search.lines(path, self.words())):
            try:
                with path.open("rb") as log:
                    return self._searched(log, blocks)
            except word_search.SearchFailed:
                return Scan(self.signatures, self.name, self.rank, self.known_only).read(pieces(path))
        return self.read(itertools.chain([first], chunks))

    def read(self, chunks: Iterable[bytes]) -> Scan:
        """Read the whole log; its pieces may end anywhere."""
        rest = b""
        for piece in chunks:
            cut = piece.rfind(b"\n") + 1
            if cut:
                self._chunk(b"".join((rest, memoryview(piece)[:cut])))  # one copy; slicing and adding would make two
                rest = piece[cut:]
            else:
                rest += piece
            if len(rest) > CHUNK:
                self._chunk(rest)
                self._number -= 1  # the line goes on
                rest = b""
        if rest:
            self._chunk(rest)
        return self._end()

    def _end(self) -> Scan:
        for line in self._samples.rest():
            self._read(*line)
        for chain in self._tracebacks.rest():
            self._chain(chain)
        self.findings = self.before.joined(self.findings)
        return self

    def _searched(self, log: BinaryIO, blocks: Iterable[bytes]) -> Scan:
        """Read the lines that a search program found, and those between them that may belong to a traceback."""
        for block in blocks:
            lines = iter(block.removesuffix(b"\n").split(b"\n"))
            for line in lines:
                if self._in_training:
                    self._several(log, [line, *lines])
                else:
                    self._found(log, line)
        self._between(log, log.seek(0, os.SEEK_END))
        log.seek(max(0, log.tell() - proven.TAIL))
        end = log.read()
        log.seek(0)
        self.success.read_ends(log.read(proven.TAIL), end)
        return self._end()

    def _several(self, log: BinaryIO, lines: list[bytes]) -> None:
        """Read lines that a search program found during a training: together, up to each that needs a look of its own."""
        kinds = [*self._looks[1].of(lines), 0]
        begin = 0
        while begin < len(lines):
            end = kinds.index(0, begin) if self._in_training else begin
            if begin < end:
                self._together(log, lines[begin:end], kinds[begin:end])
            for line in lines[end : end + 1]:
                self._found(log, line)
            begin = end + 1

    def _together(self, log: BinaryIO, lines: list[bytes], kinds: list[int]) -> None:
        """Read lines of known kinds; by halves, if the numbers of one need a look of its own."""
        step = ordinary.take(self.success.record, lines, kinds) if self._in_training else None
        if step is not None:
            self._step_done(step)
        elif len(lines) == 1:
            self._found(log, lines[0])
        else:
            for half in (slice(len(lines) // 2), slice(len(lines) // 2, None)):
                self._together(log, lines[half], kinds[half])

    def _found(self, log: BinaryIO, line: bytes) -> None:
        """Read a line that a search program found, ``number:offset:line``, after those before it that may matter."""
        number, offset, raw = line.split(b":", 2)
        self._between(log, int(offset))
        self.text_before = log, int(offset)
        self._one(raw, int(number), _UNKNOWN)
        self._number, self._offset = int(number) + 1, int(offset) + len(raw) + 1

    def _between(self, log: BinaryIO, end: int) -> None:
        """Read the next lines up to the offset ``end``, as long as they may belong to a traceback or a sample."""
        if self._waiting and self._offset < end:
            log.seek(self._offset)
        while self._waiting and self._offset < end:
            raw = log.readline(min(word_search.BLOCK, end - self._offset))
            self._one(raw, self._number, 0)
            self._number += raw.endswith(b"\n")
            self._offset += len(raw)

    def _chunk(self, chunk: bytes) -> None:
        """Read the lines of ``chunk`` that may matter; count the others."""
        self.success.read(chunk)
        candidates = self._candidates(chunk)
        at, counted, number = 0, 0, self._number
        upcoming = next(candidates, None)
        while at < len(chunk):
            if not self._waiting:
                if upcoming is None:
                    break
                at = upcoming[0]
            reached = upcoming is not None and upcoming[0] == at
            kinds = upcoming[1] if upcoming and reached else 0
            end = chunk.find(b"\n", at)
            end = len(chunk) if end < 0 else end + 1
            self.text_before = chunk, at
            number += chunk.count(b"\n", counted, at)
            counted = at
            self._one(chunk[at:end], number, kinds)
            at = end
            if reached:  # only now: what the next lines mean depends on this one
                upcoming = next(candidates, None)
        self._number = number + chunk.count(b"\n", counted) + (0 if chunk.endswith(b"\n") else 1)

    def _candidates(self, chunk: bytes) -> Iterator[tuple[int, int]]:
        """Yield the starts of the lines that contain a word, in order, each once, with what they may be."""
        # Another run may begin in this chunk, so that errors of its start matter again.
        words = self._words["start" if self.progress.phase == "done" else self.progress.phase]
        starts = heapq.merge(*(_starts(chunk, word, kinds) for word, kinds in words.items() if word in chunk))
        line, kinds = -1, 0
        for start, kind in starts:
            if start != line and line >= 0:
                yield line, kinds
                kinds = 0
            line, kinds = start, kinds | kind
        if line >= 0:
            yield line, kinds

    def _one(self, raw: bytes, number: int, kinds: int) -> None:
        """Read one line, unless a trainer quotes it; ``kinds``: what it may be by its words."""
        if not self._samples.waiting and Samples.BEGIN not in raw:
            self._read(raw, number, kinds)
            return
        for line in self._samples.take(raw, number, kinds):
            self._read(*line)

    def _read(self, raw: bytes, number: int, kinds: int) -> None:
        self.at = number
        if kinds & _RECORD and self.progress.phase == "train" and not self._tracebacks.waiting:
            lines = [b"::" + raw.removesuffix(b"\n")]
            if (step := ordinary.take(self.success.record, lines, self._looks[1].of(lines))) is not None:
                self._step_done(step)
                return
        if kinds & _UNKNOWN:
            kinds = functools.reduce(operator.or_, self._looks[0].of(raw), 0)
        if kinds & _ERROR and kinds & (_MARK | _RECORD) and tracebacks.exception_in(log_lines.clean(raw, number).text):
            kinds &= ~(_MARK | _RECORD)  # an exception may quote what a step returned
        if kinds & (_MARK | _RECORD):
            text = log_lines.whole(raw)
            if self.success.record.restarts(text):
                self._another_run()
            if kinds & _MARK:
                self._opens_again(raw, number)
                self._mark(raw)
            finite = not self.success.record.not_finite
            step = self.success.take(text)
            spoilt = finite and bool(self.success.record.not_finite)
            self.success.spoilt_at = number if spoilt else self.success.spoilt_at
            if step is not None:
                if self.progress.phase != "done":
                    self._step_done(step)
                glued = kinds & _ERROR and (b"%|" in raw or b"] - ETA: " in raw or b"\r" in raw.rstrip())
                if not (self._tracebacks.waiting or spoilt or glued):
                    if kinds & _DOUBT:  # a number in a form that the trainer's own metrics do not have
                        self.success.suspect(raw)
                    return
            kinds |= _ERROR if spoilt else 0
        belongs = False
        if kinds & _ERROR or self._tracebacks.waiting:
            belongs = self._line(log_lines.clean(raw, number))
        if kinds & _DOUBT and not belongs:
            self.success.suspect(raw)

    @property
    def _waiting(self) -> bool:
        """Return whether every next line matters."""
        return self._tracebacks.waiting or self._samples.waiting

    @property
    def _in_training(self) -> bool:
        """Return whether the next lines of metrics may need no more than a look at their steps."""
        return self.progress.phase == "train" and not self._waiting

    def _opens_again(self, raw: bytes, number: int) -> None:
        """Begin another run where the log's first line comes again after an error or a step; processes may share it before."""
        if not self._opening or number <= FIRST_LINES or raw.translate(None, _DIGITS).strip() != self._opening:
            return
        if self.progress.phase == "done" and raw.strip() == self._once:
            return
        if self._failed or self.stepped or self.findings.error_line:
            self._another_run()
        else:
            self._opening = b""
            for table in self._words.values():
                table.pop(self._opens)
            self._opens = b""


def _between_steps(log: bytes, letters: bytes) -> bool:
    """Return whether further steps of one run come before each line of these ``letters``, which then begins no run."""
    record, step, before = step_record.StepRecord(), 0, list[int]()
    for raw in log.splitlines():
        if raw.translate(None, _DIGITS).strip() == letters:
            before.append(step)
        elif record.restarts(text := log_lines.whole(raw)):
            return False
        else:
            step = record.take(text) or step
    return len(set(before)) > 2 and before == sorted(before)


def _without_margin(log: bytes) -> bytes:
    """Return the log without the spaces that every line with text begins with."""
    lines = log.splitlines(keepends=True)
    margin = min((len(line) - len(line.lstrip(b" ")) for line in lines if line.strip()), default=0)
    return b"".join(line[margin:] if line.strip() else line.lstrip(b" ") for line in lines) if margin else log


def _starts(chunk: bytes, word: bytes, kinds: int) -> Iterator[tuple[int, int]]:
    """Yield the starts of the lines that contain ``word``, with ``kinds``."""
    at = chunk.find(word)
    while at >= 0:
        yield chunk.rfind(b"\n", 0, at) + 1, kinds
        end = chunk.find(b"\n", at)
        at = chunk.find(word, end) if end >= 0 else -1


def pieces(path: Path) -> Iterator[bytes]:
    """Yield the log in pieces. Raises BadInput if it cannot be read, is empty, or is not text."""
    try:
        if path.is_dir():
            raise BadInput(f"{path} is a folder", hint="name a log in it")
        with path.open("rb") as stream:
            data = _data(stream)
            piece = next(data, b"")
            whole = itertools.chain([piece], data)
            data = _as_utf_8(whole) if piece.startswith(WIDE) else (_PADDED.sub(b"", _narrow(each)) for each in whole)
            piece = next(data, b"")
            if not piece.strip():
                raise BadInput(f"{path} is empty: there is nothing to explain")
            if b"\0" in piece[:8192] or piece.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")):
                raise BadInput(f"{path} is not text (compressed?)", hint="unpack it first")
            yield piece
            yield from data
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None


def _odd(path: Path) -> bool:
    """Return whether a log begins or ends in UTF-16 or with zeros: the search program reads it differently."""
    with path.open("rb") as log:
        first = log.read(8192)
        log.seek(max(path.stat().st_size - 8192, 0))
        return first.startswith(WIDE) or b"\0" in first + log.read(8192)


def _narrow(piece: bytes) -> bytes:
    """Return it with the parts that PowerShell appended in UTF-16 to a text of one byte a character as such a text."""
    if b"\0" not in piece or not _PAIRS.search(piece):
        return piece
    narrow = _PAIRS.sub(lambda pairs: pairs[0][::2], piece)
    text = len(_CONTROLS.findall(narrow)) < MOST_CONTROLS * len(narrow)
    return narrow.replace(b"\0", b"") if text else piece


def _as_utf_8(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a text in UTF-16, with its byte order mark, in UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for piece in pieces:
        yield decoder.decode(piece).encode(errors="replace")


def _data(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the content of an open file in pieces, without holes, also those that a copy has filled with zeros."""
    while piece := stream.read(CHUNK):
        if piece.endswith(b"\0") and files.skip_hole(stream):
            piece = piece.rstrip(b"\0")
        if b"\0" in piece:
            piece = _FILLED.sub(b"", piece)
        if piece:
            yield piece
