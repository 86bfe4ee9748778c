"""Asks the chosen code snapshot's own Hydra config whether it accepts the overrides; an accepted set is remembered."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import BadInput, Blocked
from ..base.project import PROJECT

COMPOSE_TIMEOUT_S = 60


def key_of(override: str) -> str:
    """``+trainer.x=1`` → ``trainer.x``."""
    return override.split("=", 1)[0].lstrip("+~").strip()


def merge(*layers: list[str]) -> list[str]:
    """One override a key: later layers win. A key that an earlier layer had to add (``+key``) stays an addition."""
    merged: dict[str, str] = {}
    for override in (text for layer in layers for text in layer):
        key = key_of(override)
        earlier = merged.pop(key, "")
        prefix = re.match(r"\+*", earlier)[0]  # type: ignore[index]
        merged[key] = prefix + override if prefix and override[0] not in "+~" else override
    return list(merged.values())


def compose(
    config_dir: Path, config_name: str, overrides: list[str], fingerprint: str, cache: Path, remember: bool = True
) -> dict[str, Any]:
    """The composed config of a snapshot (``fingerprint`` identifies its content), from ``cache`` when seen before.

    Raises:
        BadInput: an override that the config does not accept, with the nearest valid key.
        Blocked: Hydra is not installed here, or the snapshot's config cannot be composed at all.
    """
    question = json.dumps([fingerprint, config_name, overrides])
    remembered = cache / f"{hashlib.sha256(question.encode()).hexdigest()[:32]}.json"
    try:
        found: dict[str, Any] = json.loads(remembered.read_bytes())
        return found
    except (OSError, ValueError):
        pass
    if not (config_dir / f"{config_name}.yaml").is_file():
        raise BadInput(
            f"the code snapshot has no config {config_dir / config_name}.yaml", hint="choose another code_path, or workload"
        )
    answer = _ask({"config_dir": str(config_dir), "config_name": config_name, "overrides": overrides})
    if "config" not in answer:
        raise BadInput(_explain(answer, config_name), hint="a key the config does not have yet is added with +key=value")
    if remember:
        with contextlib.suppress(OSError):  # Only the next check gets slower.
            cache.mkdir(parents=True, exist_ok=True)
            files.write_json(remembered, answer["config"])
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
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["no message"])[-1]
        hint = "./scripts/12_install_py_deps.sh" if "No module named" in last else ""
        raise Blocked(f"cannot compose the Hydra config in {request['config_dir']}: {last}", hint=hint)
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer


def _explain(answer: dict[str, Any], config_name: str) -> str:
    lines = []
    for error in answer["errors"]:
        if not error["override"]:
            raise Blocked(f"the snapshot's config {config_name} does not compose: {error['why']}")
        nearest = nearest_key(error["key"], answer["keys"]) if error["key"] and error["key"] not in answer["keys"] else ""
        better = f" (did you mean '{nearest}'?)" if nearest else f": {error['why']}"
        lines.append(f"trainer_overrides: the {config_name} config does not accept '{error['override'][:120]}'{better}")
    return "\n  ".join(lines)


def nearest_key(key: str, known: list[str]) -> str:
    """The known dotted key that is most like ``key``: by its whole text, or by its last part anywhere in the config."""
    import difflib

    if near := difflib.get_close_matches(key, known, n=1, cutoff=0.75):
        return near[0]
    last = key.rsplit(".", 1)[-1]
    same_last = [name for name in known if name.rsplit(".", 1)[-1] == last]
    near = difflib.get_close_matches(key, same_last, n=1, cutoff=0.0)
    return near[0] if near else ""
