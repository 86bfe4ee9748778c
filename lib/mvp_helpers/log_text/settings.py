"""Which settings that an error speaks of the log prints before it: options, entries of a configuration, and their values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from . import log_lines

LONGEST = 1 << 20
"""Bytes of a run's output that are searched: settings are printed when it starts."""
MOST = 3
"""Settings that are named."""
OUTPUT = "output_dir save_dir checkpoint_dir ckpt_dir default_local_dir save_folder output_folder out_dir"
"""Names of the setting for the folder in which a training saves."""
SIZES = (
    "ppo_micro_batch_size_per_gpu ppo_max_token_len_per_gpu per_device_train_batch_size train_micro_batch_size_per_gpu"
    " train_micro_batch_size micro_batch_size local_batch_size device_batch_size train_batch_size batch_size"
    " max_seq_length max_seq_len sequence_len seq_length seq_len max_length cutoff_len block_size max_model_len"
)
"""Names of the settings for how much a step of a training takes at once, the ones that decide first."""
_NAME = re.compile(
    r"(?<![\w/.])(?:--)?(?:\w+\.)*([A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+)(?![\w/(])|--([A-Za-z][\w-]+)|\bargs\.([A-Za-z]\w*)"
)
_NUMBERED = re.compile(r"(?<![\w.])([A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+) ?= ?(\d+)\b(?!\.\d)")
"""A name and its number: a function's own name for it may be a part of the setting's."""
_FUNCTIONS = re.compile(r"^(?:[a-z]\w*: )+")
"""What a program written in C puts before its message."""
_WORD = re.compile(r"[A-Za-z]+")
_QUOTED = re.compile(r"""['"`]([^'"`\s]{4,160})['"`]|(?<![\w./~-])((?:[\w.~-]*/)+[\w.-]+)""")
_KEY = (
    r"(?:(?<![\w-])--[A-Za-z][\w.-]*[ =]|(?<![\w./-])['\"]?[A-Za-z][\w.-]*['\"]? ?= ?"
    r"|(?:^\s*|(?<=[{,])\s*|(?=['\"]))['\"]?[A-Za-z][\w.-]*['\"]?: ?)"
)
_PATH = re.compile(r"(?<!\S)\S*/\S*")
_VALUE = r"""(?P<value>'[^'\n]{1,80}'|"[^"\n]{1,80}"|[^\s,:;(){}\[\]'"=][^\s,;(){}\[\]'"]{0,79})"""
_IS = r"(?P<option>--)?['\"]?(?:\w+\.)*%s['\"]?(?(option)[ =]|(?: ?[=:] ?| +\.{3,} ?))"
_NO_SETTING = re.compile(
    r"(?i)error:|\b(?:error(?! executing job with overrides: )|exception|warn\w*|traceback"
    r"|equivalent|recommend\w*|suggest\w*|consider|please|try|increas\w+|decreas\w+)\b"
)
"""A line with such a word proposes a value, or quotes it from an error; but Hydra prints the overrides in its line about one."""
_CALL = re.compile(r"\w\.\w+\($")
"""What precedes an argument of a call, as a message quotes it."""
_NO_VALUE = re.compile(r"(?i)\b(?:none|null) \(line \d+\)$")
_SHORT = 6
"""Characters of a part of a path that says little."""


def named_in(message: str, log: bytes, first: int, line: int | None) -> list[str]:
    """Return the settings that an error's ``message`` names, or whose value it names, the last printed ones first.

    ``first``, ``line``: the run's first line, and the error's (from 1; None: not known). Each with its line:
    ``lr=0.1 (line 3)``. A configuration may print one name with several values, for parts that the name alone does not show.
    """
    lines, there = _lines(log, first, line)
    message = _FUNCTIONS.sub("", message)
    kinds = (_of_numbers(message), _of_names(message, there), _of_values(message, there), _of_words(message, there))
    return next(filter(None, (_found(patterns, lines, first) for patterns in kinds)), [])


def having(names: str, log: bytes, first: int, line: int | None) -> list[str]:
    """Return the settings of one of these ``names`` that have a value, as ``named_in`` does."""
    lines, there = _lines(log, first, line)
    return [each for each in _found(_settings(iter(names.split()), there), lines, first) if not _NO_VALUE.search(each)]


