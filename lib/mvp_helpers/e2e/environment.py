"""Check what a run needs from this machine: GPUs, disk, Ray, model. Changes nothing."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import BadInput, Blocked
from ..trainers.trainer import ABSENT, Gpus, at_key
from . import data_files
from .requests.description import Description, model_of
from .requests.levels import Planned

FREE_GB = 20.0
"""A run is not started with less free space where models and checkpoints go."""


def home(path: str, env: Mapping[str, str]) -> Path:
    """Return ``path`` with ``~`` as the HOME that the script will have."""
    return Path(env.get("HOME", "~")) / path[2:] if path.startswith("~/") else Path(path)


def gpus(env: Mapping[str, str]) -> tuple[int, str]:
    """Return the number of GPUs that CUDA_VISIBLE_DEVICES lets us see, and how it is known."""
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


def gpu_problems(name: str, needed: Gpus, available: int | None, where: str = "here") -> list[str]:
    """Return why the run ``name`` does not fit the GPUs it is given, or those that are available (None: not known yet)."""
    if problem := needed.problem():
        return [f"{name}: {problem}"]
    if available is not None and needed.total > available:
        return [f"{name}: needs {needed.total} GPUs ({needed.reason}), {available} are {where}"]
    return []


def ray_problem(env: Mapping[str, str]) -> str:
    """Return why the Ray that RAY_ADDRESS names cannot be joined; "" when it can, or when the trainer starts its own."""
    address = env.get("RAY_ADDRESS", "local").removeprefix("ray://")
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:
        return f"RAY_ADDRESS={address}: nothing answers there ({error}); unset it, and the trainer starts its own Ray"
    return ""


def disk(env: Mapping[str, str], folders: Sequence[Path]) -> list[str]:
    """Return the folders with too little free space; of one that does not exist yet, the nearest parent is measured."""
    problems = []
    try:
        wanted = float(env.get("E2E_FREE_GB", FREE_GB))
    except ValueError:
        raise BadInput(f"E2E_FREE_GB={env['E2E_FREE_GB']} is not a number of gigabytes") from None
    for folder in dict.fromkeys(folders):
        place = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
        free = shutil.disk_usage(place).free / 1e9
        if free < wanted:
            problems.append(
                f"{folder}: {free:.1f} GB free, {wanted:g} GB needed; move HF_HOME, HF_HUB_CACHE and the model to a larger disk,"
                " or set E2E_FREE_GB"
            )
    return problems


def hf_home(env: Mapping[str, str]) -> Path:
    return home(env.get("HF_HUB_CACHE") or env.get("HF_HOME") or "~/.cache/huggingface", env)


def model_folder(description: Description, env: Mapping[str, str], overrides: Sequence[str] = ()) -> Path | None:
    """Return where the script looks for the model (the tokenizer's, when it makes a dummy of it); None: in the hub's cache."""
    model, named = description.model, model_of(description, env, overrides)
    if env.get(model.path_variable) or named.startswith(("/", ".", "~/")):
        return home(named, env)
    return home(model.default.replace("{id}", named), env) if model.default else None


def model_problem(description: Description, env: Mapping[str, str], overrides: Sequence[str] = ()) -> str:
    """Return why the model cannot be loaded from where the script looks; "" when it can."""
    model, path = description.model, model_folder(description, env, overrides)
    if (dummy := model.dummy) and env.get(dummy.switch) == "True":
        config = env.get(dummy.config, "")
        if not config:
            return f"{dummy.switch}=True needs {dummy.config}, a minimal config.json of the architecture"
        if not Path(config).is_file():
            return f"{dummy.config}={config} does not exist"
    if path and not (path / "config.json").is_file():
        download = f"hf download {env.get(model.id_variable, '')} --local-dir {path}"
        setting = model.path_variable or next(iter(model.overrides), "")
        return f"the model is not at {path} (no config.json): {download}, or set {setting}"
    return ""


def model_problems(
    description: Description, env: Mapping[str, str], overrides: Sequence[str], config: Mapping[str, Any]
) -> list[str]:
    """Return that a run would train another model than the one that was asked for, or with another one's tokenizer."""
    model, keys = description.model, description.model.overrides
    folder = model_folder(description, env, overrides)
    if (dummy := model.dummy) and env.get(dummy.switch) == "True":
        folder = Path(next(env[name] for name, switch in description.folders.items() if switch == dummy.switch))
    # The others may be another model: a critic that begins as a reward model.
    for key in description.equivalents.get(model.path_variable, ())[:1]:
        if folder and at_key(config, key) != str(folder):
            return [f"the resolved config has {key}={at_key(config, key)}, not {folder}: name the model with --model"]
    given = [key for key in keys if any(text.lstrip("+").startswith(f"{key}=") for text in overrides)]
    values = {key: at_key(config, key) for key in keys}
    if not given or len(set(map(str, values.values()))) == 1:
        return []
    return [f"{' and '.join(f'{key}={value}' for key, value in values.items())} differ: --model sets both"]


def offline_route(env: Mapping[str, str], model: str) -> str:
    """Return how to run without the hub, with the model's snapshot in the cache if it is there."""
    cache = (
        home(env["HF_HUB_CACHE"], env)
        if env.get("HF_HUB_CACHE")
        else home(env.get("HF_HOME") or "~/.cache/huggingface", env) / "hub"
    )
    snapshots = cache / f"models--{model.replace('/', '--')}" / "snapshots"
    there = sorted(path for path in snapshots.glob("*") if (path / "config.json").exists())
    offline = "HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1, and --model"
    if there:
        return f"the model is in the cache: {offline} {there[-1]}"
    return f"download it once (hf download {model}); then {offline} {snapshots}/COMMIT"


def feature_problems(description: Description, one: Planned, env: Mapping[str, str], config: Mapping[str, Any]) -> list[str]:
    """Return why the run would not exercise its variant's feature, by the resolved config, the model and the data."""
    variant, problems = one.variant, []
    dummy, folder = description.model.dummy, model_folder(description, env, one.overrides)
    file = Path(env[dummy.config]) if dummy and env.get(dummy.switch) == "True" and env.get(dummy.config) else None
    file = file or (folder / "config.json" if folder else None)
    if variant.model_has and file and file.is_file() and not any(re.search(variant.model_has, key) for key in _keys(file)):
        problems.append(f"{file} is not a model for '{variant.title}': its config has no key like {variant.model_has}")
    if variant.data_has:
        columns = [str(value) for key in variant.data_has if (value := at_key(config, key)) is not ABSENT]
        files = at_key(config, description.train_data)
        names = [files] if isinstance(files, str) else files if isinstance(files, list) else []
        paths = [Path(str(name)) for name in names]
        if all(path.is_file() for path in paths) and not any(data_files.has_value(path, columns) for path in paths):
            problems.append(f"the training data ({', '.join(map(str, paths))}) have no value in {' or '.join(columns)}")
    return problems


def _keys(file: Path) -> set[str]:
    """Return all keys of a model's config that have a value, those of its parts too. Raises Blocked when it is not JSON."""
    try:
        todo = [json.loads(file.read_bytes())]
    except (OSError, ValueError) as error:
        raise Blocked(f"{file} is not a model's config: {error}") from None
    keys: set[str] = set()
    while todo:
        if isinstance(part := todo.pop(), dict):
            keys |= {key for key, value in part.items() if value}
            todo += part.values()
    return keys
