"""The lines of files that a page shows: those that a verdict cites, of a log also its ends; and when a job's steps ended.

Every file is read once, a line at a time, whatever its size.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..base import files, redact
from ..base.mask import Masking
from ..base.paths import JobFolder
from ..base.verdict import Evidence
from ..trainers.patterns.of_trainers import VERL

HEAD, TAIL, AROUND = 30, 150, 3
"""Lines of a log that are shown: of its beginning, of its end, and around a line that is cited."""
LONGEST_LINE = 1 << 20
SHOWN = 240
"""Characters of a line that are shown."""
MOST_LINES = 400
_STEP = re.compile(VERL.metrics.encode())
_WORD = VERL.metrics_word.encode()


@dataclass
class Excerpt:
    """Some lines of one file. ``lines`` are number (from 1) and text, in order."""

    file: str
    lines: dict[int, str] = field(default_factory=dict)
    total: int = 0
    note: str = ""


@dataclass
class Excerpts:
    """What a page shows of the files of a folder, by their names in it."""

    files: dict[str, Excerpt] = field(default_factory=dict)
    step_seconds: dict[int, float] = field(default_factory=dict)
    """When the log showed each step: Unix time."""

    def has(self, file: str, line: int | None) -> bool:
        return line is not None and file in self.files and line in self.files[file].lines


def read(folder: JobFolder, evidence: Iterable[Evidence], mask: Masking) -> Excerpts:
    """Return the excerpts of a job; a file that cannot be read has a note instead."""
    offsets: dict[int, int] = {}
    excerpts = of_folder(folder.path, [folder.driver_log], evidence, mask, offsets)
    excerpts.step_seconds = _times(folder.log_times, offsets)
    return excerpts


def of_folder(
    root: Path,
    logs: Iterable[Path],
    evidence: Iterable[Evidence],
    mask: Masking,
    offsets: dict[int, int] | None = None,
    tail: int = TAIL,
) -> Excerpts:
    """Return the lines below ``root`` that are cited, and the ends of ``logs``; ``offsets`` gets where each step is in a log."""
    cited: dict[str, set[int]] = {str(log.relative_to(root)): set() for log in logs}
    ends = frozenset(cited)
    for each in evidence:
        if each.file and each.line is not None and not Path(each.file).is_absolute() and ".." not in Path(each.file).parts:
            cited.setdefault(each.file, set()).add(each.line)
    excerpts = Excerpts()
    for name, lines in cited.items():
        excerpt = excerpts.files[name] = Excerpt(name)
        try:
            _read(root / name, excerpt, lines, mask, tail if name in ends else None, {} if offsets is None else offsets)
        except OSError as error:
            excerpt.note = f"cannot be read: {error.strerror}"
    return excerpts


def _read(path: Path, excerpt: Excerpt, cited: set[int], mask: Masking, tail: int | None, offsets: dict[int, int]) -> None:
    """Read one file; of a log, which has a ``tail``, also both ends."""
    around = AROUND if tail is not None else 0
    wanted = {near for line in sorted(cited)[:MOST_LINES] for near in range(line - around, line + around + 1)}
    if tail is not None:
        wanted |= set(range(1, HEAD + 1))
    last: collections.deque[tuple[int, bytes]] = collections.deque(maxlen=tail or 0)
    with files.opened(path) as stream:
        for number, piece in files.lines(stream, LONGEST_LINE):
            if number == excerpt.total:  # the line goes on
                continue
            excerpt.total = number
            if excerpt.total in wanted:
                excerpt.lines[excerpt.total] = _shown(piece, mask)
            last.append((excerpt.total, piece[: 4 * SHOWN]))
            if tail is not None and _WORD in piece and (found := _STEP.search(piece)):
                offsets[int(found["step"])] = stream.tell()
    for number, piece in last:
        excerpt.lines[number] = _shown(piece, mask)
    excerpt.lines = dict(sorted(excerpt.lines.items()))


def _shown(line: bytes, mask: Masking) -> str:
    text = redact.data(mask.data(line[: 4 * SHOWN])).decode(errors="backslashreplace").rstrip("\r\n")
    text = re.sub(r"\x1b\[[0-9;:]*m", "", text).rpartition("\r")[2]
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _times(path: Path, offsets: dict[int, int]) -> dict[int, float]:
    """Return the Unix time at which the log had reached each offset; empty where no times were recorded."""
    waiting = collections.deque(sorted((offset, step) for step, offset in offsets.items()))
    times: dict[int, float] = {}
    try:
        for moment, size in _noted(path):
            while waiting and waiting[0][0] <= size:
                times[waiting.popleft()[1]] = moment
    except OSError:
        pass
    return dict(sorted(times.items()))


def _noted(path: Path) -> Iterator[tuple[float, int]]:
    with files.opened(path) as lines:
        for _, line in files.lines(lines, 100):
            fields = line.split()
            if len(fields) == 2 and all(map(bytes.isdigit, fields)):
                yield int(fields[0]) / 1000, int(fields[1])
