"""Step 3, the import proof: what the wrapper's own interpreter imports, in the driver and a Ray worker, must be the checkouts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import execute
from .description import Description
from .execute import Outcome

TIMEOUT_S = 420
PROBE = Path(__file__).with_name("probe.py")


def ask(
    interpreter: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    mark: str,
    modules: Sequence[str],
    packages: Sequence[str] = (),
    ray: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any] | None, Outcome]:
    """The probe's answer (None when it gave none), and how it ended."""
    request = json.dumps({"modules": list(modules), "packages": list(packages), "ray": ray})
    outcome = execute.run([*interpreter, "-", request], cwd, env, log, mark, timeout_s=TIMEOUT_S, stall_s=TIMEOUT_S, stdin=PROBE)
    for line in reversed(log.read_text(errors="replace").splitlines()):
        if line.startswith("MVP_PROBE "):
            return json.loads(line.removeprefix("MVP_PROBE ")), outcome
    return None, outcome


def problems(where: str, seen: Mapping[str, Any], description: Description, paths: Mapping[str, Path]) -> list[str]:
    """Why ``seen`` does not prove that ``where`` imports the checkouts; empty when it does."""
    if "ray" in seen["errors"]:
        return [f"{where}: Ray: {seen['errors']['ray']}"]
    found = []
    for one in description.imports:
        name, _, folder = one.under.partition(":")
        below = Path(os.path.realpath(paths[name] / folder))
        if why := seen["errors"].get(one.module):
            found.append(f"{where}: cannot import {one.module}: {why}")
        elif not (file := seen["files"].get(one.module, "")):
            found.append(f"{where}: {one.module} has no file")
        elif not Path(file).is_relative_to(below):
            found.append(f"{where}: {one.module} comes from {file}, not from {below}")
    return found


def ray_init(config: Mapping[str, Any], pythonpath: str, address: str) -> dict[str, Any]:
    """The arguments with which the trainer itself will call ``ray.init``, from its resolved config, with its PYTHONPATH."""
    found = dict((config.get("ray_kwargs") or {}).get("ray_init") or {})
    runtime_env = {key: value for key, value in (found.pop("runtime_env", None) or {}).items() if value is not None}
    runtime_env["env_vars"] = {**(runtime_env.get("env_vars") or {})}
    init: dict[str, Any] = {"runtime_env": runtime_env}
    if address:
        init["address"] = address
    else:
        init["num_cpus"] = 1
    runtime_env["env_vars"].setdefault("PYTHONPATH", pythonpath)
    return init
