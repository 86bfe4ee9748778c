"""Compose a Hydra config with overrides, in a process of its own (0.3 s; the trainer itself is not imported).

stdin: ``{"config_dir", "config_name", "overrides"}``.
stdout: ``{"config", "followers", "opaque"}``, or ``{"errors": [{"override", "key", "why"}], "keys"}``. ``followers`` lists, for a
key, those whose whole value is an interpolation of it; ``opaque`` lists the last names of the keys in other interpolations.
The messages it parses are those of hydra-core 1.3, ``hydra/_internal/config_loader_impl.py``.
"""

from __future__ import annotations

import functools
import gc
import json
import re
import resource
import sys
from typing import Any

CPU_S, MEMORY = 20, 4 << 30
"""Limits of this process: ten times the need of verl's largest config."""
_FOLLOWS = re.compile(r"\$\{(?:oc\.select: *)?(?P<dots>\.*)(?P<key>\w[\w.]*)(?: *,[^${}]*)?\}")
"""A value that is one interpolation: ``${a.b}``, ``${..b}`` (each dot goes up), ``${oc.select:a.b,7}``."""


def keys_of(config: Any, prefix: str = "") -> list[str]:
    """Return every dotted key of a config, of groups too."""
    keys: list[str] = []
    for key, value in config.items():
        path = f"{prefix}{key}"
        keys.append(path)
        if isinstance(value, dict):
            keys += keys_of(value, f"{path}.")
    return keys


def main() -> None:
    """Compose with all overrides. When Hydra refuses one, record it, drop it and try again, so that all mistakes show at once."""
    from hydra import compose, initialize_config_dir
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    # The trainer has another environment, and values of this one (secrets) must not get into a config that is recorded.
    OmegaConf.register_new_resolver(
        "oc.env", lambda name, *default: default[0] if default else f"${{oc.env:{name}}}", replace=True
    )
    request = json.load(sys.stdin)
    parser = OverridesParser.create()
    errors: list[dict[str, str]] = []
    good: list[tuple[str, str]] = []  # text and key, in order: of two for one key the later wins, and a second + is refused
    for text in request["overrides"]:
        try:
            good.append((text, parser.parse_override(text).key_or_group))
        except Exception as error:  # Hydra's own, but also what its parser meets: a number that Python does not read
            errors.append({"override": text, "key": "", "why": first_line(error)})
    with initialize_config_dir(request["config_dir"], version_base=None):
        while True:
            try:
                config = compose(request["config_name"], overrides=[text for text, _ in good])
                break
            except Exception as error:  # Hydra's and OmegaConf's own, and what they do not catch: RecursionError, OSError
                message = str(error) or type(error).__name__
                named = re.search(r"Could not (?:override|append to config|delete from config)[^']*'([^']+)'", message)
                key = named[1] if named else ""
                culprits = [text for text, target in good if target == key] or _first_refused([text for text, _ in good], request)
                if not culprits:
                    # No override is to blame: the config itself does not compose.
                    errors.append({"override": "", "key": "", "why": " ".join(message.split())[:500]})
                    print(json.dumps({"errors": errors, "keys": []}))
                    return
                for text, target in dict(good).items():
                    if text in culprits:
                        errors.append({"override": text, "key": target, "why": first_line(message)})
                good = [(text, target) for text, target in good if text not in culprits]
        plain = OmegaConf.to_container(config, resolve=False)
        for text, key in dict(good).items():
            try:
                OmegaConf.select(config, key)
            except (OmegaConfBaseException, RecursionError) as error:
                errors.append({"override": text, "key": "", "why": first_line(error)})
    if errors:
        print(json.dumps({"errors": errors, "keys": keys_of(plain)}))
        return
    followers: dict[str, list[str]] = {}
    opaque = _references(plain, (), followers)
    print(json.dumps({"config": resolved(config), "followers": followers, "opaque": sorted(opaque)}))


def first_line(error: Exception | str) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:500]


def _first_refused(overrides: list[str], request: dict[str, Any]) -> list[str]:
    """Return the first override that Hydra refuses after the ones before it (its message named none of our keys)."""
    from hydra import compose

    def accepted(count: int) -> bool:
        try:
            compose(request["config_name"], overrides=overrides[:count])
        except Exception:
            return False
        return True

    if not accepted(0):
        return []
    good, bad = 0, len(overrides)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if accepted(middle) else (good, middle)
    return overrides[good:bad]


def resolved(config: Any) -> Any:
    """Return plain data with interpolations resolved where possible (some need values known only at run time)."""
    from omegaconf import DictConfig, ListConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if isinstance(config, DictConfig):
        plain: dict[str, Any] = {}
        for key in config:
            try:
                plain[str(key)] = resolved(config[key])
            except (OmegaConfBaseException, RecursionError):
                plain[str(key)] = OmegaConf.to_container(config, resolve=False)[key]
        return plain
    if isinstance(config, ListConfig):
        return OmegaConf.to_container(config, resolve=False)
    return config


def _references(value: Any, path: tuple[str, ...], followers: dict[str, list[str]]) -> set[str]:
    """Add the keys that follow another one to ``followers``; return the names in all other interpolations, "" for ``${..}``.

    ``value`` is a part of an unresolved config, and ``path`` its keys; a list has none.
    """
    if isinstance(value, dict):
        return {name for key, inner in value.items() for name in _references(inner, (*path, str(key)), followers)}
    if isinstance(value, list):
        return {name for inner in value for name in _references(inner, (), followers)}
    if not isinstance(value, str) or "${" not in value:
        return set()
    match = _FOLLOWS.fullmatch(value)
    if match and path:
        dots = len(match["dots"])
        beside = path[: max(len(path) - dots, 0)] if dots else ()
        followers.setdefault(".".join((*beside, match["key"])), []).append(".".join(path))
        return set()
    return {word.rpartition(".")[2] for word in re.findall(r"[\w.]+", value)}


def _quicken() -> None:
    """Shorten Hydra's work in this process: no garbage collection, libyaml's parser, one parse of each override."""
    import yaml
    from hydra.core.override_parser.overrides_parser import OverridesParser

    gc.disable()
    yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # type: ignore[misc]
    parser = OverridesParser.create()
    parser.parse_override = functools.cache(parser.parse_override)
    OverridesParser.create = lambda *_: parser


def bound() -> None:
    """Let the kernel end this process when overrides make it work or grow without end."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    bound()
    _quicken()
    main()
