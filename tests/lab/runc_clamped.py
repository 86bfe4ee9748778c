#!/usr/bin/python3
"""Stands as ``runc`` on the lab's dockerd: what root without CAP_SYS_RESOURCE cannot set is clamped, then the real one runs."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any


def after(*options: str) -> str | None:
    """The word that follows one of these options."""
    return next((sys.argv[at + 1] for at, word in enumerate(sys.argv[:-1]) if word in options), None)


def clamp(process: dict[str, Any]) -> None:
    """Ulimits to the hard limits that hold here, no negative oom_score_adj, no capability that we lack."""
    for limit in process.get("rlimits") or []:
        hard = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if hard != resource.RLIM_INFINITY:
            limit["hard"] = min(limit["hard"], hard)
            limit["soft"] = min(limit["soft"], limit["hard"])
    for kind, names in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in names if name != "CAP_SYS_RESOURCE"]
    process["oomScoreAdj"] = max(process.get("oomScoreAdj") or 0, 0)


if "create" in sys.argv:
    config = Path(after("--bundle", "-b") or ".", "config.json")
    spec = json.loads(config.read_bytes())
    clamp(spec["process"])
    config.write_text(json.dumps(spec))
elif "exec" in sys.argv and (file := after("--process", "-p")):
    process = json.loads(Path(file).read_bytes())
    clamp(process)
    Path(file).write_text(json.dumps(process))
os.execv("/usr/sbin/runc", ["runc", *sys.argv[1:]])
