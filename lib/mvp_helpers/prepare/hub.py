"""Fetch data and a model from a Hugging Face hub, at a pinned commit, into ``${SHARED_ROOT}/hf``.

Complete files are not fetched again, and broken downloads resume where they broke off. Every file is compared with the hash that
the hub published for it: the hub library checks sizes only, and only during the download.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..base import files
from ..base.errors import BadInput, Blocked
from ..base.git import without_user
from .gsm8k import Problem

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

MADE_WITH = ("huggingface_hub", "pyarrow")
_TIMEOUT_S = 20


def require_commit(revision: str, field: str) -> None:
    """Raise BadInput unless ``revision`` is a commit: a branch or tag can move, and a rerun would use other data."""
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise BadInput(
            f"data.hub.{field} must be a commit (40 hex digits), not '{revision}'",
            hint="the repository's page lists its commits under 'Files and versions', History",
        )


def fetch(
    repo: str, kind: Literal["model", "dataset"], revision: str, patterns: Sequence[str], cache: Path, say: Callable[[str], None]
) -> dict[str, Path]:
    """Fetch the files of ``repo`` that match ``patterns``; return their paths in the cache by name, links resolved.

    Raises:
        BadInput: no such repository, revision or file, or no permission.
        Blocked: the hub does not answer, or sends damaged files.
    """
    # By default the transfer cache of large files is in the home folder of the preparing host.
    os.environ.setdefault("HF_XET_CACHE", str(cache / "xet"))
    from huggingface_hub import HfApi, snapshot_download

    endpoint = os.environ.get("HF_ENDPOINT")
    with _explained(repo, revision):
        info = HfApi(endpoint=endpoint).repo_info(
            repo, repo_type=kind, revision=revision, files_metadata=True, timeout=_TIMEOUT_S
        )
        siblings: list[RepoSibling] = getattr(info, "siblings", None) or []
        wanted = [file for file in siblings if any(fnmatch.fnmatch(file.rfilename, pattern) for pattern in patterns)]
        if not wanted:
            raise BadInput(
                f"{repo} at {revision} has no file like {', '.join(patterns)}", hint="check the repository's name and revision"
            )
        say(f"fetching {repo}: {len(wanted)} files, {sum(file.size or 0 for file in wanted) / 1e6:.1f} MB in total")
        for attempt in (1, 2):
            snapshot = Path(
                snapshot_download(
                    repo,
                    repo_type=kind,
                    revision=revision,
                    cache_dir=cache / "hub",
                    endpoint=endpoint,
                    etag_timeout=_TIMEOUT_S,
                    allow_patterns=[file.rfilename for file in wanted],
                )
            )
            damaged = [path for file in wanted if not _is_whole(path := snapshot / file.rfilename, file)]
            if not damaged:
                return {file.rfilename: (snapshot / file.rfilename).resolve() for file in wanted}
            for path in damaged:
                say(f"{path.name} in the cache is damaged" + (": fetching it again" if attempt == 1 else ""))
                path.resolve().unlink(missing_ok=True)
                path.unlink(missing_ok=True)
    raise Blocked(
        f"the hub sends files of {repo} that do not match their hashes, such as {damaged[0].name}", hint="a proxy may alter them"
    )


def write_model(folder: Path, fetched: dict[str, Path]) -> None:
    """Fill a model folder with relative links into the cache, valid wherever the shared root is mounted.

    Raises:
        BadInput: the repository has no ``*.safetensors`` or no ``config.json``.
    """
    if "config.json" not in fetched or not any(name.endswith(".safetensors") for name in fetched):
        raise BadInput(
            "the model repository has no config.json, or no weights as *.safetensors",
            hint="choose another model or data.hub.model_files",
        )
    for name, origin in fetched.items():
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(origin, link.parent))


def read_problems(fetched: dict[str, Path], split: str) -> list[Problem]:
    """Return the problems of ``split``. Raises BadInput when the repository does not have GSM8K's layout."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [path for name, path in sorted(fetched.items()) if Path(name).name.startswith(f"{split}-")]
    try:
        rows = [row for path in paths for row in pq.read_table(path, columns=["question", "answer"]).to_pylist()]
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"the dataset's {split} split is not parquet with the columns question and answer: {error}") from None
    if not rows:
        raise BadInput(f"the dataset has no {split} split: no main/{split}-*.parquet")
    return [Problem(row["question"], row["answer"]) for row in rows]


def _is_whole(path: Path, published: RepoSibling) -> bool:
    """Return whether a file has its published hash: SHA-256 for large files, git's blob SHA-1 for small ones."""
    try:
        if published.lfs is not None:
            return bool(files.sha256(path) == published.lfs.sha256)
        data = path.read_bytes()
        return published.blob_id in (None, hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest())
    except OSError:
        return False


@contextlib.contextmanager
def _explained(repo: str, revision: str) -> Iterator[None]:
    """Turn the hub library's errors into BadInput or Blocked; a full or read-only disk stays an OSError."""
    import httpx
    from huggingface_hub import errors

    try:
        yield
    except (
        errors.GatedRepoError,
        errors.RepositoryNotFoundError,
        errors.RevisionNotFoundError,
        errors.HFValidationError,
    ) as error:
        raise BadInput(
            f"the hub refuses {repo} at {revision}: {type(error).__name__}",
            hint="check the name and the commit; a private or gated one needs HF_TOKEN",
        ) from error
    except (httpx.HTTPError, errors.HfHubHTTPError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise _unreachable(repo, error) from error
    except OSError as error:
        # The library raises OSError without a number for a short download; errors with a number come from the disk.
        if error.errno is None or isinstance(error, ConnectionError):
            raise _unreachable(repo, error) from error
        raise


def _unreachable(repo: str, error: Exception) -> Blocked:
    where = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return Blocked(
        without_user(f"cannot fetch {repo} from {where}: {reason}"),
        hint="check the network, or set HF_ENDPOINT to a mirror (whole files are kept); 'source: generated' needs no network",
    )
