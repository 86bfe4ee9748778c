"""The last line of a log that names an exception: a hint at what ended a trainer, while nothing has diagnosed it."""

from __future__ import annotations

import re

LONGEST = 500
_LOOKED_AT = 1000
"""Bytes of a line: a trainer must not be able to keep us busy with one that is nearly an exception's."""
_WORDS = (b"Error", b"Exception", b"Interrupt", b"Exit")
_LINE = re.compile(r"^(?:\(.*?\) *)?((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*)")
"""``ValueError: x``, ``ray.exceptions.RayTaskError(KeyError): …``, after Ray's ``(TaskRunner pid=7)``."""


def last(data: bytes) -> str:
    """Return the last line of ``data`` that names an exception, without Ray's prefix; "" when there is none."""
    # Most output has no such word: looking at it as a whole is much cheaper than line by line.
    if not any(word in data for word in _WORDS):
        return ""
    for line in reversed(data.split(b"\n")):
        begin = line[:_LOOKED_AT].lstrip()
        likely = any(word in begin for word in _WORDS)
        if likely and (match := _LINE.match(begin.decode(errors="replace").strip())):
            return match[1][:LONGEST]
    return ""
