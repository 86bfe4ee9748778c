"""Decide from a few bytes of each file whether data and models are whole."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any


def parquet_problem(path: Path) -> str:
    """Return why a file is not parquet with its magic at both ends and a footer that fits, or an empty string. Raises OSError."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(4)
        stream.seek(max(0, size - 8))
        tail = stream.read(8)
    whole = size > 12 and head == b"PAR1" and tail[4:] == b"PAR1" and struct.unpack("<I", tail[:4])[0] <= size - 12
    return "" if whole else f"is truncated or not parquet ({size} bytes)"


def model_problem(folder: Path) -> str:
    """Return why a folder is not a whole Hugging Face model (config, tokenizer, every weight file), or an empty string."""
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
    if any("-of-" in shard.stem for shard in shards) and not any(folder.glob("*.index.json")):
        return "the index of its weights (such as model.safetensors.index.json) is missing"
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
