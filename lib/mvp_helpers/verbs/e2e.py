"""The end-to-end procedures, and what a log means for the code under test."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ..base.errors import BadInput
from . import say

if TYPE_CHECKING:
    from . import Verbs


def _run(args: argparse.Namespace) -> int:
    from pathlib import Path

    import msgspec

    from ..base.paths import E2eRun
    from ..e2e import launch, runs, summary
    from ..e2e.procedure import Procedure
    from ..e2e.request import Request, request_from

    folder_of_runs = Path(args.runs_dir or runs.DEFAULT)
    if args.recommend:
        recommended, changed = runs.recommend(args.description, args.base, os.environ)
        if args.json:
            rows = [
                {"level": one.number, "called_for": one.called_for, "when": one.level.when, "files": one.files}
                for one in recommended
            ]
            print(msgspec.json.encode({"changed": changed, "levels": rows}).decode())
        else:
            print(runs.show_recommended(recommended, changed))
        return 0
    request: Request
    if args.resume:
        chosen = ("level", "variant", "model", "override", "bridge_tests", "steps", "baseline", "setup")
        if given := [name for name in chosen if getattr(args, name)]:
            raise BadInput(
                f"--{given[0].replace('_', '-')} with --resume: a run goes on with what it began with", hint="start a new run"
            )
        folder, request = runs.find(folder_of_runs, args.resume)
        folder_of_runs, args.resume, args.description = folder.path.parent, folder.path.name, request.description
        request = msgspec.structs.replace(request, timeout_s=args.timeout, stall_s=args.stall, image=args.image or request.image)
    else:
        if not args.level:
            raise BadInput("which level?", hint="--level 0; --recommend tells which ones a change calls for")
        request = request_from(
            args.description,
            args.level,
            [word for text in args.variant for word in text.split(",")],
            args.model,
            os.environ,
            overrides=args.override,
            tests=[word for text in args.bridge_tests for word in text.split()],
            steps=args.steps,
            baseline=args.baseline,
            setup=args.setup,
            image=args.image,
            timeout_s=args.timeout,
            stall_s=args.stall,
        )
    if args.via:
        if not args.plan:
            folder_of_runs.mkdir(parents=True, exist_ok=True)
        print(launch.words(args, request, folder_of_runs, os.environ), end="")
        return 0
    if args.plan:
        planned = runs.plan(Procedure(E2eRun(folder_of_runs / "RUN"), request, os.environ, say))
        print(msgspec.json.encode(planned).decode() if args.json else runs.show_plan(planned))
        return 3 if any(run["problems"] for run in planned["runs"]) else 0
    if not args.resume:
        folder = runs.new(folder_of_runs, request)
    held = runs.lock(folder)
    say(f"run: {folder.path}")
    found = runs.start(folder, request, os.environ, say).run()
    os.close(held)
    print(summary.as_json(found).decode() if args.json else summary.text(found))
    return summary.EXIT_CODES[found.result]


def _summary(args: argparse.Namespace) -> int:
    from ..e2e import summary

    found, code = summary.in_log(sys.stdin.read())
    print(found)
    return code


def _triage(args: argparse.Namespace) -> int:
    from pathlib import Path

    import msgspec

    from ..diagnosis import views

    verdicts, unreadable = set(), 0
    for name in args.logs:
        try:
            found = views.triage_file(Path(name))
        except BadInput as error:
            say(error.show())
            unreadable = error.exit_code
            continue
        verdicts.add(found.verdict)
        print(msgspec.json.encode(found).decode() if args.json else views.show_triage(found), flush=True)
    return unreadable or (1 if "Fail" in verdicts else 3 if verdicts & {"Blocked", "Unknown"} else 0)


def add(verbs: Verbs) -> None:
    """The parsers of both."""
    verb = verbs.add_parser("e2e", help="run an end-to-end procedure to an honest verdict")
    verb.add_argument("--description", default="verl", help="templates/e2e/NAME.yaml, or a file (default: verl)")
    verb.add_argument("--level", default="", help="levels, e.g. 0 or 0,1")
    verb.add_argument("--variant", action="append", default=[], help="a level's variant")
    verb.add_argument("--model", default="", help="ORG/NAME, or a folder")
    verb.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="handed on to the wrapper")
    verb.add_argument("--bridge-tests", action="append", default=[], metavar="PATH", help="further focused tests")
    verb.add_argument("--steps", type=_count, help="steps of a learning signal")
    verb.add_argument("--baseline", default="", metavar="FILE", help="metrics or log of a baseline run, or a checkout to run")
    verb.add_argument("--timeout", type=_seconds, default=7200.0, help="seconds for each start of the wrapper")
    verb.add_argument("--stall", type=_seconds, default=1800.0, help="seconds without a word in its log")
    verb.add_argument("--runs-dir", default="", help="where runs' folders are made")
    verb.add_argument("--resume", default="", metavar="RUN", help="go on with an earlier run")
    verb.add_argument("--recommend", action="store_true", help="which levels the change calls for")
    verb.add_argument("--base", default="origin/main", help="what --recommend compares with")
    verb.add_argument("--via", default="", help="docker, slurm, sbatch or ray: run it there")
    verb.add_argument("--image", default=os.environ.get("VERL_IMAGE", ""), help="container image, with its exact tag")
    verb.add_argument("--setup", default="", metavar="COMMAND", help="makes the environment ready, in the same container")
    verb.add_argument(
        "--launcher-option", action="append", default=[], metavar="OPTION", help="handed on to docker, srun or sbatch"
    )
    verb.add_argument("--plan", action="store_true", help="show every step, run nothing")
    verb.add_argument("--json", action="store_true", help="one JSON object on stdout")
    verb.set_defaults(action=_run)

    verb = verbs.add_parser("e2e-summary", help="the summary at the end of a run's log (stdin); the exit code is its verdict")
    verb.set_defaults(action=_summary)

    verb = verbs.add_parser("triage", help="what logs or metrics files mean for the code under test")
    verb.add_argument("logs", nargs="+", metavar="LOG")
    verb.add_argument("--json", action="store_true", help="one JSON object per log")
    verb.set_defaults(action=_triage)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise BadInput(f"'{text}' is not a number of seconds")
    return found


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 2:
        raise BadInput(f"--steps {text}: a learning signal takes two steps at least")
    return int(text)
