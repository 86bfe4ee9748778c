"""Runs as its own process: composes a snapshot's Hydra config with overrides (0.4 s; verl itself is not imported).

stdin: ``{"config_dir", "config_name", "overrides"}``.
stdout: ``{"config"}``, or ``{"errors": [{"override", "key", "why"}], "keys"}``.
Source of the messages it understands: hydra-core 1.3, ``hydra/_internal/config_loader_impl.py``.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any


def _leaf_keys(config: Any, prefix: str = "") -> list[str]:
    keys: list[str] = []
    for key, value in config.items():
        path = f"{prefix}{key}"
        keys.append(path)
        if isinstance(value, dict):
            keys += _leaf_keys(value, f"{path}.")
    return keys


def main() -> None:
    """Compose with all overrides; when Hydra refuses one, note it, leave it out and go on, so that all mistakes show at once."""
    from hydra import compose, initialize_config_dir
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    # The trainer's environment is another, and what is in ours (secrets) must not get into a config that is remembered.
    OmegaConf.register_new_resolver(
        "oc.env", lambda name, *default: default[0] if default else f"${{oc.env:{name}}}", replace=True
    )
    request = json.load(sys.stdin)
    parser = OverridesParser.create()
    errors, good = [], {}
    for text in request["overrides"]:
        try:
            good[text] = parser.parse_override(text).key_or_group
        except HydraException as error:
            errors.append({"override": text, "key": "", "why": str(error).splitlines()[0]})
    with initialize_config_dir(request["config_dir"], version_base=None):
        while True:
            try:
                config = compose(request["config_name"], overrides=list(good))
                break
            except (HydraException, OmegaConfBaseException) as error:
                message = str(error)
                named = re.search(r"Could not (?:override|append to config|delete from config)[^']*'([^']+)'", message)
                key = named[1] if named else ""
                culprits = [text for text, its_key in good.items() if its_key == key] or _one_by_one(good, request)
                if not culprits:
                    # Not one override's fault: the config of this snapshot itself does not compose.
                    errors.append({"override": "", "key": "", "why": " ".join(message.split())[:500]})
                    print(json.dumps({"errors": errors, "keys": []}))
                    return
                for text in culprits:
                    errors.append({"override": text, "key": good.pop(text), "why": message.splitlines()[0]})
        plain = OmegaConf.to_container(config, resolve=False)
        for text, key in good.items():
            try:
                OmegaConf.select(config, key)
            except OmegaConfBaseException as error:
                errors.append({"override": text, "key": "", "why": str(error).splitlines()[0]})
    if errors:
        print(json.dumps({"errors": errors, "keys": _leaf_keys(plain)}))
        return
    print(json.dumps({"config": _resolved(config)}))


def _one_by_one(good: dict[str, str], request: dict[str, Any]) -> list[str]:
    """Overrides that Hydra refuses each on its own (its message did not name a key we gave)."""
    from hydra import compose

    refused = []
    for text in good:
        try:
            compose(request["config_name"], overrides=[text])
        except Exception:
            refused.append(text)
    return refused


def _resolved(config: Any) -> Any:
    """Plain data with interpolations resolved where they can be (some wait for values only known at run time)."""
    from omegaconf import DictConfig, ListConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if isinstance(config, DictConfig):
        found: dict[str, Any] = {}
        for key in config:
            try:
                found[str(key)] = _resolved(config[key])
            except OmegaConfBaseException:
                found[str(key)] = OmegaConf.to_container(config, resolve=False)[key]
        return found
    if isinstance(config, ListConfig):
        return OmegaConf.to_container(config, resolve=False)
    return config


if __name__ == "__main__":
    main()
