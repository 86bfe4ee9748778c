"""Run, plan, resume, or start elsewhere an end-to-end procedure."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..base.errors import BadInput, Blocked
from . import coloured, say
from .values import Count, Seconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ..e2e.requests.request import Request

STEPS = Count(10, example=50)
"""A learning signal needs ten steps at least."""


class Asked(NamedTuple):
    """The options of ``e2e``."""

    description: str
    level: str
    variant: tuple[str, ...]
    model: str
    override: tuple[str, ...]
    bridge_tests: tuple[str, ...]
    bridge_evidence: str
    test_evidence: tuple[str, ...]
    script: str
    recipe: str
    steps: int | None
    baseline: str
    setup: str
    timeout: float
    stall: float
    runs_dir: str
    resume: str
    recommend: bool
    base: str
    via: str
    image: str
    launcher_option: tuple[str, ...]
    plan: bool
    as_json: bool


FIXED = ("level", "variant", "model", "override", "bridge_tests", "steps", "baseline", "setup", "script", "recipe")
"""Options that a resumed run keeps from its start."""


@click.command("e2e")
@click.option("--description", default="verl", metavar="NAME|FILE", help="templates/e2e/NAME.yaml, or a file (default: verl).")
@click.option("--level", default="", metavar="N[,N...]", help="The levels to run.")
@click.option("--variant", multiple=True, metavar="NAME", help="A variant of a level.")
@click.option("--model", default="", metavar="ORG/NAME|FOLDER", help="The model to train.")
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="An override to pass to the wrapper.")
@click.option("--bridge-tests", multiple=True, metavar="PATH", help="More focused tests to run.")
@click.option("--bridge-evidence", default="", metavar="LOG", help="The focused tests' log from another environment.")
@click.option(
    "--test-evidence", multiple=True, metavar="NAME=LOG", help="The log of a list of tests from another environment, by its name."
)
@click.option("--script", default="", metavar="PATH", help="The trainer's script that a feature's variant runs.")
@click.option(
    "--recipe", default="", metavar="PATH", help="The config of runs that take one, relative to the trainer's checkout."
)
@click.option("--steps", type=STEPS, help="The steps of a learning signal, at least 10.")
@click.option(
    "--baseline", default="", metavar="CHECKOUT|FILE", help="A checkout to run first, or metrics or a log of such a run."
)
@click.option("--timeout", type=Seconds(), default=7200.0, help="Seconds for each start of the wrapper (default 7200).")
@click.option("--stall", type=Seconds(), default=1800.0, help="Seconds without output in its log (default 1800).")
@click.option("--runs-dir", default="", metavar="FOLDER", help="The folder for the runs' folders (default: .mvp/e2e).")
@click.option("--resume", default="", metavar="RUN", help="Continue an earlier run.")
@click.option("--recommend", is_flag=True, help="Show which levels the change calls for.")
@click.option("--base", default="origin/main", metavar="REF", help="The commit that --recommend compares with.")
@click.option(
    "--via",
    default="",
    metavar="WAY",
    help="Print for the script how to start the run elsewhere: docker, slurm, ray.sub, sbatch, ray.",
)
@click.option("--image", default="", metavar="IMAGE:TAG", help="The container's image, with its exact tag.")
@click.option("--setup", default="", metavar="COMMAND", help="A command that prepares the environment in the run's container.")
@click.option("--launcher-option", multiple=True, metavar="OPTION", help="An option for docker, srun or sbatch.")
@click.option("--plan", is_flag=True, help="Show every step and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def e2e(**options: Any) -> int:
    """Run an end-to-end procedure; print its summary. The exit code is the verdict: 0 Pass, 1 Fail, 3 Blocked."""
    asked = Asked(**options)
    if asked.recommend:
        return _recommend(asked)
    request, runs, run = _resumed(asked) if asked.resume else (_requested(asked), _runs(asked), "")
    if asked.via:
        return _start_elsewhere(asked, request, runs, run)
    if asked.plan:
        return _plan(asked, request, runs)
    return _run(asked, request, runs, run)


def _runs(asked: Asked) -> Path:
    from pathlib import Path

    from ..e2e import run_folders

    return Path(asked.runs_dir or run_folders.DEFAULT).expanduser().resolve()


def _requested(asked: Asked) -> Request:
    """Return the request for a new run. Raises BadInput."""
    from ..e2e.requests.request import request_from

    if not asked.level:
        raise BadInput("--level is missing", hint="--level 0; --recommend shows which levels a change calls for")
    return request_from(
        asked.description,
        asked.level,
        [word for text in asked.variant for word in text.split(",")],
        asked.model,
        os.environ,
        overrides=list(asked.override),
        tests=[word for text in asked.bridge_tests for word in text.split()],
        steps=asked.steps,
        baseline=asked.baseline,
        setup=asked.setup,
        bridge_evidence=asked.bridge_evidence,
        test_evidence=list(asked.test_evidence),
        script=asked.script,
        recipe=asked.recipe,
        image=asked.image,
        timeout_s=asked.timeout,
        stall_s=asked.stall,
    )


def _resumed(asked: Asked) -> tuple[Request, Path, str]:
    """Return the request of an earlier run, the folder of the runs, and the run's name. Raises BadInput."""
    import msgspec

    from ..e2e import run_folders
    from ..e2e.requests import description
    from ..e2e.requests.request import evidence

    if given := [name for name in FIXED if getattr(asked, name)]:
        option = f"--{given[0].replace('_', '-')}"
        raise BadInput(f"{option} with --resume: a resumed run keeps the {given[0]} of its start", hint="start a new run")
    folder, request = run_folders.find(_runs(asked), asked.resume)
    procedure = description.load(request.description)
    logs = request.evidence | evidence(procedure, request.levels, asked.bridge_evidence, asked.test_evidence)
    own = {"timeout_s": asked.timeout, "stall_s": asked.stall, "image": asked.image or request.image, "evidence": logs}
    request = msgspec.structs.replace(request, **own)
    return request, folder.path.parent, folder.path.name


