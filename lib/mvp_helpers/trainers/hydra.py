"""Hydra overrides: their syntax, how layers of them merge, and what config a set of them composes to.

A config is composed by the Hydra files of the code that will use it, in a process of its own (``hydra_compose.py``). Accepted
overrides can be recorded, so that such a question is answered from a file the next time (``hydra_memory.py``).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.documents import Damaged, read_yaml
from ..base.errors import BadInput, Blocked
from ..base.project import PROJECT

if TYPE_CHECKING:
    from .hydra_memory import Memory

COMPOSE_TIMEOUT_S = 60
_LISTED = re.compile(r"~[A-Za-z_$][^=\0]*|(\+{0,2}|~)[A-Za-z_$][^=\s\0]*=")
_KEY = re.compile(r"[+~]{0,2}[^\s=\0+~-][^\s=\0]*")
_UNQUOTED = re.compile(r"[A-Za-z_/][\w/.@+-]*")
_SHOWN = 120


def texts(overrides: Mapping[str, Any] | list[str], origin: str) -> list[str]:
    """Return overrides as ``key=value`` texts. Strings of a mapping are quoted so that they arrive byte for byte.

    ``${…}`` in a value stays Hydra's interpolation. ``origin`` begins every message.

    Raises:
        BadInput: a text without key or value, a key that Hydra cannot parse, or a mapping that contains itself.
    """
    if isinstance(overrides, list):
        for text in overrides:
            if not is_override(text):
                raise BadInput(f"{origin}: {_short(text)} is not key=value")
        return list(overrides)
    try:
        return [f"{key}={_quoted(value)}" for key, value in _flat(overrides, "", origin)]
    except RecursionError:
        raise BadInput(f"{origin} contains itself (a YAML alias)") from None


def is_override(text: str) -> bool:
    """Tell whether a text has the form of an override, such as ``key=value`` or ``~key``; Hydra itself checks the rest."""
    return bool(_LISTED.match(text))


def _flat(values: Mapping[str, Any], prefix: str, origin: str) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in values.items():
        if not _KEY.fullmatch(key):
            raise BadInput(f"{origin}: {_short(key)} is not a config key")
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            pairs += _flat(value, f"{path}.", origin)
        else:
            pairs.append((path, value))
    return pairs


def _quoted(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(_quoted(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_quoted(item)}" for key, item in value.items()) + "}"
    text = str(value)
    if _UNQUOTED.fullmatch(text) and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    # Hydra's quoting: a backslash counts only before a quote (or before the closing quote).
    return "'" + re.sub(r"(\\*)('|\Z)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text) + "'"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


def key_of(override: str) -> str:
    """Return the config key of an override: ``+trainer.x=1`` → ``trainer.x``."""
    return override.split("=", 1)[0].lstrip("+~").strip()


def is_for_hydra(override: str) -> bool:
    """Return whether an override changes Hydra's own settings, not the trainer's config."""
    group, _, packages = key_of(override).partition("@")
    return any(re.split(r"[./]", name)[0] == "hydra" for name in (group, *packages.split(":")))


def overrides_record(run_dir: Path) -> Path:
    """Return the file in which Hydra itself, in the trainer's process, records the overrides that it was given."""
    return run_dir / ".hydra" / "overrides.yaml"


def recorded(record: Path) -> list[str]:
    """Return the overrides in ``overrides_record``, without those of Hydra's own settings. Raises BadInput, OSError."""
    try:
        document = read_yaml(record)
    except Damaged as error:
        raise BadInput(f"{record}: {error}") from None
    if not isinstance(document, list) or any(isinstance(text, (dict, list)) for text in document):
        raise BadInput(f"{record} is not a list of overrides")
    return [str(text) for text in document]


def merge(*layers: list[str]) -> list[str]:
    """Merge layers to one override per key; later layers win. A key that an earlier layer added (``+key``) stays added."""
    merged: dict[str, str] = {}
    for override in (text for layer in layers for text in layer):
        key = key_of(override)
        earlier = merged.pop(key, "")
        prefix = earlier[: len(earlier) - len(earlier.lstrip("+"))]
        merged[key] = prefix + override if prefix and override[0] not in "+~" else override
    return list(merged.values())


