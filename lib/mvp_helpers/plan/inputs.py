"""Check that the paths of a JobSpec exist and that the files behind them are whole, from a few bytes of each."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from ..base.errors import BadInput
from ..cluster.cluster_file import SAFE_PATH


class Missing(BadInput):
    """An input of the job does not exist yet; ``path`` is where it would be."""

    def __init__(self, what: str, path: Path, *, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.path = path


def resolve(value: str, field: str, shared_root: Path, source: str) -> Path:
    """Return the real path of a JobSpec's path: relative to the shared root unless absolute, links followed.

    Raises:
        Missing: it does not exist.
        BadInput: it is outside the shared root (workers may not see it), or contains characters at which a shell or Hydra would
            split it.
    """
    path = shared_root / value.replace("${SHARED_ROOT}", str(shared_root))
    if not SAFE_PATH.fullmatch(str(path)):
        raise BadInput(
            f"{source}: {field} {value!r} contains a character that a Hydra override cannot contain", hint="rename or copy it"
        )
    try:
        exists = path.exists()
    except OSError as error:
        raise BadInput(f"{source}: {field}: cannot read {str(path)[:200]}: {error.strerror}") from None
    if not exists:
        unseen = "" if shared_root.is_dir() else f" (this machine has no {shared_root})"
        hint = MISSING_HINTS.get(field, f"correct {field} in the JobSpec")
        raise Missing(f"{source}: {field} does not exist: {path}{unseen}", path, hint=hint)
    real = path.resolve()
    if not real.is_relative_to(shared_root.resolve()):
        raise BadInput(
            f"{source}: {field} is outside the shared root {shared_root}: {real}", hint="copy it under the shared root"
        )
    return real


MISSING_HINTS = {
    "code_path": "./scripts/31_snapshot_verl_code.sh",
    "model": "./scripts/30_prepare_data_and_model.sh",
    "dataset": "./scripts/30_prepare_data_and_model.sh",
}


def check_parquet(path: Path, field: str, source: str) -> None:
    """Raise BadInput unless the file begins and ends with parquet's magic and its footer fits in it."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(4)
            stream.seek(max(0, size - 8))
            tail = stream.read(8)
    except FileNotFoundError:
        raise Missing(f"{source}: {field} lacks {path.name}: {path}", path, hint=MISSING_HINTS["dataset"]) from None
    except OSError as error:
        raise BadInput(f"{source}: {field}: cannot read {path}: {error.strerror}") from None
    whole = size > 12 and head == b"PAR1" and tail[4:] == b"PAR1" and struct.unpack("<I", tail[:4])[0] <= size - 12
    if not whole:
        raise BadInput(f"{source}: {field}: {path} is truncated or not parquet ({size} bytes)", hint=MISSING_HINTS["dataset"])


def check_model(folder: Path, source: str) -> None:
    """Check that a Hugging Face model folder has config, tokenizer and every weight file, each as long as its header says.

    Raises:
        BadInput: names the missing or truncated file.
    """
    if problem := _model_problem(folder):
        raise BadInput(f"{source}: model {folder}: {problem}", hint=MISSING_HINTS["model"])


def _model_problem(folder: Path) -> str:
    """Return why a model folder cannot be used, or an empty string."""
    try:
        json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        return f"config.json is missing or damaged ({error})"
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        return "no tokenizer"
    shards = [path for path in folder.iterdir() if path.name.endswith((".safetensors", ".bin"))]
    for index in folder.glob("*.index.json"):
        try:
            named = set(json.loads(index.read_bytes())["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return f"{index.name} is damaged ({error})"
        if missing := sorted(named - {path.name for path in shards}):
            return f"{missing[0]} is missing"
    if not shards:
        return "no weights (*.safetensors)"
    for shard in shards:
        if shard.suffix == ".safetensors" and (problem := _safetensors_problem(shard)):
            return f"{shard.name} {problem}"
    return ""


def safetensors_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Return where the tensors of a safetensors file begin, and its header. Layout: 8 bytes length, JSON header, tensor bytes.

    Raises EOFError for a file that ends before its header does; OSError, ValueError or struct.error for a damaged one.
    """
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        if length > path.stat().st_size:
            raise EOFError
        return 8 + length, json.loads(stream.read(length))


def _safetensors_problem(path: Path) -> str:
    """Return why a safetensors file is not whole, or an empty string."""
    try:
        size = path.stat().st_size
        begin, header = safetensors_header(path)
        end = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
    except EOFError:
        return "is truncated"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error):
        return "is damaged"
    return "" if size == begin + end else f"has {size} bytes instead of {begin + end}"
