"""Masks that outlive the values: salted hashes of every secret that a job of this shared root had, in ``user/secrets/.masks``.

What Ray remembers of a job (names of actors, nested env_vars, its own logs) is collected in bundles long after the values were
removed, also in bundles of other jobs. A hash finds a value again and does not contain it. To find one without trying every byte,
each also has the length and the first two bytes of what it masks.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator

import msgspec

from ..base import files
from ..base.documents import Damaged, read_as
from ..base.mask import MASKED, Masking, forms
from ..base.paths import SharedRoot

BEGINNING = 2
"""Bytes of a form that are kept in clear; at least ``SHORTEST`` minus these stay unknown."""


class _Form(msgspec.Struct):
    beginning: bytes
    size: int
    digest: bytes


class _Hashed(msgspec.Struct):
    """The forms of the secrets of one submission."""

    salt: bytes
    forms: list[_Form]

    def hash(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, key=self.salt, digest_size=16).digest()


class KnownMask(Masking):
    """Replaces every value whose hash is known, in each form in which programs print it."""

    def __init__(self, hashed: Iterable[_Hashed]) -> None:
        # By beginning and size, the longest first: where one value begins with another, no part of the longer one may remain.
        self._forms: dict[bytes, dict[int, list[tuple[_Hashed, set[bytes]]]]] = {}
        for each in hashed:
            for form in sorted(each.forms, key=lambda form: -form.size):
                known = self._forms.setdefault(form.beginning, {}).setdefault(form.size, [])
                if not known or known[-1][0] is not each:
                    known.append((each, set()))
                known[-1][1].add(form.digest)
        self._forms = {beginning: dict(sorted(sizes.items(), reverse=True)) for beginning, sizes in self._forms.items()}

    def data(self, data: bytes) -> bytes:
        """Return ``data`` with every value masked."""
        parts, end = [], 0
        for begin, stop in sorted(span for beginning in self._forms for span in self._spans(beginning, data)):
            if begin >= end:
                parts += [data[end:begin], MASKED]
            end = max(end, stop)
        return b"".join([*parts, data[end:]])

    def _spans(self, beginning: bytes, data: bytes) -> Iterator[tuple[int, int]]:
        sizes = self._forms[beginning]
        at = data.find(beginning)
        while at >= 0:
            for size, known in sizes.items():
                piece = data[at : at + size]
                if len(piece) == size and any(hashed.hash(piece) in digests for hashed, digests in known):
                    yield at, at + size
                    break
            at = data.find(beginning, at + 1)

    def masks(self, form: bytes) -> bool:
        """Return whether this very text is masked."""
        return (0, len(form)) in self._spans(form[:BEGINNING], form) if form[:BEGINNING] in self._forms else False


def remember(shared: SharedRoot, values: Iterable[str]) -> None:
    """Keep masks for these values; those that are known already are not written again. Raises OSError."""
    texts = sorted({form for value in values for form in forms(value)})
    known = mask(shared)
    if all(known.masks(text) for text in texts):
        return
    hashed = _Hashed(os.urandom(16), [])
    hashed.forms = [_Form(text[:BEGINNING], len(text), hashed.hash(text)) for text in texts]
    folder = shared.masks
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.write_bytes(folder / f"{secrets.token_hex(8)}.json", msgspec.json.encode(hashed), mode=0o600)


def mask(shared: SharedRoot) -> KnownMask:
    """Return the mask for everything that is collected about jobs of this shared root.

    Without a right to read the folder there is nothing to mask: its owner's secrets are then another user's.
    """
    hashed = []
    with contextlib.suppress(OSError):
        for path in shared.masks.glob("[!.]*.json"):
            with contextlib.suppress(OSError, Damaged):
                hashed.append(read_as(path, _Hashed))
    return KnownMask(hashed)
