"""A job's life: submitted, run, followed, stopped."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from . import job, say

if TYPE_CHECKING:
    from . import Verbs


def _submit(args: argparse.Namespace) -> int:
    from ..cluster import cluster_file
    from ..job import job_secrets, submit
    from ..plan import plan
    from ..record import job_folder

    loaded = cluster_file.from_environment()
    environment, data = job_secrets.unpack(sys.stdin.buffer.read(), args.packed)
    if args.dry_run:
        the_plan, _ = submit.prepare(data, args.spec_name, loaded, environment)
        print(plan.describe(the_plan, args.via), end="")
        return 0
    the_plan, api = submit.submit(data, args.spec_name, loaded, say, environment, via=args.via)
    print(the_plan.submission_id, flush=True)
    if not args.wait:
        return 0
    from ..job import follow

    result = follow.follow(the_plan.folder, api, timeout_s=args.timeout, pending_timeout_s=args.pending_timeout, say=say)
    return job_folder.EXIT_CODES.get(result.state, 1)


def _pack_spec(args: argparse.Namespace) -> int:
    from ..job import job_secrets

    sys.stdout.buffer.write(job_secrets.pack(sys.stdin.buffer.read(), args.spec_name))
    return 0


def _run_job(args: argparse.Namespace) -> int:
    from pathlib import Path

    from ..base import paths
    from ..job import run_job

    return run_job.run(paths.JobFolder(Path(args.folder)))


def _list(args: argparse.Namespace) -> int:
    from pathlib import Path

    from ..base import paths
    from ..cluster import cluster_file
    from ..record import job_folder

    shared = paths.SharedRoot(Path(cluster_file.from_environment().shared_root))
    for submission_id in job_folder.newest_ids(shared, args.limit):
        folder = shared.job(submission_id)
        if folder.path.is_dir():  # a job folder removed by hand leaves its name in the index
            result = job_folder.read(folder)
            print(submission_id, result.state, result.workload, result.claimed_at, sep="\t")
    return 0


def _status(args: argparse.Namespace) -> int:
    import contextlib
    import json
    import shutil
    import time

    from ..base.terminal import wants_colour
    from ..cluster import cluster_file, ray_api
    from ..job import retention, status

    if args.follow:
        return _follow(args.follow)
    loaded = cluster_file.from_environment()
    api = ray_api.of(loaded, timeout_s=3)
    terminal = sys.stdout.isatty()

    def show() -> None:
        found = status.collect(loaded, api, args.limit)
        text = json.dumps(found)
        if not args.json:
            text = status.screen(found, shutil.get_terminal_size((160, 24)).columns, wants_colour(terminal))
        print(("\x1b[H\x1b[2J" if args.watch and terminal else "") + text, flush=True)
        retention.sweep(loaded, api)

    show()
    with contextlib.suppress(KeyboardInterrupt):
        while args.watch:
            time.sleep(2)
            show()
    return 0


def _follow(submission_id: str) -> int:
    from ..cluster import ray_api
    from ..job import follow
    from ..record import job_folder

    loaded, folder = job(submission_id)
    result = follow.follow(folder, ray_api.of(loaded), pending_timeout_s=None, say=say)
    return job_folder.EXIT_CODES.get(result.state, 1)


def _logs(args: argparse.Namespace) -> int:
    from ..base import times
    from ..cluster import ray_api
    from ..job import logs
    from ..record import job_folder

    since = times.since(args.since) if args.since else None
    loaded, folder = job(args.id)
    if not args.follow:
        logs.show(folder, since, say)
        return 0
    result = logs.follow(folder, ray_api.of(loaded), since, say)
    return job_folder.EXIT_CODES.get(result.state, 1)


def _stop(args: argparse.Namespace) -> int:
    from ..base.errors import BadInput
    from ..cluster import ray_api
    from ..job import stop

    if args.now and args.save_only:
        raise BadInput("--now and --save-only exclude each other")
    jobs = [job(submission_id) for submission_id in dict.fromkeys(args.ids)]
    folders, api = [folder for _, folder in jobs], ray_api.of(jobs[0][0])
    if args.save_only:
        for folder, saved in stop.save(folders, api, say):
            print(folder.submission_id, saved.step, saved.path)
        return 0
    for result in stop.stop(folders, api, say, at_once=args.now):
        print(result.submission_id, result.state)
    return 0


def _stop_here(args: argparse.Namespace) -> int:
    from ..job import stop

    for submission_id in dict.fromkeys(args.ids):
        stop.stop_here(job(submission_id)[1], args.host, say, at_once=args.now)
    return 0


def _end_leftovers(args: argparse.Namespace) -> int:
    from ..job import stop

    for submission_id in dict.fromkeys(args.ids):
        stop.end_leftovers(job(submission_id)[1], args.host, say)
    return 0


def add(verbs: Verbs) -> None:
    """The parsers of all of them."""
    verb = verbs.add_parser("submit", help="submit a JobSpec from stdin (on the head)")
    verb.add_argument("--spec-name", required=True, help="the file's name: its ending says JSON or YAML, messages name it")
    verb.add_argument("--wait", action="store_true", help="follow the job and exit with its outcome")
    verb.add_argument("--no-wait", dest="wait", action="store_false", help="return when Ray has accepted the job (default)")
    verb.add_argument("--timeout", type=float, help="with --wait: give up after so many seconds (exit 4); the job goes on")
    verb.add_argument(
        "--pending-timeout", type=float, default=120, help="give up when Ray has not started the job after so many seconds"
    )
    verb.add_argument(
        "--via", choices=("cli", "sdk"), default="cli", help="hand over by ray job submit (default), or Ray's Python SDK"
    )
    verb.add_argument("--packed", action="store_true", help="stdin is what pack-spec wrote")
    verb.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    verb.set_defaults(action=_submit)

    verb = verbs.add_parser("pack-spec", help="a JobSpec from stdin with the secrets it names from this environment, for submit")
    verb.add_argument("--spec-name", required=True, help="the file's name: its ending says JSON or YAML")
    verb.set_defaults(action=_pack_spec)

    verb = verbs.add_parser("run-job", help="the job runner (Ray starts it on a worker)")
    verb.add_argument("folder", help="the job folder")
    verb.set_defaults(action=_run_job)

    verb = verbs.add_parser("list", help="the newest jobs, newest first: id, state as last written, workload, time of the claim")
    verb.add_argument("--limit", type=int, default=20, help="so many (default 20)")
    verb.set_defaults(action=_list)

    verb = verbs.add_parser("status", help="the cluster and its newest jobs on one screen")
    verb.add_argument("--json", action="store_true", help="one JSON object (with --watch: one a line)")
    verb.add_argument("--watch", action="store_true", help="again every 2 seconds, until Ctrl-C")
    verb.add_argument(
        "--limit", type=int, default=20, help="so many of the newest jobs, and all that have not ended (default 20)"
    )
    verb.add_argument("--follow", metavar="ID", help="follow this job to its end and exit with its outcome")
    verb.set_defaults(action=_status)

    verb = verbs.add_parser("logs", help="a job's log, from its folder, on stdout")
    verb.add_argument("id", help="a submission_id")
    verb.add_argument("-f", "--follow", action="store_true", help="as it grows, to the job's end; exit with its outcome")
    verb.add_argument("--since", metavar="WHEN", help="only what was logged since: 10m, 2h, or 2026-01-31T23:59 (UTC)")
    verb.set_defaults(action=_logs)

    verb = verbs.add_parser("stop", help="have jobs save and end; each one's id and state on stdout")
    verb.add_argument("ids", nargs="+", metavar="ID", help="a submission_id")
    verb.add_argument("--now", action="store_true", help="do not wait for a checkpoint: SIGTERM at once")
    verb.add_argument("--save-only", action="store_true", help="a checkpoint now; the job goes on; id, step, path on stdout")
    verb.set_defaults(action=_stop)

    verb = verbs.add_parser("stop-here", help="stop jobs whose runner is on this host, without Ray")
    verb.add_argument("host", help="its name in the cluster file")
    verb.add_argument("ids", nargs="+", metavar="ID", help="a submission_id")
    verb.add_argument("--now", action="store_true", help="do not wait for a checkpoint: SIGTERM at once")
    verb.set_defaults(action=_stop_here)

    verb = verbs.add_parser("end-leftovers", help="end what ended jobs have left running on this host")
    verb.add_argument("host", help="its name in the cluster file")
    verb.add_argument("ids", nargs="+", metavar="ID", help="a submission_id")
    verb.set_defaults(action=_end_leftovers)
