"""A step for each list of focused tests, run in their checkout. A path that the checkout lacks is drift, and not a failure."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from ...diagnosis import views
from .. import execute
from ..context import Context
from ..execute import Outcome
from ..requests.description import Tests
from ..step import Step, last_line, step_of

TIMEOUT_S = 1800
OPTIONS = ["-q", "-rfEp", "-p", "no:cacheprovider"]


def run(context: Context, place: Path, tests: Tests) -> Step:
    """Pass when at least one test ran and all passed; a run without a test is Skipped."""
    checkout, added = context.paths[tests.checkout], context.request.tests if tests == context.tests[0] else []
    wanted = list(dict.fromkeys([*tests.paths, *added]))
    there = [path for path in wanted if (checkout / path.partition("::")[0]).exists()]
    missing = [path for path in wanted if path not in there]
    evidence = [f"drift: {path} is not in this checkout; not run" for path in missing]
    if lost := [path for path in added if path in missing]:
        return step_of("Blocked", f"--bridge-tests {lost[0]}: not in {checkout}", evidence)
    if not there:
        return step_of("Skipped", f"none of the tests is in this checkout: {', '.join(missing)}", evidence)
    argv = [*_pytest(context, tests, checkout), *OPTIONS, *there]
    log = place / "tests.log"
    env = {**context.base, "PYTHONDONTWRITEBYTECODE": "1"}
    outcome = execute.run(argv, checkout, env, log, context.mark, TIMEOUT_S, TIMEOUT_S)
    text = log.read_text(errors="replace")
    passed = re.findall(r"(\d+) passed", text)
    step = step_of("Pass", f"{shlex.join(argv)}: {passed[-1] if passed else 0} passed", evidence, log=log)
    step.command, step.cwd, step.outcome = argv, str(checkout), outcome
    if outcome.good and (gone := [name for name in added if "::" in name and f"PASSED {name}" not in text]):
        # Beside its whole file pytest does not miss a test that is not there.
        return step_of("Blocked", f"--bridge-tests {gone[0]}: pytest ran no such test", evidence, log=log)
    if outcome.good and passed and int(passed[-1]):
        step.reason += f"; drift: {', '.join(missing)} not in this checkout" if missing else ""
        return step
    return _judge(step, outcome, log, text)


def _pytest(context: Context, tests: Tests, checkout: Path) -> list[str]:
    if tests.command:
        return tests.command
    uv = shutil.which("uv", path=context.base.get("PATH")) and (checkout / "uv.lock").exists()
    return [*(["uv", "run", "python"] if uv else ["python3"]), "-m", "pytest"]


def _judge(step: Step, outcome: Outcome, log: Path, text: str) -> Step:
    """Decide what pytest's end without a passed test means."""
    step.triage = cause = views.triage_log(log) if log.stat().st_size else None
    if outcome.good or outcome.exit_code in (4, 5):
        step.verdict = "Skipped"
        step.reason = f"pytest ran no test (exit code {outcome.exit_code}), so nothing passed; {last_line(log)}"
    elif cause and cause.verdict == "Blocked":
        step.verdict, step.reason = "Blocked", f"{cause.boundary}: {cause.evidence}"
    elif outcome.exit_code == 1 and outcome.ended == "exit":
        failed = next((line for line in text.splitlines() if line.startswith(("FAILED", "ERROR "))), "")
        step.verdict, step.reason = "Fail", failed or last_line(log)
    else:
        step.verdict, step.reason = "Blocked", f"pytest could not run: {last_line(log) or outcome.summary()}"
    return step
