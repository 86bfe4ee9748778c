"""A step for each list of focused tests, run in their checkout, or the log of such a run in another environment.

A path that the checkout lacks is drift, and not a failure; neither is a missing pytest.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from ...base import files, git, redact
from ...base.errors import BadInput
from ...diagnosis import views
from .. import execute
from ..context import Context
from ..execute import Outcome
from ..requests.parts import Tests
from ..step import Step, last_line, step_of

TIMEOUT_S = 1800
EXIT_STATUS = "exit status: "
# No reasons of skipped tests (-rs): they often look like the cause of a failure.
OPTIONS = ["-q", "-rfEp", "-p", "no:cacheprovider"]
NO_PYTEST = re.compile(r"No module named '?pytest'?$|^error: Failed to spawn: `", re.M)
UNUSABLE = re.compile(r"ImportError|ModuleNotFoundError|Error importing plugin|^(?:ERROR: )?usage: ", re.M)
"""At exit code 4: a conftest that cannot be imported, or an option of a plugin that is missing."""
LOST_NAME = re.compile(r"ImportError: cannot import name '(\w+)' from '[\w.]+' \((/[^)]+)\)")
LITTER = {"HYPOTHESIS_STORAGE_DIRECTORY": "hypothesis", "COVERAGE_FILE": "coverage"}
"""Variables of what plugins of pytest would write into the checkout, and its name beside the log instead."""
BENCHMARKS = ".benchmarks"
"""A folder that pytest-benchmark makes in the checkout, without a variable for another place."""
COUNTED = re.compile(r"\b\d+ (?:passed|failed|skipped|errors?)\b.* in [\d.]+s")
"""pytest's last line: it ran."""


def run(context: Context, place: Path, tests: Tests) -> Step:
    """Pass when at least one test ran and all passed; a run without a test is Skipped."""
    checkout, added = context.paths[tests.checkout], context.request.tests if tests == context.tests[0] else []
    wanted = list(dict.fromkeys([*tests.paths, *added]))
    there = [path for path in wanted if (checkout / path.partition("::")[0]).exists()]
    missing = [path for path in wanted if path not in there]
    evidence = [f"drift: {path} is not in this checkout; not run" for path in missing]
    if lost := [path for path in added if path in missing]:
        step = step_of("Blocked", f"--bridge-tests {lost[0]}: not in {checkout}", evidence)
    elif tests.name in context.request.evidence:
        step = _from_elsewhere(context, place, tests, there, evidence)
    elif not there:
        step = step_of("Skipped", f"none of the tests is in this checkout: {', '.join(missing)}", evidence)
    else:
        step = _here(context, place, tests, there, evidence, added)
    if step.passed:
        step.reason += f"; drift: {', '.join(missing)} not in this checkout" if missing else ""
        step.limitations += missing_minimum(tests, _passed(there, Path(step.log).read_text(errors="replace")))
    return step


def _passed(paths: Sequence[str], text: str) -> list[str]:
    """Return the paths of which a test passed, by pytest's lines about each; a skipped test shows nothing."""
    return [path for path in paths if re.search(rf"^PASSED {re.escape(path.rstrip('/'))}(?![\w.-])", text, re.M)]


def missing_minimum(tests: Tests, paths: Sequence[str]) -> list[str]:
    """Return a limitation for each kind of evidence that a new model needs and that none of the passed ``paths`` is."""
    return [
        f"no {what} test passed (--bridge-tests PATH): the minimum evidence for a new model is not complete"
        for what, pattern in tests.minimum.items()
        if not any(re.search(pattern, path) for path in paths)
    ]


def command(context: Context, tests: Tests, paths: list[str]) -> list[str]:
    """Return the argv that runs the tests ``paths`` in their checkout, whose lock file uv leaves as it is."""
    uv = shutil.which("uv", path=context.base.get("PATH")) and (context.paths[tests.checkout] / "uv.lock").exists()
    start = tests.command or [*(["uv", "run", "--frozen", "python"] if uv else ["python3"]), "-m", "pytest"]
    return [*start, *OPTIONS, *paths]


