"""Settings of script 30: the ``data`` part of a cluster file."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Rows = Annotated[int, msgspec.Meta(ge=1, le=4000)]
Size = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Source = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9][\w.-]*(/[\w.-]+)?|[/~].*)$")]
"""A repository, or a folder: an absolute path, or one below ``~``."""
Revision = Annotated[str, msgspec.Meta(pattern=r"^[\w][\w./-]*$")]


class Generated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seeded arithmetic word problems, a tokenizer trained on them and a tiny Qwen2 with random weights."""

    train_rows: Rows = 160
    test_rows: Rows = 16
    seed: int = 0
    model: Name = "tiny-qwen2"
    """Name of the model's folder."""
    hidden_size: Annotated[int, msgspec.Meta(multiple_of=8, ge=8, le=4096)] = 64
    """Width of the model; four attention heads share it, and the feed-forward layers are twice as wide."""
    layers: Size = 2


class Hub(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GSM8K and a model: repositories on a Hugging Face hub, or folders that the preparing host sees.

    A folder is a copy of a repository, a snapshot in a cache, or that repository's folder in a cache. A revision is a branch,
    a tag or a commit; it is resolved to a commit once, when data or model are made.
    """

    dataset: Source = "openai/gsm8k"
    dataset_revision: Revision = "main"
    model: Source = "Qwen/Qwen2.5-0.5B-Instruct"
    model_revision: Revision = "main"
    model_files: tuple[str, ...] = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt", "*.tiktoken", "LICENSE*")
    """Patterns of the files to take: a repository often holds the same weights in several formats."""


class DataSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The source to use, and the settings of each source."""

    source: Literal["generated", "hub"] = "generated"
    generated: Generated = Generated()
    hub: Hub = Hub()