def _recommend(asked: Asked) -> int:
    import msgspec

    from ..e2e.requests import description, recommend

    recommended, changed = recommend.recommend(asked.description, asked.base, os.environ)
    start = recommend.start(description.load(asked.description), os.environ)
    if asked.as_json:
        rows = [
            {
                "level": level.number,
                "called_for": level.called_for,
                "when": level.level.when,
                "files": level.all_files,
                "variants": list(level.variants),
            }
            for level in recommended
        ]
        commands = recommend.commands(recommended, start)
        print(msgspec.json.encode({"changed": changed, "levels": rows, "commands": commands}).decode())
    else:
        print(recommend.show(recommended, changed, start))
    return 0


def _start_elsewhere(asked: Asked, request: Request, runs: Path, run: str) -> int:
    import msgspec

    from ..e2e import launch

    start = launch.Elsewhere(
        via=asked.via, request=request, runs=runs, resume=run, options=list(asked.launcher_option), json=asked.as_json
    )
    if asked.plan:
        command = launch.show(start, os.environ)
        problems = _planned(request, runs, {**os.environ, **launch.variables(start, os.environ)})["problems"]
        print(msgspec.json.encode({"command": command, "problems": problems}).decode() if asked.as_json else command)
        for text in problems:
            say(f"PROBLEM: {text}")
        return 3 if problems else 0
    commands = launch.launch(start, os.environ)
    say(f"{asked.via}: {' '.join(commands.argv[:6])} …" + (f"; {commands.where}" if commands.where else ""))
    print(commands.to_shell(), end="")
    return 0


def _plan(asked: Asked, request: Request, folder: Path) -> int:
    import msgspec

    from ..e2e import plan_view

    planned = _planned(request, folder, os.environ)
    print(msgspec.json.encode(planned).decode() if asked.as_json else plan_view.show(planned))
    return 3 if planned["problems"] else 0


def _planned(request: Request, folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    from ..base.paths import E2eRun
    from ..e2e import plan_view
    from ..e2e.context import Context

    return plan_view.plan(Context(E2eRun(folder / "RUN"), request, env, say))


def _run(asked: Asked, request: Request, folder: Path, run: str) -> int:
    from ..base.paths import E2eRun
    from ..base.verdict import painted
    from ..e2e import procedure, run_folders, summary
    from ..e2e.context import Context

    own = E2eRun(folder / run) if run else run_folders.new(folder, request)
    held = run_folders.lock(own)
    say(f"run: {own.path}")
    ended = procedure.run(Context(own, request, os.environ, say))
    os.close(held)
    print(summary.as_json(ended).decode() if asked.as_json else painted(summary.text(ended), coloured()))
    return summary.EXIT_CODES[ended.result]


@click.command("e2e-driver-log")
@click.argument("folder")
def e2e_driver_log(folder: str) -> int:
    """Print the log of the command that NeMo-RL's ray.sub ran, below the FOLDER that it was given as BASE_LOG_DIR."""
    from pathlib import Path

    from ..e2e import launch

    sys.stdout.write(launch.driver_log(Path(folder)).read_text(errors="replace"))
    return 0


@click.command("e2e-report")
@click.argument("run")
@click.option("--runs-dir", default="", metavar="FOLDER", help="The folder for the runs' folders (default: .mvp/e2e).")
def e2e_report(run: str, runs_dir: str) -> None:
    """Write the page of the end-to-end run in this folder; print the page's path."""
    from pathlib import Path

    from ..e2e import page, run_folders

    folder, _ = run_folders.find(Path(runs_dir or run_folders.DEFAULT), run)
    print(page.write(folder))


@click.command("e2e-summary")
@click.option("--exit-code", "ended", type=Count(0, 255, example=1), default=0, help="The run's exit code; 2 and above are kept.")
def e2e_summary(ended: int) -> int:
    """Print the summary at the end of a run's log on stdin; the exit code is its verdict."""
    from ..e2e import summary

    try:
        text, verdict = summary.in_log(sys.stdin.buffer.read().decode(errors="replace"))
        print(text)
    except Blocked as error:
        say(error.show())
        verdict = error.exit_code
    return summary.exit_code(ended, verdict)