def environment(context: Context, tests: Tests) -> dict[str, str]:
    """Return what the tests need beside the environment that they run in."""
    own = {name: context.base[name] for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    return {**own, **context.uv(context.paths[tests.checkout])}


def elsewhere(context: Context, tests: Tests, paths: list[str]) -> str:
    """Return the command that runs the tests in another environment and makes the log that is evidence of them."""
    variables = [f"{name}={value}" for name, value in environment(context, tests).items()]
    pytest = shlex.join(["env", *variables, *command(context, tests, paths)])
    folder = shlex.quote(str(context.paths[tests.checkout]))
    return f'(cd {folder} && git rev-parse HEAD && {pytest}; echo "{EXIT_STATUS}$?") >LOG 2>&1'


def _here(context: Context, place: Path, tests: Tests, there: list[str], evidence: list[str], added: list[str]) -> Step:
    checkout, argv, log = context.paths[tests.checkout], command(context, tests, there), place / "tests.log"
    kept = {variable: str(place / name) for variable, name in LITTER.items()}
    env = {**kept, **context.base, **environment(context, tests)}
    benchmarks = checkout / BENCHMARKS
    theirs = benchmarks.exists()
    outcome = execute.run(argv, checkout, env, log, context.mark, TIMEOUT_S, TIMEOUT_S)
    if not theirs and benchmarks.is_dir() and not any(benchmarks.iterdir()):
        benchmarks.rmdir()
    text = log.read_text(errors="replace")
    passed = re.findall(r"(\d+) passed", text)
    step = step_of("Pass", f"{shlex.join(argv)}: {passed[-1] if passed else 0} passed", evidence, log=log)
    step.command, step.cwd, step.outcome = argv, str(checkout), outcome
    if outcome.good and (gone := [name for name in added if "::" in name and f"PASSED {name}" not in text]):
        # Beside its whole file pytest does not miss a test that is not there.
        return step_of("Blocked", f"--bridge-tests {gone[0]}: pytest ran no such test", evidence, log=log)
    if outcome.good and passed and int(passed[-1]):
        return step
    if broken := _broken_import(checkout, text):
        return step_of("Fail", broken, evidence, log=log)
    step.fixes = [
        f"prepare the environment of {tests.checkout} (uv sync, or python3 -m pip install pytest), or run"
        f" it where it is, and pass its log with --test-evidence {tests.name}=LOG: {elsewhere(context, tests, there)}"
    ]
    return _judge(step, outcome, log, text)


def _judge(step: Step, outcome: Outcome, log: Path, text: str) -> Step:
    """Decide what pytest's end without a passed test means."""
    step.triage = cause = views.triage_log(log) if log.stat().st_size else None
    if (NO_PYTEST.search(text) and not COUNTED.search(text)) or outcome.ended == "not started":
        step.verdict, step.triage = "Blocked", None
        step.reason = f"{step.command[0]} cannot start pytest: {last_line(log) or outcome.summary()}"
    elif outcome.exit_code == 4 and UNUSABLE.search(text):
        step.verdict, step.reason = "Blocked", f"pytest could not run: {last_line(log)}"
    elif outcome.good or outcome.exit_code in (4, 5):
        step.verdict = "Skipped"
        step.reason = f"pytest ran no test (exit code {outcome.exit_code}), so nothing passed; {last_line(log)}"
    elif cause and cause.verdict == "Blocked":
        step.verdict, step.reason = "Blocked", f"{cause.boundary}: {cause.evidence}"
    elif outcome.exit_code == 1 and outcome.ended == "exit" and (failed := _failed(text)):
        step.verdict, step.reason, step.fixes = "Fail", failed, []
    else:
        step.verdict, step.reason = "Blocked", f"pytest could not run: {last_line(log) or outcome.summary()}"
    return step


def _broken_import(checkout: Path, text: str) -> str:
    """Return the first line about a name that a module of the checkout itself lacks; "" when there is none."""
    for lost in LOST_NAME.finditer(text):
        name, file = lost[1], Path(lost[2])
        # A module that contains the name may define it only with a package that is missing here.
        if git.root(file.parent) == checkout and not re.search(rf"\b{name}\b", file.read_text(errors="replace")):
            return lost[0]
    return ""


def _failed(text: str) -> str:
    """Return pytest's first line about a test that failed; "" when none did."""
    counted = re.search(r"\b[1-9]\d* (?:failed|errors?)\b", text)
    return next((line for line in text.splitlines() if line.startswith(("FAILED", "ERROR "))), "") if counted else ""


def _from_elsewhere(context: Context, place: Path, tests: Tests, there: list[str], evidence: list[str]) -> Step:
    """Judge the log of a run of the tests in another environment, which is kept with the step."""
    given, log = Path(context.request.evidence[tests.name]), place / "tests.log"
    try:
        files.write_bytes(log, redact.data(given.read_bytes()))
    except OSError as error:
        raise BadInput(f"--test-evidence {tests.name}={given}: {error.strerror}") from None
    text = log.read_text(errors="replace")
    unnamed = [path for path in there if path.partition("::")[0] not in text]
    ends = re.findall(r"^(?:=+ )?(.*\b\d+ (?:passed|failed|errors?)\b.* in [\d.]+s.*?)(?: =+)?$", text, re.M)
    end, statuses = ends[-1] if ends else "", re.findall(rf"^{EXIT_STATUS}(\d+)$", text, re.M)
    step = step_of("Pass", f"{given}: {end}, run in another environment", evidence, log=log)
    if not end:
        step.verdict, step.reason = "Blocked", f"{given} has no summary line of pytest (N passed in ...)"
    elif failed := re.search(r"\b[1-9]\d* (?:failed|errors?)\b", end):
        step.verdict, step.reason = "Fail", f"{given}: {_failed(text) or failed[0]}"
    elif not re.search(r"\b[1-9]\d* passed\b", end):
        step.verdict, step.reason = "Skipped", f"{given}: no test passed: {end}"
    elif unnamed:
        step.verdict, step.reason = "Blocked", f"{given} does not name {unnamed[0]}"
    elif not statuses:
        step.verdict, step.reason = "Blocked", f"{given} has no line '{EXIT_STATUS}N': how pytest ended is not known"
    elif statuses[-1] != "0":
        step.verdict, step.reason = "Fail", f"{given}: {EXIT_STATUS}{statuses[-1]} after {end}"
    if step.verdict == "Blocked":
        step.fixes = [f"in that environment, {elsewhere(context, tests, there)}"]
    commit = next((state.commit for state in context.states if state.name == tests.checkout), "")
    if commit[:12] not in text:
        step.limitations.append(
            f"the tests ran in another environment, and their log does not name commit {commit[:12]}: {given}"
        )
    return step
