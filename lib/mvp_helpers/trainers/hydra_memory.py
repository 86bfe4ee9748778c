"""Recorded answers about Hydra configs: for overrides that were accepted before, and for others that differ only in plain values.

A plain override gives an existing key a number, true or false. It changes that value, and those that are one interpolation of it
(``${data.max_prompt_length}``). Where no other interpolation refers to them or a part of their paths, the answer follows from a
recorded one without Hydra.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..base import files
from .hydra import select

_PLAIN = re.compile(r"([a-z_]\w*(?:\.[a-z_]\w*)+)=(true|false|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e-?\d+)?)", re.ASCII | re.IGNORECASE)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a set of overrides composed to; ``plain`` are its plain ones, the rest is as ``hydra_compose`` reports it."""

    plain: dict[str, str]
    followers: dict[str, list[str]]
    opaque: list[str]
    config: dict[str, Any]


@dataclass(frozen=True)
class Memory:
    """Where accepted overrides are recorded. ``content`` identifies the config files; without ``record``, only read."""

    folder: Path
    content: str
    record: bool

    def find(self, config_name: str, overrides: list[str]) -> dict[str, Any] | None:
        """Return what the overrides compose to, or None when only Hydra can tell."""
        plain, others = _split(overrides)
        for path in self._paths(config_name, overrides, others):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                answer = msgspec.json.decode(path.read_bytes(), type=Answer)
                if (config := _varied(answer, plain)) is not None:
                    return config
        return None

    def keep(self, config_name: str, overrides: list[str], composed: dict[str, Any]) -> None:
        """Record what Hydra composed: under all overrides, and as the newest with these overrides that are not plain."""
        if not self.record:
            return
        plain, others = _split(overrides)
        answer = msgspec.to_builtins(Answer(plain=plain, **composed))
        with contextlib.suppress(OSError):  # Only the next check gets slower.
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in self._paths(config_name, overrides, others):
                files.write_json(path, answer)

    def _paths(self, config_name: str, overrides: list[str], others: list[str]) -> list[Path]:
        # Not only the list itself: earlier versions of this project recorded something else under its digest.
        questions = ([self.content, config_name, overrides, "exactly"], [self.content, config_name, others, "any plain values"])
        digests = [hashlib.sha256(json.dumps(question).encode()).hexdigest()[:32] for question in questions]
        return [self.folder / f"{digest}.json" for digest in digests]


def _split(overrides: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the plain overrides, as key and value, and the others; where two overlap, their order counts: not plain."""
    keys = [text.partition("=")[0].lstrip("+~") for text in overrides]
    plain, others = {}, []
    for text in overrides:
        if (match := _PLAIN.fullmatch(text)) and sum(_overlap(match[1], key) for key in keys) == 1:
            plain[match[1]] = match[2]
        else:
            others.append(text)
    return plain, others


def _varied(answer: Answer, plain: dict[str, str]) -> dict[str, Any] | None:
    """Return the answer with these plain values instead of its own; None when they could change more than themselves."""
    if not answer.plain.keys() <= plain.keys():
        return None  # what was there before the missing ones is not known
    for key, text in plain.items():
        if answer.plain.get(key) == text:
            continue
        if not _change(answer, key, json.loads(text.lower()), plain):
            return None
    return answer.config


def _change(answer: Answer, key: str, value: float | bool, plain: dict[str, str]) -> bool:
    """Change a value in the answer's config, and those that follow it and are not given; False if more could change."""
    *parents, last = key.split(".")
    mapping = select(answer.config, ".".join(parents))
    if not isinstance(mapping, dict) or last not in mapping or isinstance(mapping[last], dict | list):
        return False
    if {*parents, last, ""}.intersection(answer.opaque):
        return False
    if any(".".join(parents[:depth]) in answer.followers for depth in range(1, len(parents) + 1)):
        return False  # another value is a copy of the mapping that contains it
    mapping[last] = value
    return all(other in plain or _change(answer, other, value, plain) for other in answer.followers.get(key, ()))


def _overlap(key: str, other: str) -> bool:
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")
