"""Settings of network and hub in the user's environment, for the host that downloads: one JSON object on its stdin.

Values may be secret: a token, or a password in a proxy's URL. They appear in no argv.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ..base.paths import SharedRoot
from ..base.shared_storage import read_secret

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
PROXIES = (*_PROXIES, *map(str.lower, _PROXIES))
TOKEN = "HF_TOKEN"
HUB = ("HF_ENDPOINT", "HF_HUB_OFFLINE", TOKEN, *PROXIES)


def pack(environment: Mapping[str, str]) -> bytes:
    """Return the settings that ``environment`` has."""
    return json.dumps({name: environment[name] for name in HUB if name in environment}).encode()


def for_git(packed: bytes) -> dict[str, str]:
    """Return what ``pack`` took and git needs."""
    settings: dict[str, str] = json.loads(packed or b"{}")
    return {name: value for name, value in settings.items() if name in PROXIES}


def for_hub(packed: bytes, shared_root: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return what ``pack`` took; the token, when neither it nor the host's own environment has one, from ``user/secrets``.

    Raises BadInput when others may read the token's file.
    """
    settings: dict[str, str] = json.loads(packed or b"{}")
    if (
        not settings.get(TOKEN)
        and not own.get(TOKEN)
        and (token := read_secret(SharedRoot(Path(shared_root)).user_secrets / TOKEN))
    ):
        settings[TOKEN] = token
    return settings
