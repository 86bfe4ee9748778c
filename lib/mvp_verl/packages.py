"""Records the interpreter that trains, in ``packages.json`` of a job folder: packages, processor, CUDA, driver, GPUs."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any


def record(job_folder: Path) -> None:
    """Write the record, once; a disk that is full, or a package with unreadable metadata, loses the record only."""
    place = job_folder / "packages.json"
    if place.exists():
        return
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(look(), indent=1, sort_keys=True) + "\n")
        draft.replace(place)
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def look() -> dict[str, Any]:
    """Return what this interpreter has. Facts only; an unknown one is None."""
    found: dict[str, str] = {}
    for each in importlib.metadata.distributions():
        name = each.metadata["Name"] if each.metadata else None
        if name:
            found.setdefault(str(name), each.version)  # the first on the path is the one that is imported
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": dict(sorted(found.items(), key=lambda pair: pair[0].lower())),
        "cpu": _cpu(),
        "cuda": _cuda(),
        **_gpus(),
    }


def _cpu() -> str | None:
    """Return the model of this machine's processor, as the kernel names it; its architecture where the kernel gives no name."""
    with contextlib.suppress(OSError):
        if match := re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            return match[1].strip()
    return platform.machine() or None


def _cuda() -> str | None:
    """Return the CUDA that torch was built for, from its source: importing torch takes seconds."""
    try:
        spec = importlib.util.find_spec("torch")
        text = Path(str(spec.origin)).with_name("version.py").read_text() if spec else ""
    except (OSError, ValueError, ImportError):
        return None
    match = re.search(r"^cuda\b.*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    return match[1] if match else None


def _gpus() -> dict[str, Any]:
    """Return driver and GPU names by NVML; None and [] where there are none."""
    try:
        import pynvml

        pynvml.nvmlInit()
        names = [pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(at)) for at in range(pynvml.nvmlDeviceGetCount())]
        return {"driver": _text(pynvml.nvmlSystemGetDriverVersion()), "gpus": [_text(name) for name in names]}
    except Exception:  # no package, no driver, no GPU
        return {"driver": None, "gpus": []}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
