"""What a job records about its model and data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from toys import plan_of, write_model, write_parquet

from mvp_helpers.base import files
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.job import provenance
from mvp_helpers.prepare import adopt, manifest
from mvp_helpers.prepare.manifest import ADOPTED

COMMIT = "c" * 40


def inputs(shared: SharedRoot, cluster: Cluster, model: Path, dataset: Path) -> dict[str, Any]:
    plan = msgspec.structs.replace(plan_of("a", shared.root), model=str(model), dataset=str(dataset))
    return dict(provenance.collect(plan, cluster, [], "2.60")["inputs"])


def test_an_adopted_model_is_identified_by_its_manifest_also_behind_links(cluster: Cluster, shared: SharedRoot) -> None:
    snapshot = shared.hf_cache / "models--org--m" / "snapshots" / COMMIT
    write_model(snapshot)
    (shared.models / "m").symlink_to(os.path.relpath(snapshot, shared.models))
    adopt.adopt(shared.models / "m", adopt.check_model(shared.models / "m", shared), lambda _: None)
    recorded = inputs(shared, cluster, (shared.models / "m").resolve(), shared.datasets / "gsm8k")
    assert recorded["model"] == {
        "path": str(snapshot),
        "identity": files.sha256(shared.models / "m.manifest.json"),
        "made_at": recorded["model"]["made_at"],
        "made_from": ADOPTED,
        "commit": COMMIT,
    }
    assert recorded["model"]["made_at"] and recorded["dataset"]["identity"] is None, "gsm8k has no manifest"


def test_the_commit_that_a_branch_was_resolved_to_is_recorded(cluster: Cluster, shared: SharedRoot) -> None:
    folder = shared.datasets / "gsm8k"
    write_parquet(folder / "test.parquet", rows=2)
    recipe = {"source": "hub", "repo": "openai/gsm8k", "revision": "main"}
    manifest.write(folder, manifest.describe(folder, recipe, {}, (), COMMIT))
    recorded = inputs(shared, cluster, shared.models / "tiny", folder)["dataset"]
    assert recorded["commit"] == COMMIT and recorded["made_from"] == recipe


def test_what_the_job_keeps_is_recorded(cluster: Cluster, shared: SharedRoot) -> None:
    plan = msgspec.structs.replace(
        plan_of("a", shared.root, ["python3", "-m", "x", "trainer.max_actor_ckpt_to_keep=3"]), keep_rollouts=20
    )
    assert provenance.collect(plan, cluster, [], "2.60")["retention"] == {"checkpoints": 3, "rollouts": 20}
    assert provenance.collect(plan_of("a", shared.root), cluster, [], "2.60")["retention"] == {"checkpoints": None, "rollouts": 0}
