"""Mask secret values: replace them, in every form in which programs print them, by ``***``."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

SHORTEST = 8
"""In bytes. A shorter value is refused: masking it would hide ordinary text."""
MASKED = b"***"


class Masking(ABC):
    """Replaces values by ``***``."""

    @abstractmethod
    def data(self, data: bytes) -> bytes:
        """Return ``data`` with every value masked."""

    def text(self, text: str) -> str:
        """Return ``text`` with every value masked."""
        return self.data(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")

    def value(self, value: Any) -> Any:
        """Return a copy of plain data (dicts, lists, scalars) with every text in it masked, names included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value


class Mask(Masking):
    """Replaces given values, and the forms in which programs usually print them, by ``***``."""

    def __init__(self, values: Iterable[str]) -> None:
        # The longest first: where one value begins with another, no part of the longer one may remain.
        self._forms = sorted({form for value in values for form in forms(value)}, key=lambda form: (-len(form), form))

    def data(self, data: bytes) -> bytes:
        """Return ``data`` with every value masked."""
        for form in self._forms:
            data = data.replace(form, MASKED)
        return data

    def stream(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks masked, also where a value spans two of them; only a possible beginning of a value is kept back."""
        if not self._forms:
            yield from chunks
            return
        pending = b""
        for chunk in chunks:
            data = pending + chunk
            cut = self._safe(data)
            pending = data[cut:]
            if cut:
                yield self.data(data[:cut])
        if pending:
            yield self.data(pending)

    def _safe(self, data: bytes) -> int:
        """Return how much of ``data`` can be masked now: no value that begins in that part may end after it."""
        cut = len(data)
        for form in self._forms:
            at = data.find(form[:1], max(0, len(data) - len(form) + 1))
            while 0 <= at < cut and not form.startswith(data[at:]):
                at = data.find(form[:1], at + 1)
            if 0 <= at < cut:
                cut = at
        # Do not cut through a complete value either.
        moved = cut < len(data)
        while moved:
            moved = False
            for form in self._forms:
                if (at := data.find(form, max(0, cut - len(form) + 1), cut + len(form) - 1)) >= 0 and at < cut:
                    cut, moved = at, True
        return cut


def forms(value: str) -> set[bytes]:
    """Return a value, its lines (Ray prefixes each one), and both as JSON, repr() and URLs show them; only long enough forms."""
    from urllib.parse import quote

    forms = set()
    for part in {value, *value.splitlines()}:
        shown = (part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1], repr(part)[1:-1])
        forms |= {*shown, quote(part, safe="", errors="surrogateescape")}
    return {form for text in forms if len(form := text.encode(errors="surrogateescape")) >= SHORTEST}
