"""From what a user asks to a request: two commits of one repository, a JobSpec, and the gates that judge its jobs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..base import git
from ..base.errors import BadInput, did_you_mean
from ..base.paths import SharedRoot
from ..cluster.cluster_file import Cluster
from ..gates import baseline as baselines
from ..gates import gates
from ..gates.baseline import FEWEST
from ..gates.gates import Gates
from ..plan import jobspec
from ..prepare import snapshot
from .record import Kind, Request
from .trials import TOOLKIT, VERL


def make(
    cluster: Cluster,
    good: str,
    bad: str,
    spec: bytes,
    spec_name: str,
    *,
    source: str | None = None,
    gates_text: str | None = None,
    chosen: Sequence[str] = (),
    baseline: str | None = None,
) -> tuple[Request, Gates]:
    """Return the request and its gates. ``good`` and ``bad`` are revisions, or snapshots that were taken of git checkouts.

    ``source`` is the repository, as the head sees it; by default that of the snapshots, or of the cluster file's ``code``.
    ``gates_text`` is a gate file's content instead of the shipped one; ``chosen`` names some of its gates.

    Raises BadInput.
    """
    workload = jobspec.load(spec, spec_name).workload
    found = _gates(workload, gates_text, chosen)
    shared = SharedRoot(Path(cluster.shared_root))
    if baseline is not None:
        baselines.find(shared, baseline)
    (good, good_place), (bad, bad_place) = _snapshot(good, shared), _snapshot(bad, shared)
    place = source or good_place or bad_place or cluster.code.folder
    if not place:
        raise BadInput(
            f"cluster '{cluster.name}' takes verl from a package, not from a git repository", hint="--source DIR, a checkout"
        )
    repository = Path(place)
    first, last = git.commit_of(repository, good), git.commit_of(repository, bad)
    _check_range(repository, first, last)
    request = Request(
        kind=_kind(repository, last),
        repository=str(repository.resolve()),
        good=first,
        bad=last,
        cluster=cluster.name,
        spec_name=spec_name,
        spec=spec.decode("utf-8-sig"),
        gates={name: gate.expect for name, gate in found.gates.items()},
        baseline=baseline,
    )
    return request, found


def good_runs(request: Request, found: Gates) -> int:
    """Return how often the good end is run: as often as a baseline needs when a gate needs one and none was named."""
    return FEWEST if request.baseline is None and any(gate.relative for gate in found.gates.values()) else 1


def _gates(workload: str, text: str | None, chosen: Sequence[str]) -> Gates:
    found = gates.load(workload) if text is None else gates.parse(text.encode(), "--gates")
    if found.workload != workload:
        raise BadInput(
            f"the gates are of workload '{found.workload}', the JobSpec of '{workload}'", hint="--gates FILE of that workload"
        )
    if unknown := next((name for name in chosen if name not in found.gates), None):
        raise BadInput(
            f"workload '{workload}' has no gate '{unknown}'{did_you_mean(unknown, found.gates)}",
            hint=f"gates: {', '.join(found.gates)}",
        )
    return msgspec.structs.replace(
        found, gates={name: gate for name, gate in found.gates.items() if not chosen or name in chosen}
    )


def _snapshot(code: str, shared: SharedRoot) -> tuple[str, str]:
    """Return the commit and the checkout of a snapshot; of any other text the text itself, a revision. Raises BadInput."""
    path = shared.root / code
    if not os.path.isfile(path / snapshot.MANIFEST):
        return code, ""
    source = snapshot.check(path).source
    facts = source.get("git") or {}
    if "commit" not in facts:
        raise BadInput(f"snapshot {code} was not taken of a git checkout", hint="name a commit, and its repository by --source")
    if facts.get("dirty"):
        raise BadInput(f"snapshot {code} has changes that are in no commit, such as {facts['changed'][0]}", hint="commit them")
    return str(facts["commit"]), str(source.get("path", ""))


def _kind(repository: Path, commit: str) -> Kind:
    if git.listing(repository, commit, VERL):
        return "verl"
    if git.listing(repository, commit, TOOLKIT):
        return "toolkit"
    raise BadInput(f"commit {commit[:10]} of {repository} is neither verl's nor this project's: {VERL} is missing")


def _check_range(repository: Path, good: str, bad: str) -> None:
    if good == bad:
        raise BadInput(
            f"the good and the bad end are the same commit, {good[:10]}", hint="git log GOOD..BAD lists the commits of a range"
        )
    if git.is_ancestor(repository, good, bad):
        return
    what = f"the good end {good[:10]} is not an ancestor of the bad end {bad[:10]}"
    if git.is_shallow(repository):
        raise BadInput(f"{what}: {repository} lacks older commits", hint=f"git -C {repository} fetch --unshallow")
    if git.is_ancestor(repository, bad, good):
        raise BadInput(f"{what}, but the other way round", hint="exchange --good and --bad")
    raise BadInput(what, hint=f"git -C {repository} merge-base {good[:10]} {bad[:10]} prints an ancestor of both")
