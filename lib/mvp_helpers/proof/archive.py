"""Script 53: one archive to attach to a report, from a bundle that every host has added to."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..base import files, redact
from ..base.documents import Damaged, read_as
from ..base.errors import BadInput, MvpError
from ..base.paths import JobFolder
from ..cluster.cluster_file import Cluster
from ..diagnosis import views
from ..masking import known
from ..record import debug_bundle, job_folder
from .host_report import tail

MOST = 64 << 20
"""Bytes in the archive before compression: files are added in order of importance; one that does not fit is named instead."""
LOG_TAIL = 8 << 20
METRICS_TAIL = 1 << 20
EARLIER_BUNDLES = 10


class _Report(msgspec.Struct):
    missing: list[str]


def pack(cluster: Cluster, folder: JobFolder, bundle: Path) -> tuple[Path, list[str]]:
    """Write ``<bundle>.tar.zst`` and return its path, and a phrase for each thing that is missing in it.

    Where this Python has no zstd it is ``<bundle>.tar.gz``.

    Raises:
        BadInput: ``bundle`` is not a debug bundle of that job.
        OSError: the job folder cannot be written.
    """
    if bundle.parent != folder.debug or not (bundle / "bundle.json").is_file():
        raise BadInput(f"{bundle} is not a debug bundle of job '{folder.submission_id}'")
    folder.check_own(bundle)
    missing = _missing(cluster, bundle)
    mask = known.mask(folder.shared)
    tarfile, method = _compression()
    archive, budget = bundle.with_name(f"{bundle.name}.tar.{method}"), MOST
    with files.replacing(archive, mode=0o600) as temporary, tarfile.open(temporary, f"w:{method}") as tar:
        # 0600: the owner decides who may read it.

        def add(name: str, data: bytes) -> None:
            entry = tarfile.TarInfo(f"{folder.submission_id}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o644
            tar.addfile(entry, io.BytesIO(data))

        for name, raw in _contents(folder, bundle, missing):
            data = redact.data(mask.data(raw))
            if len(data) > budget:
                missing.append(f"{name}: left out, the archive has {MOST >> 20} MiB already")
                continue
            budget -= len(data)
            add(name, data)
        add("missing.txt", "".join(f"{phrase}\n" for phrase in missing or ["nothing"]).encode(errors="backslashreplace"))
    return archive, missing


def _compression() -> tuple[Any, str]:
    """Return the module ``tarfile`` and the best compression it has here. The image of a host may lack zstd."""
    try:
        from backports.zstd import tarfile
    except ModuleNotFoundError:
        import tarfile  # type: ignore[no-redef]

        return tarfile, "gz"
    return tarfile, "zst"


def _missing(cluster: Cluster, bundle: Path) -> list[str]:
    failed, _ = debug_bundle.outcome(bundle)
    missing = [f"Ray: {item}: {error}" for item, error in failed.items()]
    for host in cluster.hosts:
        try:
            problems = read_as(bundle / "hosts" / host.name / "report.json", _Report).missing
        except (OSError, Damaged):
            problems = ["no report from this host"]
        missing += [f"{host.name}: {problem}" for problem in problems]
    return missing


def _contents(folder: JobFolder, bundle: Path, missing: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file for the archive, the most important first. What a link leads to is not the job's."""
    yield "explanation.json", _explanation(folder)
    for path, limit in _files(folder, bundle):
        name = str(path.relative_to(folder.path))
        if path.is_symlink():
            missing.append(f"{name}: a link to {os.readlink(path)}")
        elif path.is_file():
            try:
                yield name, tail(path, limit)
            except OSError as error:
                missing.append(f"{name}: {error.strerror}")


def _files(folder: JobFolder, bundle: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files for the archive, with how many bytes of each."""
    for path in (folder.result, folder.precheck, *sorted(folder.config.glob("*"))):
        yield path, LOG_TAIL
    yield folder.driver_log, LOG_TAIL
    yield folder.metrics, METRICS_TAIL
    bundles = (place for place in folder.debug.glob("2*") if place.is_dir() and not place.is_symlink() and place != bundle)
    for place in (bundle, *sorted(bundles, reverse=True)[:EARLIER_BUNDLES]):
        for path in sorted(files.below(place)):
            yield path, LOG_TAIL


def _explanation(folder: JobFolder) -> bytes:
    try:
        return msgspec.json.format(msgspec.json.encode(views.explain_job(folder, job_folder.read(folder))), indent=2)
    except MvpError as error:
        return json.dumps({"error": error.what}).encode()
