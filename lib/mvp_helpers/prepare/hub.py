"""Fetch data and a model from a Hugging Face hub into ``${SHARED_ROOT}/hf``.

Complete files are not fetched again, and a broken connection resumes where it broke off. Every file is compared with the hash
that the hub published for it: the hub library checks sizes only, and only during the download.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import os
import re
import shutil
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from ..base import files
from ..base.errors import BadInput, Blocked, MvpError
from ..base.git import without_user

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

MADE_WITH = ("huggingface_hub", "pyarrow")
_TIMEOUT_S = 20
_COMMIT = re.compile(r"[0-9a-f]{40}")
Kind = Literal["model", "dataset"]


@dataclass(frozen=True)
class Fetched:
    """Files by their name in the repository, links resolved, and the commit that the revision was resolved to ("": unknown)."""

    files: dict[str, Path]
    commit: str


def commit_of(folder: Path) -> str:
    """Return the commit of a snapshot in a Hugging Face cache, which is its name; "" for any other folder."""
    return folder.name if folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name) else ""


def fetch(repo: str, kind: Kind, revision: str, patterns: Sequence[str], cache: Path, say: Callable[[str], None]) -> Fetched:
    """Fetch the files of ``repo`` that match ``patterns``.

    Raises:
        BadInput: no such repository, revision or file, or no permission.
        Blocked: the hub does not answer, refuses for now, or sends damaged files; or the disk is full.
    """
    if not address().startswith(("http://", "https://")):
        raise BadInput(f"HF_ENDPOINT is not a URL: '{address()}'", hint="HF_ENDPOINT=https://…")
    # By default the transfer cache of large files is in the home folder of the preparing host.
    os.environ.setdefault("HF_XET_CACHE", str(cache / "xet"))
    from huggingface_hub import constants

    with _explained(repo, kind, revision, cache), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as too little space, which is then an error
        if constants.HF_HUB_OFFLINE:
            return _cached(repo, kind, revision, patterns, cache / "hub", say)
        return _download(repo, kind, revision, patterns, cache / "hub", say)


def _download(repo: str, kind: Kind, revision: str, patterns: Sequence[str], cache: Path, say: Callable[[str], None]) -> Fetched:
    from huggingface_hub import HfApi, snapshot_download

    endpoint = os.environ.get("HF_ENDPOINT")
    info = HfApi(endpoint=endpoint).repo_info(repo, repo_type=kind, revision=revision, files_metadata=True, timeout=_TIMEOUT_S)
    siblings: list[RepoSibling] = getattr(info, "siblings", None) or []
    wanted = [file for file in siblings if matches(file.rfilename, patterns)]
    if not wanted:
        raise _without_files(repo, revision, patterns)
    total = sum(file.size or 0 for file in wanted) / 1e6
    say(f"fetching {repo} at {_described(revision, info.sha)}: {len(wanted)} files, {total:.1f} MB in total")
    for attempt in (1, 2):
        snapshot = Path(
            snapshot_download(
                repo,
                repo_type=kind,
                revision=info.sha,
                cache_dir=cache,
                endpoint=endpoint,
                etag_timeout=_TIMEOUT_S,
                allow_patterns=[file.rfilename for file in wanted],
            )
        )
        damaged = [path for file in wanted if not _is_whole(path := snapshot / file.rfilename, file)]
        if not damaged:
            _remember(snapshot, revision)
            return Fetched({file.rfilename: (snapshot / file.rfilename).resolve() for file in wanted}, info.sha)
        for path in damaged:
            say(f"{path.name} in the cache is damaged" + (": fetching it again" if attempt == 1 else ""))
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
    raise Blocked(
        f"the hub sends files of {repo} that do not match their hashes, such as {damaged[0].name}",
        hint="a proxy or mirror may alter them: another HF_ENDPOINT",
    )


def _cached(repo: str, kind: Kind, revision: str, patterns: Sequence[str], cache: Path, say: Callable[[str], None]) -> Fetched:
    """Take a snapshot from the cache, without a network."""
    from huggingface_hub import snapshot_download

    snapshot = Path(
        snapshot_download(
            repo, repo_type=kind, revision=revision, cache_dir=cache, allow_patterns=list(patterns), local_files_only=True
        )
    )
    names = [str(path.relative_to(snapshot)) for path in sorted(snapshot.rglob("*")) if path.is_file()]
    wanted = {name: (snapshot / name).resolve() for name in names if matches(name, patterns)}
    if not wanted:
        raise _without_files(repo, revision, patterns)
    for name, path in wanted.items():
        if not _has_hash(path, path.name):
            raise Blocked(f"{name} of {repo} in the cache is damaged: {path}", hint="fetch it again without HF_HUB_OFFLINE")
    say(f"{repo} at {_described(revision, snapshot.name)}: from the cache, as HF_HUB_OFFLINE asks")
    return Fetched(wanted, snapshot.name)


def _remember(snapshot: Path, revision: str) -> None:
    """Record in the cache, as the hub library does, to which commit a branch or tag was resolved: HF_HUB_OFFLINE needs it."""
    if revision != snapshot.name:
        reference = snapshot.parents[1] / "refs" / revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(reference, snapshot.name)


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _described(revision: str, commit: str) -> str:
    return commit[:12] if revision == commit else f"{revision} ({commit[:12]})"


def _without_files(repo: str, revision: str, patterns: Sequence[str]) -> BadInput:
    return BadInput(
        f"{repo} at {revision} has no file like {', '.join(patterns)}", hint="check the repository's name and revision"
    )


def _is_whole(path: Path, published: RepoSibling) -> bool:
    """Return whether a file has its published hash: SHA-256 for large files, git's blob SHA-1 for small ones."""
    try:
        return _has_hash(path, published.lfs.sha256 if published.lfs is not None else published.blob_id or "")
    except OSError:
        return False


