"""Replaces secret values, in the forms in which programs print them, by ``***``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

SHORTEST = 8
"""Bytes: masking a shorter value would black out ordinary text, so it is refused instead."""
MASKED = b"***"


class Mask:
    """Replaces values, and the forms in which programs usually print them, by ``***``."""

    def __init__(self, values: Iterable[str]) -> None:
        # The longest first: of two values of which one begins with the other no rest may stay.
        self._forms = sorted({form for value in values for form in forms(value)}, key=lambda form: (-len(form), form))

    def data(self, data: bytes) -> bytes:
        for form in self._forms:
            data = data.replace(form, MASKED)
        return data

    def text(self, text: str) -> str:
        return self.data(text.encode(errors="surrogateescape")).decode(errors="surrogateescape") if self._forms else text

    def value(self, value: Any) -> Any:
        """A copy of plain data (dicts, lists, scalars) with every text in it masked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value

    def stream(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks, masked also where a value begins in one and ends in another; only what may be such a beginning waits."""
        if not self._forms:
            yield from chunks
            return
        held = b""
        for chunk in chunks:
            data = held + chunk
            cut = self._safe(data)
            held = data[cut:]
            if cut:
                yield self.data(data[:cut])
        if held:
            yield self.data(held)

    def _safe(self, data: bytes) -> int:
        """Length of the part of ``data`` that can be masked now: no value begins in it and may end behind it."""
        cut = len(data)
        for form in self._forms:
            at = data.find(form[:1], max(0, len(data) - len(form) + 1))
            while 0 <= at < cut and not form.startswith(data[at:]):
                at = data.find(form[:1], at + 1)
            if 0 <= at < cut:
                cut = at
        # A whole value that lies across that cut must not be torn apart either.
        moved = cut < len(data)
        while moved:
            moved = False
            for form in self._forms:
                if (at := data.find(form, max(0, cut - len(form) + 1), cut + len(form) - 1)) >= 0 and at < cut:
                    cut, moved = at, True
        return cut


def forms(value: str) -> set[bytes]:
    """A value, its lines (Ray prints each with a prefix), and both as JSON, repr() and URLs show them."""
    from urllib.parse import quote

    forms = set()
    for part in {value, *value.splitlines()}:
        shown = (part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1], repr(part)[1:-1])
        forms |= {*shown, quote(part, safe="", errors="surrogateescape")}
    return {form for text in forms if len(form := text.encode(errors="surrogateescape")) >= SHORTEST}