def sketch(overrides: list[str]) -> dict[str, Any]:
    """Return the values that overrides set: the part of a config that is known without its files. Nothing is checked."""
    import yaml

    config: dict[str, Any] = {}
    for override in overrides:
        if override.startswith("~"):
            continue
        *parents, last = key_of(override).split(".")
        group = config
        for part in parents:
            inner = group.setdefault(part, {})
            group = inner if isinstance(inner, dict) else {}
        text = override.split("=", 1)[1]
        if "${" in text:  # not known without the files
            continue
        try:
            group[last] = text if "&" in text else yaml.safe_load(text)  # an anchor of YAML has no meaning to Hydra
        except (yaml.YAMLError, ValueError):  # also a text that only looks like a date
            group[last] = text
    return config


def select(config: Mapping[str, Any], key: str) -> Any:
    """Return the value at a dotted key of a composed config; None when the config has no such key."""
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def size(config: Mapping[str, Any], key: str) -> int:
    """Return a number of GPUs or a parallel size; 1 where the config has none. Raises BadInput."""
    value = select(config, key)
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"{key}={value} is not a number of GPUs or a parallel size (at least 1)")
    return value


def compose(
    config_dir: Path, config_name: str, overrides: list[str], *, origin: str = "", memory: Memory | None = None
) -> dict[str, Any]:
    """Compose a config with overrides, or return the answer that follows from ``memory``.

    Raises:
        BadInput: the config does not accept an override; names each one, with the nearest key, after ``origin``.
        Blocked: Hydra is not installed here, or the config cannot be composed at all.
    """
    if memory and (recorded := memory.find(config_name, overrides)) is not None:
        return recorded
    if not (config_dir / f"{config_name}.yaml").is_file():
        raise BadInput(f"the code has no config {config_dir / config_name}.yaml", hint="choose another code_path, or workload")
    answer = _ask({"config_dir": str(config_dir), "config_name": config_name, "overrides": overrides})
    if "config" not in answer:
        problems = _problems(answer, config_name)
        raise BadInput(
            f"{origin}: {problems}" if origin else problems, hint="add a key that the config does not have yet with +key=value"
        )
    if memory:
        memory.keep(config_name, overrides, answer)
    config: dict[str, Any] = answer["config"]
    return config


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    try:
        run = subprocess.run(
            [sys.executable, "-m", "mvp_helpers.trainers.hydra_compose"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=COMPOSE_TIMEOUT_S,
            env=os.environ | {"PYTHONPATH": str(PROJECT / "lib")},
        )
    except subprocess.TimeoutExpired:
        raise Blocked(f"composing the Hydra config took more than {COMPOSE_TIMEOUT_S} s") from None
    if run.returncode in (-signal.SIGXCPU, -signal.SIGKILL) or "MemoryError" in run.stderr:
        raise BadInput("composing these overrides takes too much time or memory", hint="fewer interpolations (${…}) and items")
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["no message"])[-1]
        hint = "./scripts/12_install_py_deps.sh" if "No module named" in last else ""
        raise Blocked(f"cannot compose the Hydra config in {request['config_dir']}: {last}", hint=hint)
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer


def _problems(answer: dict[str, Any], config_name: str) -> str:
    problems = []
    for error in answer["errors"]:
        if not error["override"]:
            raise Blocked(f"the config {config_name} does not compose: {error['why']}")
        nearest = nearest_key(error["key"], answer["keys"]) if error["key"] and error["key"] not in answer["keys"] else ""
        reason = f" (did you mean '{nearest}'?)" if nearest else f": {error['why']}"
        problems.append(f"the {config_name} config does not accept {_short(error['override'])}{reason}")
    return "; ".join(problems)


def nearest_key(key: str, known: list[str]) -> str:
    """Return the known dotted key most like ``key``: by its whole text, or by its last part anywhere in the config."""
    import difflib

    if near := difflib.get_close_matches(key, known, n=1, cutoff=0.75):
        return near[0]
    last = key.rsplit(".", 1)[-1]
    same_last = [name for name in known if name.rsplit(".", 1)[-1] == last]
    near = difflib.get_close_matches(key, same_last, n=1, cutoff=0.0)
    return near[0] if near else ""