def _has_hash(path: Path, digest: str) -> bool:
    """Return whether a file has a SHA-256 (64 digits) or git's blob SHA-1 (40 digits); True when ``digest`` is neither."""
    if re.fullmatch(r"[0-9a-f]{64}", digest):
        return files.sha256(path) == digest
    if _COMMIT.fullmatch(digest):
        data = path.read_bytes()
        return digest == hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return True


@contextlib.contextmanager
def _explained(repo: str, kind: Kind, revision: str, cache: Path) -> Iterator[None]:
    """Turn the hub library's errors into BadInput or Blocked; a read-only disk stays an OSError."""
    from huggingface_hub import errors

    try:
        yield
    except MvpError:
        raise
    except errors.HFValidationError as error:
        raise BadInput(f"data.hub.{kind}: not the name of a repository: '{repo}'") from error
    except Exception as error:
        if (explained := _refusal(repo, kind, revision, error) or _no_connection(repo, revision, error, cache)) is None:
            raise
        raise explained from error


def _refusal(repo: str, kind: Kind, revision: str, error: BaseException | None) -> MvpError | None:
    """Return what an answer of the hub with an error's status means; None when the hub did not answer."""
    from huggingface_hub import errors

    while error is not None and not isinstance(error, errors.HfHubHTTPError):
        error = error.__cause__
    if error is None:
        return None
    response, hub = error.response, address()
    status = response.status_code if response is not None else 0
    with_token = "HF_TOKEN is set, but may lack the permission" if os.environ.get("HF_TOKEN") else "a private one needs HF_TOKEN"
    if isinstance(error, errors.RevisionNotFoundError):
        return BadInput(
            f"{repo} has no branch, tag or commit '{revision}' on {hub}",
            hint=f"correct data.hub.{kind}_revision; the repository's page lists them under 'Files and versions'",
        )
    if isinstance(error, errors.GatedRepoError) or status == 403:
        return BadInput(
            f"{hub} does not allow {repo} ({status})",
            hint=f"accept its terms on its page, with the account of HF_TOKEN; {with_token}",
        )
    if status == 401 and not isinstance(error, errors.RepositoryNotFoundError):
        return BadInput(f"{hub} does not accept the token (401)", hint="export HF_TOKEN=… with a valid one, or unset it")
    if status == 407:
        return BadInput(
            without_user(f"cannot reach {hub}{_through()}: the proxy does not accept the login (407)"),
            hint="HTTP_PROXY=http://USER:PASSWORD@…, or HTTPS_PROXY for https",
        )
    if status in (401, 404):
        return BadInput(f"{hub} has no {kind} {repo}, or it is private ({status})", hint=f"correct data.hub.{kind}; {with_token}")
    if status == 429:
        return Blocked(
            f"{hub} refused {repo}: too many requests (429)",
            hint="again in a few minutes (whole files are kept); HF_TOKEN raises the limit; or HF_ENDPOINT of a mirror",
        )
    return Blocked(
        f"{hub} cannot send {repo} now ({status})", hint="again later (whole files are kept), or HF_ENDPOINT of a mirror"
    )


def _no_connection(repo: str, revision: str, error: Exception, cache: Path) -> Blocked | None:
    """Return what an error means that is not an answer of the hub; None when it is something else."""
    from huggingface_hub import errors

    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(cache).free / 1e6
        return Blocked(
            f"no space for {repo} in {cache} ({free:.0f} MB free): {error.strerror}",
            hint="free some space and run this again: whole files are kept",
        )
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    if os.environ.get("HF_HUB_OFFLINE") and isinstance(error, errors.LocalEntryNotFoundError):
        return Blocked(
            f"HF_HUB_OFFLINE is set, and {repo} at {revision} is not whole in {cache}/hub",
            hint="unset HF_HUB_OFFLINE, or copy it there, or name a folder as its source (data.hub in the cluster file)",
        )
    # httpx.HTTPError, without importing it: older hub libraries do not need it, and raise an OSError without a number.
    from_network = any(base.__module__.startswith("httpx") for base in type(error).__mro__)
    if from_network or isinstance(error, ConnectionError) or (isinstance(error, OSError) and error.errno is None):
        return Blocked(
            without_user(f"cannot fetch {repo} from {address()}{_through()}: {reason}"),
            hint="check the network, or set HF_ENDPOINT to a mirror (whole files are kept), or name a folder as its source "
            "(data.hub in the cluster file); 'source: generated' needs no network",
        )
    return None


def address() -> str:
    """Return the hub's URL, without a user name or password."""
    return without_user(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")


def _through() -> str:
    """Return which proxy the environment chooses for the hub."""
    url = urlsplit(address())
    proxy = urllib.request.getproxies().get(url.scheme)
    return f" through the proxy {proxy}" if proxy and not urllib.request.proxy_bypass(url.netloc) else ""
