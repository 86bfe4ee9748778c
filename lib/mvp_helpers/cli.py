"""The command line of the helper: each verb parses its arguments and calls one action. Results on stdout, talk on stderr."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from .errors import BadInput, Blocked, MvpError

if TYPE_CHECKING:
    from .cluster import Cluster
    from .paths import JobFolder

    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]


def say(text: str) -> None:
    """One line for the person watching."""
    print(text, file=sys.stderr, flush=True)


def _cluster(args: argparse.Namespace) -> int:
    from . import cluster

    addresses = dict(pair.partition("=")[::2] for pair in args.at)
    loaded = cluster.load(args.name, addresses, args.here)
    if args.here:
        loaded.host(args.here)
    print(loaded.to_shell(), end="")
    return 0


def _start_node(args: argparse.Namespace) -> int:
    import signal

    from . import cluster, ray_node

    # Scripts start workers in the background, where bash ignores SIGINT, and pass Ctrl-C on as SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    print(ray_node.start(cluster.from_environment(), args.host, early=args.early))
    return 0


def _stop_node(args: argparse.Namespace) -> int:
    from . import cluster, ray_node

    print(ray_node.stop(cluster.from_environment(), args.host))
    return 0


def _wait_nodes(args: argparse.Namespace) -> int:
    from . import cluster, ray_node

    loaded = cluster.from_environment()
    if args.now:
        print(ray_node.state(loaded))
    else:
        ray_node.wait(loaded)
    return 0


def _host_facts(args: argparse.Namespace) -> int:
    import msgspec

    from . import cluster, prereq

    look = prereq.canaries if args.read else prereq.host_facts
    # One write a host: all hosts' lines go into one pipe at the same time.
    os.write(1, msgspec.json.encode(look(cluster.from_environment(), args.host, args.canary)) + b"\n")
    return 0


def _prereq(args: argparse.Namespace) -> int:
    import msgspec

    from . import cluster, prereq

    loaded = cluster.from_environment()
    rounds = [
        [msgspec.json.decode(line, type=prereq.Facts) for line in part.splitlines() if line.strip()]
        for part in sys.stdin.read().split("\n\n", 1)
    ]
    checks = prereq.decide(loaded, rounds[0], rounds[1], prereq.tool_versions())
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(checks), indent=2).decode())
    else:
        print(prereq.table(checks))
    return 0 if all(check.ok for check in checks) else 3


def _prepare(args: argparse.Namespace) -> int:
    from pathlib import Path

    from . import cluster, documents, paths, prepare

    loaded = cluster.from_environment()
    settings = documents.convert(loaded.data, prepare.DataSettings, f"cluster '{loaded.name}': data")
    for item in prepare.prepare(settings, paths.SharedRoot(Path(loaded.shared_root)), say, dry_run=args.dry_run):
        print(item.path)
    return 0


def _snapshot(args: argparse.Namespace) -> int:
    from pathlib import Path

    from . import cluster, paths, snapshot

    loaded = cluster.from_environment()
    if args.list or args.prune:
        return _stored_snapshots(loaded, args)
    code = loaded.code
    place = args.source or code.path
    if args.source is None and code.source == "package":
        source = snapshot.Source()
    elif place is None:
        raise BadInput(f"cluster '{loaded.name}': code.source is '{code.source}' but code.path is not set")
    else:
        source = snapshot.Source(path=Path(place), clone_from=code.repository or "" if code.source == "git" else "")
    shared = paths.SharedRoot(Path(loaded.shared_root))
    print(snapshot.snapshot(source, shared, args.code_id, dry_run=args.dry_run, say=say).path)
    return 0


def _stored_snapshots(loaded: Cluster, args: argparse.Namespace) -> int:
    import shutil
    from pathlib import Path

    from . import paths, snapshot_store

    shared = paths.SharedRoot(Path(loaded.shared_root))
    if args.list:
        print(snapshot_store.table(snapshot_store.stored(shared), shutil.get_terminal_size((160, 24)).columns))
        return 0
    removed = snapshot_store.prune(shared, say, dry_run=args.dry_run)
    for code_id in removed:
        print(code_id)
    say(f"{'would remove' if args.dry_run else 'removed'} {len(removed)} snapshots that no job folder names")
    return 0


def _submit(args: argparse.Namespace) -> int:
    from . import cluster, job_folder, job_secrets, plan, submit

    loaded = cluster.from_environment()
    environment, data = job_secrets.unpack(sys.stdin.buffer.read(), args.packed)
    if args.dry_run:
        the_plan, _ = submit.prepare(data, args.spec_name, loaded, environment)
        print(plan.describe(the_plan, args.via), end="")
        return 0
    the_plan, api = submit.submit(data, args.spec_name, loaded, say, environment, via=args.via)
    print(the_plan.submission_id, flush=True)
    if not args.wait:
        return 0
    from . import follow

    result = follow.follow(the_plan.folder, api, timeout_s=args.timeout, pending_timeout_s=args.pending_timeout, say=say)
    return job_folder.EXIT_CODES.get(result.state, 1)


def _pack_spec(args: argparse.Namespace) -> int:
    from . import job_secrets

    sys.stdout.buffer.write(job_secrets.pack(sys.stdin.buffer.read(), args.spec_name))
    return 0


def _run_job(args: argparse.Namespace) -> int:
    from pathlib import Path

    from . import paths, run_job

    return run_job.run(paths.JobFolder(Path(args.folder)))


def _debug_bundle(args: argparse.Namespace) -> int:
    from . import debug_bundle, ray_api

    loaded, folder = _job(args.id)
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

    from . import host_report

    loaded, folder = _job(args.id)
    for what in host_report.take(loaded, args.host, folder, Path(args.bundle), py_spy=args.py_spy):
        say(f"{args.host}: {what}")
    return 0


def _pack_bundle(args: argparse.Namespace) -> int:
    from pathlib import Path

    from . import report

    loaded, folder = _job(args.id)
    archive, missing = report.pack(loaded, folder, Path(args.bundle))
    print(archive)
    size = archive.stat().st_size
    say(f"{size / 1e6:.1f} MB" + (f"; {len(missing)} things are missing in it: see missing.txt" if missing else ""))
    return 0


def _status(args: argparse.Namespace) -> int:
    import contextlib
    import json
    import shutil
    import time

    from . import cluster, ray_api, retention, status

    if args.follow:
        return _follow(args.follow)
    loaded = cluster.from_environment()
    api = ray_api.of(loaded, timeout_s=3)
    terminal = sys.stdout.isatty()

    def show() -> None:
        found = status.collect(loaded, api, args.limit)
        text = json.dumps(found)
        if not args.json:
            text = status.screen(found, shutil.get_terminal_size((160, 24)).columns, status.wants_colour(terminal))
        print(("\x1b[H\x1b[2J" if args.watch and terminal else "") + text, flush=True)
        retention.sweep(loaded, api)

    show()
    with contextlib.suppress(KeyboardInterrupt):
        while args.watch:
            time.sleep(2)
            show()
    return 0


def _list(args: argparse.Namespace) -> int:
    from pathlib import Path

    from . import cluster, job_folder, paths

    shared = paths.SharedRoot(Path(cluster.from_environment().shared_root))
    for submission_id in job_folder.newest_ids(shared, args.limit):
        folder = shared.job(submission_id)
        if folder.path.is_dir():  # a job folder removed by hand leaves its name in the index
            result = job_folder.read(folder)
            print(submission_id, result.state, result.workload, result.claimed_at, sep="\t")
    return 0


def _follow(submission_id: str) -> int:
    from . import follow, job_folder, ray_api

    loaded, folder = _job(submission_id)
    result = follow.follow(folder, ray_api.of(loaded), pending_timeout_s=None, say=say)
    return job_folder.EXIT_CODES.get(result.state, 1)


def _logs(args: argparse.Namespace) -> int:
    from . import job_folder, logs, ray_api, times

    since = times.since(args.since) if args.since else None
    loaded, folder = _job(args.id)
    if not args.follow:
        logs.show(folder, since, say)
        return 0
    result = logs.follow(folder, ray_api.of(loaded), since, say)
    return job_folder.EXIT_CODES.get(result.state, 1)


def _stop(args: argparse.Namespace) -> int:
    from . import ray_api, stop

    jobs = [_job(submission_id) for submission_id in dict.fromkeys(args.ids)]
    for result in stop.stop([folder for _, folder in jobs], ray_api.of(jobs[0][0]), say):
        print(result.submission_id, result.state)
    return 0


def _end_leftovers(args: argparse.Namespace) -> int:
    from . import stop

    for submission_id in dict.fromkeys(args.ids):
        stop.end_leftovers(_job(submission_id)[1], args.host, say)
    return 0


def _verify(args: argparse.Namespace) -> int:
    import json
    import shutil

    from . import done, job_folder, ray_api, reconcile, verify

    jobs = []
    for submission_id in dict.fromkeys(args.ids):
        loaded, folder = _job(submission_id)
        result = job_folder.read(folder)
        if not result.ended:
            result = reconcile.settle(folder, result, ray_api.of(loaded))
        jobs.append((folder, result))
    reports = verify.verify(jobs)
    lines = done.judge(reports) if args.definition_of_done else []
    passed = all(report.passed for report in reports)
    if args.json:
        found = {"passed": passed, "jobs": [report.to_builtins() for report in reports]}
        if lines:
            found["definition_of_done"] = [line.to_builtins() for line in lines]
        print(json.dumps(found))
    else:
        width = shutil.get_terminal_size((160, 24)).columns
        print("\n".join(verify.table(report, width) for report in reports))
        print(verify.counts(reports))
        if lines:
            print(verify.rows("Definition of Done", lines, width))
    return 0 if passed else 1


def _trend(args: argparse.Namespace) -> int:
    import shutil

    from . import chart, metrics, trend

    _, folder = _job(args.id)
    rewards = metrics.read(folder.metrics).rewards()
    if not rewards:
        raise BadInput(f"job '{args.id}' has no reward in {folder.metrics}", hint="./scripts/50_status.sh lists the jobs")
    found = trend.of(rewards)
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    encoding = chart.encoding(os.environ, sys.stdout.encoding)
    print("\n".join([*chart.bars(rewards, width, 10, encoding), found.tell("reward")]))
    return 0 if found.rises else 1


def _verify_versions(args: argparse.Namespace) -> int:
    import shutil

    from . import job_folder, verify, versions

    folders = [_job(submission_id)[1] for submission_id in args.ids]
    reports = versions.verdict([verify.Job(folder, job_folder.read(folder)) for folder in folders])
    width = shutil.get_terminal_size((160, 24)).columns
    print("\n".join(verify.table(report, width) for report in reports))
    print(verify.counts(reports))
    return 0 if all(report.passed for report in reports) else 1


def _explain(args: argparse.Namespace) -> int:
    from pathlib import Path

    import msgspec

    from . import explain, job_folder, ray_api, reconcile

    if args.log:
        told = explain.log(Path(args.target))
    else:
        loaded, folder = _job(args.target)
        told = explain.job(folder, reconcile.settle(folder, job_folder.read(folder), ray_api.of(loaded, timeout_s=3)))
    print(msgspec.json.encode(told).decode() if args.json else explain.show(told))
    return 0


def _job(submission_id: str) -> tuple[Cluster, JobFolder]:
    """The loaded cluster and the folder of one of its jobs. Raises BadInput when there is no such job."""
    from pathlib import Path

    from . import cluster, job_folder, paths

    if "/" in submission_id or submission_id.startswith("."):
        raise BadInput(f"'{submission_id}' is not a submission_id", hint="./scripts/50_status.sh lists the jobs")
    loaded = cluster.from_environment()
    folder = paths.SharedRoot(Path(loaded.shared_root)).job(submission_id)
    job_folder.read(folder)
    return loaded, folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mvp_helpers", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    verb = verbs.add_parser("cluster", help="a cluster file as shell assignments, for eval")
    verb.add_argument("name", help="a name in templates/ray/, or the path of a cluster file")
    verb.add_argument(
        "--at", action="append", default=[], metavar="HOST=IP", help="the address of a host that has none in the file"
    )
    verb.add_argument("--here", default="", metavar="HOST", help="the host that this machine is: no ssh to it")
    verb.set_defaults(action=_cluster)

    verb = verbs.add_parser("start-node", help="start this host's Ray node, or repair it")
    verb.add_argument("host", help="its name in the cluster file")
    verb.add_argument("--early", action="store_true", help="return for a head as soon as workers can join")
    verb.set_defaults(action=_start_node)

    verb = verbs.add_parser("stop-node", help="end this host's Ray node and everything that runs on it")
    verb.add_argument("host", help="its name in the cluster file")
    verb.set_defaults(action=_stop_node)

    verb = verbs.add_parser("wait-nodes", help="wait until every host's Ray node is alive with its resources")
    verb.add_argument("--now", action="store_true", help="do not wait: print up, partly up or down")
    verb.set_defaults(action=_wait_nodes)

    verb = verbs.add_parser("host-facts", help="what this host is and has, as one line of JSON (for 00)")
    verb.add_argument("host", help="its name in the cluster file")
    verb.add_argument("--canary", required=True, help="names the canary files of this check")
    verb.add_argument("--read", action="store_true", help="second round: whose canaries does this host see?")
    verb.set_defaults(action=_host_facts)

    verb = verbs.add_parser("prereq", help="decide from the hosts' facts on stdin (for 00)")
    verb.add_argument("--json", action="store_true")
    verb.set_defaults(action=_prereq)

    verb = verbs.add_parser("prepare", help="data and model under the shared root, made once")
    verb.add_argument("--dry-run", action="store_true", help="only say what would be made")
    verb.set_defaults(action=_prepare)

    verb = verbs.add_parser("snapshot", help="verl's code under the shared root, made once per content")
    what = verb.add_mutually_exclusive_group()
    what.add_argument("--source", help="a folder that holds verl/ (default: what the cluster file says)")
    what.add_argument("--list", action="store_true", help="the snapshots there are, and the jobs that used them")
    what.add_argument("--prune", action="store_true", help="remove those that no job folder names, but not the current one")
    verb.add_argument("--code-id", help="the snapshot's name (default: made from its content)")
    verb.add_argument("--dry-run", action="store_true", help="only say what would be made")
    verb.set_defaults(action=_snapshot)

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

    _add_status(verbs)
    _add_logs(verbs)
    _add_stop(verbs)
    _add_verify(verbs)
    _add_verify_versions(verbs)
    _add_trend(verbs)
    _add_debug_bundle(verbs)
    _add_explain(verbs)
    return parser


def _add_status(verbs: Verbs) -> None:
    verb = verbs.add_parser("status", help="the cluster and its newest jobs on one screen")
    verb.add_argument("--json", action="store_true", help="one JSON object (with --watch: one a line)")
    verb.add_argument("--watch", action="store_true", help="again every 2 seconds, until Ctrl-C")
    verb.add_argument(
        "--limit", type=int, default=20, help="so many of the newest jobs, and all that have not ended (default 20)"
    )
    verb.add_argument("--follow", metavar="ID", help="follow this job to its end and exit with its outcome")
    verb.set_defaults(action=_status)


def _add_logs(verbs: Verbs) -> None:
    verb = verbs.add_parser("logs", help="a job's log, from its folder, on stdout")
    verb.add_argument("id", help="a submission_id")
    verb.add_argument("-f", "--follow", action="store_true", help="as it grows, to the job's end; exit with its outcome")
    verb.add_argument("--since", metavar="WHEN", help="only what was logged since: 10m, 2h, or 2026-01-31T23:59 (UTC)")
    verb.set_defaults(action=_logs)


def _add_stop(verbs: Verbs) -> None:
    verb = verbs.add_parser("stop", help="stop jobs so that a checkpoint can finish; each one's id and state on stdout")
    verb.add_argument("ids", nargs="+", metavar="ID", help="a submission_id")
    verb.set_defaults(action=_stop)

    verb = verbs.add_parser("end-leftovers", help="end what ended jobs have left running on this host")
    verb.add_argument("host", help="its name in the cluster file")
    verb.add_argument("ids", nargs="+", metavar="ID", help="a submission_id")
    verb.set_defaults(action=_end_leftovers)


def _add_verify(verbs: Verbs) -> None:
    verb = verbs.add_parser("verify", help="prove from the evidence in job folders that the jobs ran as they should")
    verb.add_argument("ids", nargs="+", metavar="ID", help="a submission_id")
    verb.add_argument("--json", action="store_true", help="one JSON object on stdout")
    verb.add_argument("--definition-of-done", action="store_true", help="also a verdict for each line of the plan's")
    verb.set_defaults(action=_verify)


def _add_verify_versions(verbs: Verbs) -> None:
    verb = verbs.add_parser("verify-versions", help="prove that two versions of the code were at work at the same time")
    verb.add_argument("ids", nargs=2, metavar="ID", help="a submission_id")
    verb.set_defaults(action=_verify_versions)


def _add_trend(verbs: Verbs) -> None:
    verb = verbs.add_parser("trend", help="a job's reward by step as a chart, and whether it rose (a test, with its numbers)")
    verb.add_argument("id", help="a submission_id")
    verb.set_defaults(action=_trend)


def _add_debug_bundle(verbs: Verbs) -> None:
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


def _add_explain(verbs: Verbs) -> None:
    verb = verbs.add_parser("explain", help="the first root cause of a job's failure, or of what a log tells")
    verb.add_argument("target", metavar="ID|LOG", help="a submission_id, or with --log the path of a log on this host")
    verb.add_argument("--log", action="store_true", help="the target is a log")
    verb.add_argument("--json", action="store_true", help="one JSON object on stdout")
    verb.set_defaults(action=_explain)


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns its exit code (0 good, 1 failed, 2 bad input, 3 blocked, 4 timed out, 130 interrupted)."""
    args = _parser().parse_args(argv)
    try:
        code = args.action(args)
    except MvpError as error:
        print(error.show(), file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__ or ""):
            raise
        missing = Blocked(f"{sys.executable} has no module '{error.name}'", hint="./scripts/12_install_py_deps.sh")
        print(missing.show(), file=sys.stderr)
        return missing.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (| head): not our failure.
        sys.stderr.close()
        return 0
    return int(code or 0)
