"""Check that the paths of a JobSpec exist and that the files behind them are whole, from a few bytes of each."""

from __future__ import annotations

from pathlib import Path

from ..base.errors import BadInput
from ..cluster.cluster_file import SAFE_PATH
from ..prepare import whole


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
        problem = whole.parquet_problem(path)
    except FileNotFoundError:
        raise Missing(f"{source}: {field} lacks {path.name}: {path}", path, hint=MISSING_HINTS["dataset"]) from None
    except OSError as error:
        raise BadInput(f"{source}: {field}: cannot read {path}: {error.strerror}") from None
    if problem:
        raise BadInput(f"{source}: {field}: {path} {problem}", hint=MISSING_HINTS["dataset"])


def check_model(folder: Path, source: str) -> None:
    """Check that a Hugging Face model folder has config, tokenizer and every weight file, each as long as its header says.

    Raises:
        BadInput: names the missing or truncated file.
    """
    if problem := whole.model_problem(folder):
        raise BadInput(f"{source}: model {folder}: {problem}", hint=MISSING_HINTS["model"])
