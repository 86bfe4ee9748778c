"""Step 2: can these runs start here at all? Looks, and changes nothing; what is missing blocks, with what to do about it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import BadInput, Blocked
from . import matrix
from .description import DataFile, Description
from .drift import MISSING, select
from .matrix import Planned

FREE_GB = 20.0
"""Below so much free space where models and checkpoints go a run is not started."""


def home(path: str, env: Mapping[str, str]) -> Path:
    """``~`` is the HOME that the wrapper will have."""
    return Path(env.get("HOME", "~")) / path[2:] if path.startswith("~/") else Path(path)


def gpus(env: Mapping[str, str]) -> tuple[int, str]:
    """GPUs of this machine that CUDA_VISIBLE_DEVICES lets us see, and how it is known."""
    smi = shutil.which("nvidia-smi", path=env.get("PATH"))
    if not smi:
        return 0, "no nvidia-smi on this machine"
    try:
        run = subprocess.run(
            [smi, "--query-gpu=index,name,memory.total", "--format=csv,noheader"], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 0, f"nvidia-smi: {error}"
    lines = [line for line in run.stdout.splitlines() if line.strip()] if run.returncode == 0 else []
    visible = env.get("CUDA_VISIBLE_DEVICES")
    count = len(lines) if visible is None else len([part for part in visible.split(",") if part.strip() not in ("", "-1")])
    return min(count, len(lines)), lines[0] if lines else (run.stderr or run.stdout).strip()[:200]


def devices(env: Mapping[str, str]) -> list[str]:
    """What is wrong with the variables that choose devices."""
    if env.get("ROCR_VISIBLE_DEVICES") is not None and (env.get("CUDA_VISIBLE_DEVICES") or env.get("HIP_VISIBLE_DEVICES")):
        return [
            "ROCR_VISIBLE_DEVICES is set beside CUDA_VISIBLE_DEVICES: verl's workers refuse to start; unset ROCR_VISIBLE_DEVICES"
        ]
    return []


def ray_problem(env: Mapping[str, str]) -> str:
    """Why the Ray that RAY_ADDRESS names cannot be joined; "" when it can, or when the trainer starts its own."""
    address = env.get("RAY_ADDRESS", "local").removeprefix("ray://")
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()):
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:
        return f"RAY_ADDRESS={address}: nothing answers there ({error}); unset it, and the trainer starts a Ray of its own"
    return ""


def sizes(description: Description, planned: Sequence[Planned], available: int | None, where: str = "here") -> list[str]:
    """Runs whose parallel sizes do not fit the GPUs they are given, or those of one node (None: not known yet)."""
    found = []
    for one in planned:
        needed, why = matrix.gpus_needed(description, one.env)
        given = one.env[description.parallel.gpus]
        if not given.isdigit() or int(given) < 1:
            raise BadInput(f"{description.parallel.gpus}={given} is not a number of GPUs")
        if int(given) % needed:
            found.append(f"{one.name}: {description.parallel.gpus}={given} is no multiple of the {needed} that {why} need")
        elif description.devices == "gpu" and available is not None and int(given) > available:
            found.append(f"{one.name}: needs {given} GPUs ({why}), {available} are {where}")
    return found


def disk(env: Mapping[str, str], folders: Sequence[Path]) -> list[str]:
    """Places with too little room; a folder that does not exist yet is its nearest parent."""
    found = []
    try:
        wanted = float(env.get("E2E_FREE_GB", FREE_GB))
    except ValueError:
        raise BadInput(f"E2E_FREE_GB={env['E2E_FREE_GB']} is not a number of gigabytes") from None
    for folder in dict.fromkeys(folders):
        place = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
        free = shutil.disk_usage(place).free / 1e9
        if free < wanted:
            found.append(
                f"{folder}: {free:.1f} GB free; move HF_HOME, HF_HUB_CACHE and MODEL_PATH to a larger disk, or E2E_FREE_GB=…"
            )
    return found


def hf_home(env: Mapping[str, str]) -> Path:
    return home(env.get("HF_HUB_CACHE") or env.get("HF_HOME") or "~/.cache/huggingface", env)


def data_problem(file: DataFile, env: Mapping[str, str]) -> str:
    """Why the parquet file cannot be used; "" when it can."""
    path = home(env.get(file.variable) or file.default, env)
    if not path.is_file():
        return f"{file.variable}: {path} does not exist"
    try:
        from pyarrow import ArrowException, parquet

        try:
            found = parquet.read_schema(path).names
            rows = parquet.read_metadata(path).num_rows
        except (ArrowException, OSError) as error:
            return f"{file.variable}: {path} is no readable parquet file: {str(error).splitlines()[0][:200]}"
    except ImportError:
        return ""  # The wrapper's interpreter has it; ours need not.
    if missing := [name for name in file.columns if name not in found]:
        return f"{file.variable}: {path} lacks the column {missing[0]} (it has {', '.join(found)[:200]})"
    return "" if rows else f"{file.variable}: {path} has no rows"


def model_folder(description: Description, env: Mapping[str, str]) -> Path:
    """Where the wrapper looks for the model (the tokenizer's, when it makes a dummy of it)."""
    model = description.model
    return home(env.get(model.path_variable) or model.default.replace("{MODEL_ID}", env.get(model.id_variable, "")), env)


def model_problem(description: Description, env: Mapping[str, str]) -> str:
    """Why the model cannot be loaded from where the wrapper looks; "" when it can."""
    model, path = description.model, model_folder(description, env)
    if (dummy := model.dummy) and env.get(dummy.switch) == "True":
        config = env.get(dummy.config, "")
        if not config:
            return f"{dummy.switch}=True needs {dummy.config}, a minimal config.json of the architecture"
        if not Path(config).is_file():
            return f"{dummy.config}={config} does not exist"
    if not (path / "config.json").is_file():
        download = f"hf download {env.get(model.id_variable, '')} --local-dir {path}"
        return f"the model is not at {path} (no config.json): {download}, or {model.path_variable}=…"
    return ""


def feature_problems(description: Description, one: Planned, env: Mapping[str, str], config: Mapping[str, Any]) -> list[str]:
    """Why the run would not exercise its variant's feature, by the resolved config, the model and the data that are there."""
    variant, found = one.variant, []
    for key, wanted in variant.expect.items():
        if (value := select(config, key)) != wanted:
            found.append(f"the resolved config has {key}={None if value is MISSING else value}, not {wanted}")
    dummy = description.model.dummy
    file = Path(env[dummy.config]) if dummy and env.get(dummy.switch) == "True" and env.get(dummy.config) else None
    file = file or model_folder(description, env) / "config.json"
    if variant.model_has and file.is_file() and not any(re.search(variant.model_has, key) for key in _keys(file)):
        found.append(f"{file} is no model for '{variant.title}': its config has no key like {variant.model_has}")
    if variant.data_has:
        columns = [str(value) for key in variant.data_has if (value := select(config, key)) is not MISSING]
        files = select(config, description.train_data)
        names = [files] if isinstance(files, str) else files if isinstance(files, list) else []
        paths = [Path(str(name)) for name in names]
        if all(path.is_file() for path in paths) and not any(_holds(path, columns) for path in paths):
            found.append(f"the training data ({', '.join(map(str, paths))}) hold nothing in {' or '.join(columns)}")
    return found


def _keys(file: Path) -> set[str]:
    """All keys of a model's config, those of its parts too. Raises Blocked when it is no JSON."""
    try:
        todo = [json.loads(file.read_bytes())]
    except (OSError, ValueError) as error:
        raise Blocked(f"{file} is no model's config: {error}") from None
    found: set[str] = set()
    while todo:
        if isinstance(one := todo.pop(), dict):
            found |= {key for key, value in one.items() if value}
            todo += one.values()
    return found


def _holds(path: Path, columns: Sequence[str]) -> bool:
    """Whether a parquet file has a value in one of ``columns``; read only as far as the first."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise Blocked(f"cannot look into {path}: {sys.executable} has no pyarrow", hint="pip install pyarrow") from None
    try:
        file = parquet.ParquetFile(path)
        there = [name for name in columns if name in file.schema_arrow.names]
        return any(
            value
            for batch in (file.iter_batches(64, columns=there) if there else [])
            for row in batch.to_pylist()
            for value in row.values()
        )
    except (ArrowException, OSError):
        return True  # What is wrong with the file is told of the file.
