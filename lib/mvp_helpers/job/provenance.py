"""Where a job came from: ``config/provenance.json``. Facts only; an unknown fact is null."""

from __future__ import annotations

import getpass
import os
import platform
import socket
from pathlib import Path
from typing import Any

from .. import __version__
from ..base import files, git
from ..base.documents import Damaged, read_json
from ..base.paths import SharedRoot
from ..base.project import PROJECT
from ..base.times import now
from ..cluster.cluster_file import Cluster
from ..cluster.ray_api import Node
from ..plan.plan import Plan
from ..prepare import manifest, snapshot
from ..trainers import verl_checkpoints


def collect(plan: Plan, cluster: Cluster, nodes: list[Node], ray_version: str) -> dict[str, Any]:
    """Collect the provenance of one submission, on the head just before ``ray job submit``."""
    by_ip = {node.ip: node.node_id for node in nodes if node.alive}
    return {
        "submitted_from": _submitted_from(cluster, by_ip),
        "submitted_at": now(),
        "toolkit": {"version": __version__, **_toolkit()},
        "code": _code(plan),
        "resumed_from": _resumed_from(plan),
        # A checkpoint or a rollout that is not in the folder was not kept, rather than lost.
        "retention": {"checkpoints": verl_checkpoints.kept(plan.given), "rollouts": plan.keep_rollouts},
        "inputs": {
            name: _input(Path(path), SharedRoot(Path(plan.shared_root)))
            for name, path in (("model", plan.model), ("dataset", plan.dataset))
            if path
        },
        "reward_fn": {"path": plan.reward.file, "sha256": files.sha256(Path(plan.reward.file))} if plan.reward else None,
        "ray": ray_version,
        "python": platform.python_version(),
        "image": os.environ.get("MVP_IMAGE"),
        "image_id": os.environ.get("MVP_IMAGE_ID"),
        "hosts": [{"name": host.name, "role": host.role, "ip": host.ip, "node_id": by_ip.get(host.ip)} for host in cluster.hosts],
    }


def _submitted_from(cluster: Cluster, by_ip: dict[str, str]) -> dict[str, Any]:
    host = os.environ.get("MVP_HOST")
    ip = cluster.host(host).ip if host else None
    return {
        "host": host,
        "ip": ip,
        "hostname": socket.gethostname(),
        "node_id": by_ip.get(ip or ""),
        "pid": os.getpid(),
        "user": getpass.getuser(),
    }


def _input(folder: Path, shared: SharedRoot) -> dict[str, Any]:
    """Identify data or a model by the hash of the manifest that script 30 wrote (null for a folder without one)."""
    owner = manifest.owner(folder, shared)
    about = manifest.read(owner)
    return {
        "path": str(folder),
        "identity": files.sha256(manifest.place(owner)) if about else None,
        "made_at": about.made_at if about else None,
        "made_from": about.recipe if about else None,
        "commit": about.commit or None if about else None,
    }


def _toolkit() -> dict[str, Any]:
    facts = git.facts(PROJECT, ["lib", "scripts", "templates"])
    return {"commit": facts.get("commit"), "dirty": facts.get("dirty")}


def _code(plan: Plan) -> dict[str, Any] | None:
    if not plan.code_path:
        return None
    code = snapshot.load(Path(plan.code_path))
    return {"code_id": code.code_id, "content": code.content, "path": str(code.path), "source": code.source}


def _resumed_from(plan: Plan) -> dict[str, Any] | None:
    """Describe the checkpoint that this job resumes, and its lineage: the earlier jobs, oldest first, and their steps."""
    if not plan.resume:
        return None
    own = {"submission_id": plan.resume.submission_id, "step": plan.resume.step}
    try:
        source = read_json(SharedRoot(Path(plan.shared_root)).job(plan.resume.submission_id).provenance)
        lineage = [*((source.get("resumed_from") or {}).get("lineage") or []), own]
    except (OSError, Damaged, AttributeError, TypeError):
        lineage = None
    return {**own, "path": plan.resume.path, "skipped": plan.resume.skipped, "lineage": lineage}


def write(plan: Plan, facts: dict[str, Any]) -> None:
    """Write ``config/provenance.json``."""
    files.write_json(plan.folder.provenance, facts)