def proposed(log: str, at: int) -> bool:
    """Return whether the line around ``at`` proposes what is there, or quotes it from an error."""
    begin, end = log.rfind("\n", 0, at) + 1, log.find("\n", at)
    return bool(_NO_SETTING.search(log[begin : end if end >= 0 else None]))


def _lines(log: bytes, first: int, line: int | None) -> tuple[list[str], str]:
    """Return the lines of the run before the error, and their text as names are compared."""
    text = b"\n".join(log.split(b"\n")[first - 1 : line and line - 1])[:LONGEST].decode(errors="replace")
    return text.split("\n"), text.lower().replace("-", "_")


def _found(patterns: Iterator[re.Pattern[str]], lines: list[str], first: int) -> list[str]:
    """Return the settings that fit one of ``patterns``, in turn."""
    printed = [_printed(pattern, lines) for pattern in patterns]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*printed))
    found = dict.fromkeys(filter(None, turns))
    return [f"{setting} (line {before + first})" for setting, before in itertools.islice(found, MOST)]


def _of_numbers(message: str) -> Iterator[re.Pattern[str]]:
    """Return patterns of the settings with a number that ``message`` has, whose name contains the parts of its name in order."""
    for name, number in _NUMBERED.findall(message):
        setting = _IS % r"[\w-]{0,40}".join(["", *map(re.escape, name.split("_")), ""])
        yield re.compile(rf"(?i)(?<![\w.-]){setting}(?P<value>{number}\b)")


def _of_names(message: str, there: str) -> Iterator[re.Pattern[str]]:
    """Return patterns of the settings that ``message`` names, of those that are ``there``."""
    names = (match[1] or match[2] or match[3] for match in _NAME.finditer(message))
    yield from _settings((name.lower().replace("-", "_") for name in names), there)


def _of_words(message: str, there: str) -> Iterator[re.Pattern[str]]:
    """Return patterns of the settings whose name is some words of ``message`` after one another."""
    words = [word.lower() for word in _WORD.findall(_PATH.sub(" . ", message))]
    runs = ("_".join(words[at : at + length]) for length in (4, 3, 2) for at in range(len(words) - length + 1))
    known: list[str] = []
    for name in runs:
        if name in there and not any(name in longer for longer in known):
            known.append(name)
    yield from _settings(iter(known), there)


def _settings(names: Iterator[str], there: str) -> Iterator[re.Pattern[str]]:
    for name in dict.fromkeys(names):
        if name in there:
            yield re.compile(rf"(?i)(?<![\w.-]){_IS % re.escape(name).replace('_', '[_-]')}{_VALUE}")


def _of_values(message: str, there: str) -> Iterator[re.Pattern[str]]:
    """Return patterns of the settings whose value is a path that ``message`` names, or the last part of one."""
    whole = [match[1] or match[2] for match in _QUOTED.finditer(message)]
    parts = [re.sub(r"\.\w{1,8}$", "", part) for path in whole if "/" in path for part in path.split("/")[-2:]]
    for value in dict.fromkeys([*(path for path in whole if "/" in path), *(part for part in parts if len(part) > _SHORT)]):
        if value.lower().replace("-", "_") in there:
            yield re.compile(rf"{_KEY}(?P<value>['\"]?{re.escape(value)}['\"]?)(?![\w/.-])")


def _printed(pattern: re.Pattern[str], lines: list[str]) -> list[tuple[str, int]]:
    """Return different settings in ``lines`` that fit, the last first, and how many lines are before each; not those in code
    or in errors."""
    found: dict[str, int] = {}
    for at in reversed(range(len(lines))):
        match = pattern.search(lines[at])
        if match is None or _NO_SETTING.search(lines[at]) or (at and lines[at - 1].lstrip().startswith('File "')):
            continue
        if match["value"].startswith("--") or lines[at][match.end() :][:1] in ("(", "["):
            continue
        if _CALL.search(lines[at][: match.start()]):
            continue
        setting = log_lines.plain(match[0].strip().encode())
        found.setdefault(setting[1:] if setting[0] in "'\"" and setting.count(setting[0]) % 2 else setting, at)
        if len(found) == MOST:
            break
    return list(found.items())
