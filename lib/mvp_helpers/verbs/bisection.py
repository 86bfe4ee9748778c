"""Find the commit from which on a gate fails."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ..base.errors import BadInput
from . import say
from .values import Override

if TYPE_CHECKING:
    from ..bisect.search import Search


@click.command("bisect")
@click.option("--good", required=True, metavar="CODE", help="A commit whose jobs pass the gates, or a snapshot of it.")
@click.option("--bad", required=True, metavar="CODE", help="A later commit whose jobs fail one.")
@click.option("--spec-name", required=True, metavar="FILE", help="The JobSpec's name; its bytes are on stdin.")
@click.option("--source", metavar="DIR", help="The repository (default: that of the snapshots, or of the cluster file's code).")
@click.option("--gates-text", metavar="YAML", help="The content of a gate file (default: the gates of the workload).")
@click.option("--gate", "chosen", multiple=True, metavar="NAME", help="Judge by this gate only; may be repeated.")
@click.option("--baseline", metavar="NAME", help="The baseline of relative gates (default: three runs of the good end).")
@click.option(
    "--set", "overrides", multiple=True, type=Override(), metavar="KEY=VALUE", help="A trainer override; may be repeated."
)
@click.option("--packed", is_flag=True, help="Stdin contains the output of pack-spec.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON object.")
@click.option("--dry-run", is_flag=True, help="Print what would be searched, and stop.")
def bisect(
    good: str,
    bad: str,
    spec_name: str,
    source: str | None,
    gates_text: str | None,
    chosen: tuple[str, ...],
    baseline: str | None,
    overrides: tuple[str, ...],
    packed: bool,
    as_json: bool,
    dry_run: bool,
) -> int:
    """Find the first bad commit by jobs; exit code 1 when commits that cannot be run hide it."""
    import json
    from pathlib import Path

    from ..base.paths import SharedRoot
    from ..base.shared_storage import locked, remove_tree
    from ..bisect import record as records
    from ..bisect import request as requests
    from ..bisect import show
    from ..bisect.search import Search
    from ..bisect.trials import JobTrials
    from ..cluster import cluster_file
    from ..gates import baseline as baselines
    from ..job import job_secrets
    from ..plan import jobspec, limits

    loaded = cluster_file.from_environment()
    environment, data = job_secrets.unpack(sys.stdin.buffer.read(-1 if packed else limits.DOCUMENT.size + 1), packed)
    data = jobspec.with_overrides(data, spec_name, overrides)
    request, found = requests.make(
        loaded, good, bad, data, spec_name, source=source, gates_text=gates_text, chosen=chosen, baseline=baseline
    )
    runs, shared = requests.good_runs(request, found), SharedRoot(Path(loaded.shared_root))
    if dry_run:
        print(show.plan(request, found, runs, shared.bisections / request.name))
        return 0
    place = records.folder(shared, request)
    with locked(place / ".lock", "bisecting", say):
        record = records.read(place, request)
        if baseline is not None and record.baseline is None:
            record.baseline = baselines.find(shared, baseline)
        say(show.plan(request, found, runs, place))
        search = Search(
            place,
            record,
            JobTrials(request, place, loaded, found, environment, say),
            say,
            good_runs=runs,
        )
        try:
            outcome = search.complete()
        except KeyboardInterrupt:
            say("interrupted; the same command continues the search, and follows a job that still runs")
            raise
        remove_tree(place / "toolkit")
        shown = show.result(search, _page(search) if outcome.first_bad else "")
    print(json.dumps(shown) if as_json else show.text(shown))
    return 0 if outcome.first_bad else 1


def _page(search: Search) -> str:
    """Return the page that compares the good neighbour's job with that of the first bad commit; write it the first time."""
    from pathlib import Path

    from .reports import compare

    assert search.record.outcome and search.record.outcome.first_bad
    bad = search.record.step(search.record.outcome.first_bad)
    if bad is None or not bad.judged:
        raise BadInput(f"{search.place}: the record names no job of the first bad commit", hint=f"remove {search.place}")
    if not (search.record.outcome.page and Path(search.record.outcome.page).is_file()):
        search.record.outcome.page = str(compare(search.neighbour().judged[0], bad.judged[0]))
        search.save()
    return search.record.outcome.page
