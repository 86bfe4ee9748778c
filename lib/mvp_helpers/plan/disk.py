"""Compare the checkpoints that a job will write with the space that is free on the shared root."""

from __future__ import annotations

import json
import math
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..base.errors import Blocked
from ..prepare import whole
from ..trainers import verl_checkpoint_size as size
from ..trainers.hydra import select

GIB = 1 << 30
PLENTY = 1000
"""Where so many checkpoints fit, nobody counts them: that takes 0.2 s."""
HINT = "free some space there, save fewer checkpoint.save_contents, or set trainer.save_freq=-1 to save nothing"


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoints that a job will save. None: unknown, or for ``kept`` all of them."""

    bytes_each: int
    saves: int | None
    kept: int | None

    @property
    def at_once(self) -> int | None:
        return size.at_once(self.saves, self.kept)


def estimate(
    config: dict[str, Any], free: int | None, first_step: int, steps_total: Callable[[], int | None]
) -> Checkpoints | None:
    """Return the checkpoints of a job with this composed config; None where it saves none or its models cannot be read.

    ``steps_total`` is called only where the number of checkpoints can matter: it may read the training file.
    """
    if size.saves(config, None, first_step) == 0:
        return None
    total = 0.0
    for part, path in size.parts(config).items():
        parameters = count_parameters(Path(str(select(config, path))), head=part != "critic")
        if not parameters:
            return None
        total += parameters * size.bytes_per_parameter(config, part)
    if not total:
        return None
    kept = size.kept(config)
    matters = kept is None and free is not None and total * PLENTY > free
    return Checkpoints(bytes_each=int(total), saves=size.saves(config, steps_total() if matters else None, first_step), kept=kept)


def count_parameters(model: Path, *, head: bool = True) -> int | None:
    """Return the number of parameters of a model folder, from the headers of its weight files; None where they cannot be read.

    Without ``head``, the layer that a critic replaces is not counted.
    """
    try:
        return _count_parameters(model, head)
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, struct.error):  # not a model's folder
        return None


def _count_parameters(model: Path, head: bool) -> int | None:
    shards = sorted(model.glob("*.safetensors"))
    if shards:
        counts = (
            math.prod(entry["shape"])
            for shard in shards
            for name, entry in whole.safetensors_header(shard)[1].items()
            if name != "__metadata__" and (head or name != "lm_head.weight")
        )
        return int(sum(counts))
    stored = sum(path.stat().st_size for path in model.glob("*.bin"))
    if not stored:
        return None
    settings = json.loads((model / "config.json").read_bytes())
    return stored // size.BYTES.get(str(settings.get("torch_dtype") or settings.get("dtype")), 4)


def check(checkpoints: Checkpoints | None, free: int | None, place: str) -> None:
    """Raise Blocked when not even one checkpoint fits into ``free`` bytes at ``place``."""
    if checkpoints and free is not None and checkpoints.bytes_each > free:
        raise Blocked(
            f"one checkpoint of this job needs about {_gib(checkpoints.bytes_each)}; {_gib(free)} are free at {place}", hint=HINT
        )


def warning(checkpoints: Checkpoints | None, free: int | None, place: str) -> str:
    """Return why the checkpoints that are on disk at once may not all fit; "" when they will."""
    if not checkpoints or free is None:
        return ""
    each, at_once = checkpoints.bytes_each, checkpoints.at_once
    if each * (PLENTY if at_once is None else at_once) <= free:
        return ""
    keeps = f"keeps the newest {checkpoints.kept}" if checkpoints.kept else "keeps all of them"
    number = f"{at_once} at once need {_gib(each * at_once)}" if at_once else f"their number is not known, {free // each} fit"
    return f"checkpoints may not all fit: about {_gib(each)} each, verl {keeps}; {number}; {_gib(free)} are free at {place}"


def free(shared_root: str) -> int | None:
    """Return the free bytes of the file system of the shared root; None where this machine does not have it."""
    try:
        return shutil.disk_usage(shared_root).free
    except OSError:
        return None


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / (1 << 20):.1f} MiB"
