"""What a job leaves behind, and what it proves or explains."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ..base.errors import BadInput, Blocked
from . import job, say

if TYPE_CHECKING:
    from . import Verbs


def _verify(args: argparse.Namespace) -> int:
    import json
    import shutil

    import msgspec

    from ..base import verdict
    from ..cluster import ray_api
    from ..proof import definition_of_done, verify
    from ..record import job_folder, reconcile

    jobs = []
    for submission_id in dict.fromkeys(args.ids):
        loaded, folder = job(submission_id)
        result = job_folder.read(folder)
        if not result.ended:
            result = reconcile.settle(folder, result, ray_api.of(loaded))
        jobs.append((folder, result))
    reports = verify.verify(jobs)
    lines = definition_of_done.judge(reports) if args.definition_of_done else []
    passed = all(report.passed for report in reports)
    if args.json:
        found = {"passed": passed, "jobs": [report.to_builtins() for report in reports]}
        if lines:
            found["definition_of_done"] = msgspec.to_builtins(lines)
        print(json.dumps(found))
    else:
        width = shutil.get_terminal_size((160, 24)).columns
        print("\n".join(verify.table(report, width) for report in reports))
        print(verify.counts(reports))
        if lines:
            print(verdict.table(lines, width, "Definition of Done"))
    return 0 if passed else 1


def _verify_versions(args: argparse.Namespace) -> int:
    import shutil

    from ..proof import two_versions, verify
    from ..proof.evidence import Job
    from ..record import job_folder

    folders = [job(submission_id)[1] for submission_id in args.ids]
    reports = two_versions.verdict([Job(folder, job_folder.read(folder)) for folder in folders])
    width = shutil.get_terminal_size((160, 24)).columns
    print("\n".join(verify.table(report, width) for report in reports))
    print(verify.counts(reports))
    return 0 if all(report.passed for report in reports) else 1


def _trend(args: argparse.Namespace) -> int:
    import shutil

    from ..base import chart
    from ..diagnosis import trend
    from ..record import metrics

    _, folder = job(args.id)
    rewards = metrics.read(folder.metrics).rewards()
    if not rewards:
        raise BadInput(f"job '{args.id}' has no reward in {folder.metrics}", hint="./scripts/50_status.sh lists the jobs")
    found = trend.of(rewards)
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    encoding = chart.encoding(os.environ, sys.stdout.encoding)
    print("\n".join([*chart.bars(rewards, width, 10, encoding), found.tell("reward")]))
    return 0 if found.rises else 1


def _debug_bundle(args: argparse.Namespace) -> int:
    from ..cluster import ray_api
    from ..record import debug_bundle

    loaded, folder = job(args.id)
    bundle = debug_bundle.take(folder, ray_api.of(loaded), args.event)
    print(bundle)
    failed, collected = debug_bundle.outcome(bundle)
    for item, error in failed.items():
        say(f"{item}: {error}")
    if not collected:
        raise Blocked("Ray told nothing: the bundle holds the errors only", hint="./scripts/50_status.sh")
    return 0


def _host_report(args: argparse.Namespace) -> int:
    from pathlib import Path

    from ..proof import host_report

    loaded, folder = job(args.id)
    for what in host_report.take(loaded, args.host, folder, Path(args.bundle), py_spy=args.py_spy):
        say(f"{args.host}: {what}")
    return 0


def _pack_bundle(args: argparse.Namespace) -> int:
    from pathlib import Path

    from ..proof import archive

    loaded, folder = job(args.id)
    packed, missing = archive.pack(loaded, folder, Path(args.bundle))
    print(packed)
    size = packed.stat().st_size
    say(f"{size / 1e6:.1f} MB" + (f"; {len(missing)} things are missing in it: see missing.txt" if missing else ""))
    return 0


def _explain(args: argparse.Namespace) -> int:
    from pathlib import Path

    import msgspec

    from ..cluster import ray_api
    from ..diagnosis import views
    from ..record import job_folder, reconcile

    if args.log:
        told = views.explain_log(Path(args.target))
    else:
        loaded, folder = job(args.target)
        told = views.explain_job(folder, reconcile.settle(folder, job_folder.read(folder), ray_api.of(loaded, timeout_s=3)))
    print(msgspec.json.encode(told).decode() if args.json else views.show_explanation(told))
    return 0


def add(verbs: Verbs) -> None:
    """The parsers of all of them."""
    verb = verbs.add_parser("verify", help="prove from the evidence in job folders that the jobs ran as they should")
    verb.add_argument("ids", nargs="+", metavar="ID", help="a submission_id")
    verb.add_argument("--json", action="store_true", help="one JSON object on stdout")
    verb.add_argument("--definition-of-done", action="store_true", help="also a verdict for each line of the plan's")
    verb.set_defaults(action=_verify)

    verb = verbs.add_parser("verify-versions", help="prove that two versions of the code were at work at the same time")
    verb.add_argument("ids", nargs=2, metavar="ID", help="a submission_id")
    verb.set_defaults(action=_verify_versions)

    verb = verbs.add_parser("trend", help="a job's reward by step as a chart, and whether it rose (a test, with its numbers)")
    verb.add_argument("id", help="a submission_id")
    verb.set_defaults(action=_trend)

    verb = verbs.add_parser("debug-bundle", help="snapshots of Ray's state into the job folder; its path on stdout")
    verb.add_argument("id", help="a submission_id")
    verb.add_argument("--event", default="manual", help="the word in the bundle's name (default: manual)")
    verb.set_defaults(action=_debug_bundle)

    verb = verbs.add_parser("host-report", help="add what this host knows about a job to one of its debug bundles")
    verb.add_argument("host", help="its name in the cluster file")
    verb.add_argument("id", help="a submission_id")
    verb.add_argument("bundle", help="the bundle's folder")
    verb.add_argument("--py-spy", action="store_true", help="also where its Python processes are")
    verb.set_defaults(action=_host_report)

    verb = verbs.add_parser("pack-bundle", help="one archive of a debug bundle and the job's evidence; its path on stdout")
    verb.add_argument("id", help="a submission_id")
    verb.add_argument("bundle", help="the bundle's folder")
    verb.set_defaults(action=_pack_bundle)

    verb = verbs.add_parser("explain", help="the first root cause of a job's failure, or of what a log tells")
    verb.add_argument("target", metavar="ID|LOG", help="a submission_id, or with --log the path of a log on this host")
    verb.add_argument("--log", action="store_true", help="the target is a log")
    verb.add_argument("--json", action="store_true", help="one JSON object on stdout")
    verb.set_defaults(action=_explain)
