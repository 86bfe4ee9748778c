"""Configs in the form of dotted keys, as overrides name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def put(config: dict[str, Any], key: str, value: object) -> None:
    """Set ``a.b.c`` of a nested mapping, which gets the levels that it lacks."""
    *parents, last = key.split(".")
    for parent in parents:
        config = config.setdefault(parent, {})
    config[last] = value


def nested(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the nested mapping of dotted keys."""
    config: dict[str, Any] = {}
    for key, value in settings.items():
        put(config, key, value)
    return config
