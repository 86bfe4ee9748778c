"""Two finished jobs in a shared root whose cluster is not up: one for a test to damage, and one that must stay as it is."""

from __future__ import annotations

import msgspec
import pytest
from truthful_job import good_job, seals_of

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.times import now
from mvp_helpers.cluster import cluster_file
from mvp_helpers.record import chain as chains
from mvp_helpers.record import control
from mvp_helpers.record.chain import Attempt, Chain, Retry

VICTIM, OTHER = "victim", "other"
EXIT_CODES = {0, 1, 2, 3, 4}


@pytest.fixture
def root(shared: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> SharedRoot:
    """A shared root with two finished jobs, and a cluster that is not up."""
    local = cluster_file.load("local")
    ray = msgspec.structs.replace(local.ray, dashboard_port=1)
    state = str(shared.root / "state")
    cluster = msgspec.structs.replace(local, shared_root=str(shared.root), state_dir=state, seal_dir=state, ray=ray)
    monkeypatch.setenv("MVP_CLUSTER_JSON", msgspec.json.encode(cluster).decode())
    monkeypatch.setenv("COLUMNS", "200")
    for name in (OTHER, VICTIM):
        folder = good_job(shared, name)
        control.ask_stop(folder)
        control.set_trainer(folder, control.Trainer(supported=True, trainer="verl", host="h", pid=1, written_at=now()))
        (folder.debug / "20260101T000009.000Z-stalled").mkdir()
        (folder.debug / "20260101T000009.000Z-stalled" / "stall.json").write_text('{"kind": "unknown", "text": "silent"}')
        seals_of(folder).seal_now(folder)
    chain = Chain(cluster=local.name, retry=Retry(on=["host"]), attempts=[Attempt(id=VICTIM)], ended_at=now())
    chains.write(shared, chain)
    return shared
