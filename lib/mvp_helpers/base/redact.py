"""Mask values that look like secrets, by their name or format, before they leave a host in a report.

People share reports, so mask in doubt. For values that a JobSpec names as secrets see ``job_secrets``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MASKED = "***"
_NAME = (
    r"[\w.-]*(?:(?<!(?:pad|eos|bos|unk|sep|cls)_)(?<!mask_)token(?![a-z.-]|_[a-z])|secret|passw(?:or)?d|passphrase|credential"
    r"|api_?key|access_?key|private_?key|signing_?key)"
    r"(?![\w.-]*(?:_file|_path|_dir|_mode|_id|s)\b)[\w.-]*"
)
"""Match "token" only at the end of a name: max_tokens is harmless, and so is pad_token, a word of a vocabulary."""
_SECRET_NAME = re.compile(rf"(?i)(?:{_NAME}|(?:\w+_)?(?:key|auth|pat|pwd))")
_LOOKS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|sk-[\w-]{20,}|nvapi-[\w-]{20,}|glpat-[\w-]{16,}"
    r"|xox[abps]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|ey[A-Za-z0-9_-]{10,}\.ey[\w-]{10,}\.[\w-]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_URL = re.compile(r"(\w+://)[^/\s:@'\"]*:[^/\s@'\"]+@")
_BEARER = re.compile(r"(?i)\b(bearer|basic) +[\w.~+/-]{12,}=*")
# NAME=value, "name": "value", name: value, --name value; in shell and YAML a value is one word, or quoted.
_ASSIGNED = re.compile(
    rf"(?i)(?<![\w.-])(?P<name>{_NAME})(?P<is>[\"']?\s*[=:]\s*|\s+(?=\S{{8}}))(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,;&\"'}}\]]+)"
)
_PLAIN = re.compile(r"(?i)[\"']?(?:true|false|none|null|-?\d{1,7}(?:\.\d+)?|\$?\{\S*|\*+|)[\"']?")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables sorted by name, with values masked whose name or format marks them as secret."""
    shown = {}
    for name, value in sorted(variables.items()):
        secret = _SECRET_NAME.fullmatch(name) and not _PLAIN.fullmatch(value)
        shown[name] = MASKED if secret else text(value)
    return shown


def text(value: str) -> str:
    """Return ``value`` with the values of secret names, and words that look like secrets, masked."""
    value = _LOOKS.sub(MASKED, value)
    value = _URL.sub(rf"\1{MASKED}@", value)
    value = _BEARER.sub(rf"\1 {MASKED}", value)
    return _ASSIGNED.sub(_mask, value)


def data(value: bytes) -> bytes:
    """Mask bytes of any encoding, like ``text``."""
    return text(value.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _mask(match: re.Match[str]) -> str:
    spaced = not re.search("[=:]", match["is"])
    # "token passed" is prose, "--token abc123def" an option: without = or : mask only the values of options.
    if _PLAIN.fullmatch(match["value"]) or (spaced and not match["name"].startswith("-")):
        return match[0]
    quote = match["value"][0] if match["value"][0] in "\"'" else ""
    return f"{match['name']}{match['is']}{quote}{MASKED}{quote}"
