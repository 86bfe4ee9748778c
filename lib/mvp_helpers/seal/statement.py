"""The formats of a seal: an in-toto statement in a DSSE envelope, one envelope a line. Pure; no key is read here.

Sources: https://github.com/in-toto/attestation/tree/main/spec/v1 (statement, bundle) and
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md (envelope, pre-authentication encoding).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from .contents import Contents

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:mvp:job-seal:v1"
PAYLOAD = "application/vnd.in-toto+json"

Kind = Literal["end", "later", "added", "removed"]
"""``end``: sealed when the job had ended, as its runner asked; ``later``: on request, whatever was there then; ``added``: files
that a command of the toolkit added to a sealed folder; ``removed``: files that it removed on request, and the record of that."""


class Malformed(Exception):
    """A line that is not a seal; the text says why."""


@dataclass(frozen=True)
class Envelope:
    """One line of a seal, before its signature was checked."""

    payload: bytes
    keyid: str
    signature: bytes

    @property
    def signed(self) -> bytes:
        """The bytes that the signature is for."""
        return pae(self.payload)


@dataclass(frozen=True)
class Statement:
    """What one line of a seal states."""

    contents: Contents
    predicate: dict[str, Any]

    @property
    def kind(self) -> Kind:
        kind: Kind = self.predicate["kind"]
        return kind

    @property
    def removed(self) -> list[str]:
        """The names that were removed on request when this was stated."""
        return list(self.predicate.get("removed") or [])


def pae(payload: bytes) -> bytes:
    """Return DSSE's pre-authentication encoding of a statement."""
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)


def write(contents: Contents, predicate: dict[str, Any], keyid: str, sign: Callable[[bytes], bytes]) -> bytes:
    """Return one line: the signed envelope of a statement about ``contents``. The rest is in the predicate."""
    more = {"links": contents.links} | ({"unread": contents.unread} if contents.unread else {})
    document = {
        "_type": STATEMENT,
        "subject": [_subject(name, contents) for name in sorted(contents.files)],
        "predicateType": PREDICATE,
        "predicate": {**predicate, **more},
    }
    # A byte of a name that is not UTF-8 becomes the escape of a surrogate (as PEP 383 says), and nothing else becomes one.
    payload = json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace")
    signature = {"keyid": keyid, "sig": base64.b64encode(sign(pae(payload))).decode()}
    envelope = {"payloadType": PAYLOAD, "payload": base64.b64encode(payload).decode(), "signatures": [signature]}
    return json.dumps(envelope).encode() + b"\n"


def read(line: bytes) -> Envelope:
    """Return the envelope of one line. Raises Malformed."""
    try:
        document = json.loads(line)
        if document["payloadType"] != PAYLOAD:
            raise Malformed(f"its payloadType is {document['payloadType']!r}")
        [signature] = document["signatures"]
        return Envelope(
            base64.b64decode(document["payload"], validate=True),
            str(signature["keyid"]),
            base64.b64decode(signature["sig"], validate=True),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed(f"it is not a DSSE envelope with one signature ({type(error).__name__})") from None


def parse(payload: bytes) -> Statement:
    """Return the statement in a payload whose signature was checked. Raises Malformed."""
    try:
        document = json.loads(payload)
        if (document["_type"], document["predicateType"]) != (STATEMENT, PREDICATE):
            raise Malformed(f"it states {document['predicateType']!r}, not {PREDICATE}")
        predicate = dict(document["predicate"])
        files = {str(subject["name"]): str(subject["digest"]["sha256"]) for subject in document["subject"]}
        sizes = {
            str(subject["name"]): int(subject["annotations"]["size"])
            for subject in document["subject"]
            if "annotations" in subject
        }
        return Statement(Contents(files, dict(predicate.pop("links")), dict(predicate.pop("unread", {})), sizes), predicate)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed(f"it is not a statement about a job ({type(error).__name__})") from None


def _subject(name: str, contents: Contents) -> dict[str, Any]:
    """Return in-toto's descriptor of one file."""
    size = {"annotations": {"size": contents.sizes[name]}} if name in contents.sizes else {}
    return {"name": name, "digest": {"sha256": contents.files[name]}, **size}
