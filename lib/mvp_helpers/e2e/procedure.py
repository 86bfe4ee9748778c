"""Script 60: the steps of a run in their order, each with a verdict and its evidence in the run's folder.

A step that does not pass ends the run: what comes after it is Skipped, with that step as the reason. Every try has a folder of
its own, so nothing is ever overwritten; ``resume`` takes passed steps as they are, if the checkouts have not changed since.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .. import files, redact, times
from ..cluster import PROJECT
from ..errors import BadInput, Blocked
from ..job_folder import now
from ..paths import E2eRun
from . import checkouts, criteria, description, drift, environment, execute, imports, learning, matrix, summary, triage, wrapper
from .checkouts import State
from .criteria import Criterion, Verdict
from .description import Description
from .drift import Checked
from .execute import Outcome
from .matrix import Planned
from .summary import Deliverable, Summary
from .triage import Triage

INHERITED = "MVP_E2E_PYTHONPATH"
"""The PYTHONPATH of whoever started the script; PYTHONPATH itself is this project's own, and is not handed on."""
TESTS_TIMEOUT_S = 1800
PREPARE_TIMEOUT_S = 1800


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; kept in ``run.json``, so that a resume asks for the same."""

    description: str
    levels: list[int]
    variants: list[str] = []
    env: dict[str, str] = {}
    """The user's variables that are passed on to the wrapper, and --model's."""
    overrides: list[str] = []
    tests: list[str] = []
    steps: int | None = None
    baseline: str = ""
    timeout_s: float = 7200
    stall_s: float = 1800
    checkouts: dict[str, str] = {}


class Step(msgspec.Struct, kw_only=True):
    """One step's verdict, as in its ``step.json``."""

    name: str
    title: str
    verdict: Verdict
    reason: str
    evidence: list[str] = []
    command: list[str] = []
    env: dict[str, str] = {}
    """What the command's environment adds to that of the shell."""
    cwd: str = ""
    log: str = ""
    outcome: Outcome | None = None
    criteria: list[Criterion] = []
    triage: Triage | None = None
    learning: list[str] = []
    limitations: list[str] = []
    began: str = ""
    seconds: float = 0.0
    fingerprints: dict[str, str] = {}

    @property
    def passed(self) -> bool:
        return self.verdict == "Pass"


def request_from(
    name: str,
    levels: str,
    variants: Sequence[str],
    model: str,
    env: Mapping[str, str],
    **options: Any,
) -> Request:
    """A checked request from options and the environment. Raises BadInput."""
    found = description.load(name)
    given = {key: env[key] for key in found.passed_on if env.get(key)}
    if model:
        local = Path(model).expanduser()
        if model.startswith(("/", ".", "~")):
            if not (local / "config.json").is_file():
                raise BadInput(
                    f"--model {model} is no folder with a model (no config.json)",
                    hint="--model ORG/NAME, or a folder with config.json",
                )
            given |= {found.model.path_variable: str(local.resolve()), found.model.id_variable: local.resolve().name}
        else:
            given[found.model.id_variable] = model
    wrapper.check_overrides(options.get("overrides", []))
    if options.get("baseline"):
        learning_of(Path(options["baseline"]))
    paths = checkouts.find(found, env)
    request = Request(
        description=name,
        levels=matrix.levels_of(found, levels),
        variants=list(variants),
        env=given,
        checkouts={key: str(path) for key, path in paths.items()},
        **options,
    )
    planned_of(found, request)
    return request


def planned_of(found: Description, request: Request) -> list[Planned]:
    return matrix.plan(found, request.levels, request.variants, request.env, request.overrides, request.steps)


def learning_of(path: Path) -> learning.Steps:
    """The metrics of a metrics file or of a log. Raises BadInput when there are none."""
    if path.suffix in (".json", ".jsonl"):
        return learning.read_jsonl(path)
    seen = learning.LogMetrics()
    try:
        with path.open("rb") as stream:
            while piece := stream.read(learning.CHUNK):
                seen.feed(piece)
    except OSError as error:
        raise BadInput(f"cannot read the baseline {path}: {error.strerror}") from None
    if not seen.finish().steps:
        raise BadInput(f"{path} holds no metric lines (step:N - key:value - …)")
    return seen.steps


class Procedure:
    """One run. ``say`` is for the person watching."""

    def __init__(self, folder: E2eRun, request: Request, env: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.folder, self.request, self.say = folder, request, say
        self.description = description.load(request.description)
        self.paths = {name: Path(path) for name, path in request.checkouts.items()}
        self.planned = planned_of(self.description, request)
        self.pythonpath = checkouts.pythonpath(self.description, self.paths, env.get(INHERITED, ""))
        # Without a word about it the trainer would join any Ray that happens to run here.
        self.base = {
            **env,
            "PYTHONPATH": self.pythonpath,
            "RAY_DEDUP_LOGS": "0",
            "RAY_ADDRESS": env.get("RAY_ADDRESS") or "local",
        }
        self.steps: list[Step] = []
        self.states: list[State] = []
        self.extra: list[str] = []
        """Overrides that this machine and this revision call for."""
        self.limits: list[str] = []

    # -- what a run is -----------------------------------------------------------------------------------------------------------

    def environment(self, one: Planned) -> dict[str, str]:
        return {**self.base, **one.env}

    def arguments(self, one: Planned) -> list[str]:
        """The overrides that the wrapper is given."""
        values = {
            "pythonpath": self.pythonpath,
            "checkpoints": str(self.folder.checkpoints / one.group),
            "hydra": str(self.folder.path / "hydra" / one.name),
        }
        own = [re.sub(r"\{(\w+)\}", lambda match: values[match[1]], text) for text in self.description.wrapper.overrides]
        return [*own, *self.extra, *one.overrides]

    def command(self, one: Planned) -> list[str]:
        return ["bash", self.description.wrapper.script.replace("{project}", str(PROJECT)), *self.arguments(one)]

    @property
    def checkout(self) -> Path:
        return self.paths[self.description.wrapper.checkout]

    def checked(self, one: Planned) -> Checked:
        """The run against this revision of the checkout; nothing is started."""
        decided = {name: value for name, value in one.env.items() if name not in self.request.env or name in one.run.env}
        return drift.check(self.description, self.paths, self.environment(one), decided, self.arguments(one))

    # -- the steps ---------------------------------------------------------------------------------------------------------------

    def run(self) -> Summary:
        """All steps, then the summary, also when the run is interrupted between them."""
        actions: list[tuple[str, str, Callable[[Path], Step]]] = [
            ("checkouts", "the checkouts as they are", self._checkouts),
            ("environment", "environment, data and model", self._environment),
            ("imports", "imports in the driver and a Ray worker", self._imports),
            *([("bridge-checks", "focused tests", self._tests)] if self.description.tests else []),
            ("drift", "this revision's wrapper and config", self._drift),
            *((one.name, f"level {one.number}: {one.variant.title}, {one.run.name}", self._wrapper(one)) for one in self.planned),
        ]
        stopped: Step | None = None
        try:
            for name, title, action in actions:
                if stopped:
                    self._note(
                        Step(name=name, title=title, verdict="Skipped", reason=f"not run: {stopped.name} is {stopped.verdict}")
                    )
                    continue
                step = self._step(name, title, action)
                if not (step.passed or (name == "bridge-checks" and step.verdict == "Skipped")):
                    stopped = step
        except KeyboardInterrupt:
            done = {step.name for step in self.steps}
            rest = [(name, title) for name, title, _ in actions if name not in done]
            for at, (name, title) in enumerate(rest):
                self.steps.append(
                    Step(
                        name=name,
                        title=title,
                        verdict="Blocked" if at == 0 else "Skipped",
                        reason="interrupted" if at == 0 else "not run: interrupted",
                    )
                )
            self._write_summary()
            raise
        return self._write_summary()

    def _step(self, name: str, title: str, action: Callable[[Path], Step]) -> Step:
        marks = {state.name: state.fingerprint for state in self.states}
        if (earlier := self._earlier(name)) and earlier.passed and name not in ("checkouts", "environment"):
            if earlier.fingerprints == marks:
                self._restore(earlier)
                self._note(earlier, again=True)
                return earlier
            raise BadInput(
                f"a checkout has changed since step '{name}' of {self.folder.path} passed: that says nothing about the new code",
                hint="start a new run",
            )
        place = self.folder.next_try(name)
        place.mkdir(parents=True)
        self.say(f"{name}: {title} …")
        began, clock = now(), times.seconds_of(now())
        try:
            step = action(place)
        except Blocked as error:
            step = Step(name=name, title=title, verdict="Blocked", reason=error.what, evidence=[error.hint] if error.hint else [])
        step.name, step.title, step.began = name, title, began
        step.seconds = round(times.seconds_of(now()) - clock, 1)
        step.fingerprints = {state.name: state.fingerprint for state in self.states}
        step.env = redact.environment(step.env)
        step.reason = redact.text(step.reason)
        files.write_bytes(place / "step.json", msgspec.json.format(msgspec.json.encode(step), indent=2) + b"\n")
        self._note(step)
        return step

    def _earlier(self, name: str) -> Step | None:
        """The step's last try that came to an end."""
        for place in reversed(self.folder.tries(name)):
            if (place / "step.json").exists():
                return msgspec.json.decode((place / "step.json").read_bytes(), type=Step)
        return None

    def _restore(self, step: Step) -> None:
        self.limits += step.limitations

    def _note(self, step: Step, again: bool = False) -> None:
        self.steps.append(step)
        took = f" ({times.clock(step.seconds)})" if step.seconds and not again else ""
        self.say(f"{step.name}: {step.verdict}{' (earlier)' if again else ''} - {step.reason}{took}")

    def _checkouts(self, place: Path) -> Step:
        self.states = [checkouts.record(name, path, place) for name, path in self.paths.items()]
        evidence = [f"{state.name}: {state.path} {state.tell()}" for state in self.states]
        evidence += [f"{state.name}: submodule {line.strip()}" for state in self.states for line in state.submodules]
        files.write_bytes(place / "checkouts.json", msgspec.json.format(msgspec.json.encode(self.states), indent=2) + b"\n")
        empty = [
            f"{state.path}/{folder}"
            for state in self.states
            for folder in checkouts.unready(state, self.description.checkouts[state.name])
        ]
        if empty:
            return _step("Blocked", f"{empty[0]} is empty: git submodule update --init --recursive", evidence)
        return _step("Pass", "; ".join(evidence[: len(self.states)]), evidence)

    def _environment(self, place: Path) -> Step:
        found = self.description
        env = self.environment(self.planned[0])
        problems = environment.devices(env)
        available, how = environment.gpus(env) if found.devices == "gpu" else (0, "CPU only")
        evidence = [f"GPUs: {available} ({how})"]
        problems += environment.sizes(found, self.planned, available)
        problems += environment.disk(env, [environment.hf_home(env), self.folder.path])
        if " " in str(self.folder.path):
            raise BadInput(
                f"the runs' folder {self.folder.path} holds a space, at which the wrapper would take its arguments apart"
            )
        interpreter = self._interpreter(place, evidence)
        problems += self._packages(place, interpreter, env, evidence)
        problems += self._data(place, interpreter, env, evidence)
        if problem := environment.model_problem(found, env):
            problems.append(problem)
        self._reward_model(env, evidence)
        used = {name: value for name, value in env.items() if name in self.request.env}
        evidence += [f"from your environment: {name}={value}" for name, value in redact.environment(used).items()]
        if problems:
            return _step("Blocked", problems[0], [*problems, *evidence], limitations=self.limits)
        return _step("Pass", f"{' '.join(interpreter)}, {evidence[0]}", evidence, limitations=list(self.limits))

    def _interpreter(self, place: Path, evidence: list[str]) -> list[str]:
        """The command with which the wrapper starts Python. Raises Blocked when it is not here."""
        one = self.planned[0]
        seen = wrapper.preview(
            drift.script_of(self.description, self.paths),
            self.checkout,
            self.description.wrapper.module,
            self.environment(one),
            self.arguments(one),
            "cpu" if self.description.devices == "cpu" else "cuda",
        )
        evidence.append(f"interpreter: {shlex.join(seen.interpreter)}")
        if not shutil.which(seen.interpreter[0], path=self.base.get("PATH")):
            raise Blocked(
                f"the wrapper starts Python with '{seen.interpreter[0]}', which is not on the PATH",
                hint="install uv, or VERL_USE_UV=0 where the image's own Python has everything",
            )
        return seen.interpreter

    def _packages(self, place: Path, interpreter: Sequence[str], env: Mapping[str, str], evidence: list[str]) -> list[str]:
        wanted = {
            one.module: one
            for one in self.description.packages
            if all(env.get(name) == value for name, value in one.only_if.items())
        }
        answer, outcome = imports.ask(interpreter, self.checkout, env, place / "packages.log", self._mark, [], list(wanted))
        if answer is None:
            return [f"the wrapper's interpreter does not start: {_last_line(place / 'packages.log') or outcome.tell()}"]
        evidence.append(f"Python {answer['driver']['version']}: {answer['driver']['python']}")
        missing = [
            f"the wrapper's interpreter has no module '{name}': install {wanted[name].install}" for name in answer["missing"]
        ]
        return [text for text, name in zip(missing, answer["missing"], strict=True) if wanted[name].needed]

    def _data(self, place: Path, interpreter: Sequence[str], env: Mapping[str, str], evidence: list[str]) -> list[str]:
        """Problems of the parquet files; where all are missing, the checkout's own script is asked to make them."""
        wanted = self.description.data
        problems = [problem for one in wanted if (problem := environment.data_problem(one, env))]
        folders = {environment.home(env.get(one.variable) or one.default, env).parent for one in wanted}
        how = self.description.preparation
        if how and len(problems) == len(wanted) and len(folders) == 1 and all("does not exist" in text for text in problems):
            folder = folders.pop()
            argv = [*interpreter, *(text.replace("{folder}", str(folder)) for text in how.command)]
            log = place / "prepare.log"
            self.say(f"environment: no data yet: {shlex.join(argv)}")
            folder.mkdir(parents=True, exist_ok=True)
            outcome = execute.run(argv, self.paths[how.checkout], env, log, self._mark, PREPARE_TIMEOUT_S, PREPARE_TIMEOUT_S)
            evidence.append(f"data prepared: {shlex.join(argv)} ({outcome.tell()})")
            if not outcome.good:
                told = triage.of_log(log) if log.stat().st_size else None
                return [f"the data could not be prepared: {told.evidence if told else outcome.tell()}"]
            problems = [problem for one in wanted if (problem := environment.data_problem(one, env))]
        return problems

    def _reward_model(self, env: Mapping[str, str], evidence: list[str]) -> None:
        """Without a reward model its rollout is switched off, with the key that this revision's config has."""
        model = self.description.reward_model
        if not model or environment.home(env.get(model.variable) or model.default, env).is_dir():
            return
        self.limits.append(model.limitation)
        config = self.checked(self.planned[0]).config
        if key := drift.known(config, model.enabled_by):
            self.extra = [f"{key}=False"]
            evidence.append(f"no reward model at {env.get(model.variable) or model.default}: {key}=False")

    def _imports(self, place: Path) -> Step:
        one = self.planned[0]
        seen = self.checked(one)
        if seen.preview is None:
            raise Blocked(seen.problems[0])
        env = {**self.environment(one), "PYTHONPATH": seen.preview.pythonpath}
        address = "" if env["RAY_ADDRESS"] == "local" else env["RAY_ADDRESS"]
        ray = imports.ray_init(seen.config, seen.preview.pythonpath, address)
        log = place / "imports.log"
        modules = [wanted.module for wanted in self.description.imports]
        answer, outcome = imports.ask(seen.preview.interpreter, self.checkout, env, log, self._mark, modules, ray=ray)
        if answer is None:
            return _step("Blocked", f"the import proof did not end: {_last_line(log) or outcome.tell()}", log=log)
        problems = imports.problems("driver", answer["driver"], self.description, self.paths)
        problems += imports.problems("Ray worker", answer["worker"], self.description, self.paths)
        commits = {state.name: state.commit[:12] for state in self.states}
        evidence = [
            f"{who}: {module} = {file}" for who in ("driver", "worker") for module, file in answer[who].get("files", {}).items()
        ]
        evidence += [f"{name}: commit {commit}" for name, commit in commits.items()]
        if problems:
            return _step("Blocked", problems[0], [*problems, *evidence], log=log)
        subject = next(
            (one for one in self.description.imports if one.under.startswith(f"{self.description.subject}:")),
            self.description.imports[0],
        )
        return _step(
            "Pass",
            f"{subject.module} = {answer['worker']['files'][subject.module]} in the driver and a Ray worker",
            evidence,
            log=log,
        )

    def _tests(self, place: Path) -> Step:
        """The focused tests. A path that this checkout lacks is drift: named, and no failure."""
        checkout = self.paths[self.description.tests_checkout]
        wanted = list(dict.fromkeys([*self.description.tests, *self.request.tests]))
        there = [path for path in wanted if (checkout / path.partition("::")[0]).exists()]
        missing = [path for path in wanted if path not in there]
        evidence = [f"drift: {path} is not in this checkout; not run" for path in missing]
        if lost := [path for path in self.request.tests if path in missing]:
            return _step("Blocked", f"--bridge-tests {lost[0]}: not in {checkout}", evidence)
        if not there:
            return _step("Skipped", f"none of the tests is in this checkout: {', '.join(missing)}", evidence)
        uv = shutil.which("uv", path=self.base.get("PATH")) and (checkout / "uv.lock").exists()
        argv = [*(["uv", "run", "python"] if uv else ["python3"]), "-m", "pytest", "-q", "-p", "no:cacheprovider", *there]
        env = {**self.base, "PYTHONDONTWRITEBYTECODE": "1"}
        log = place / "tests.log"
        outcome = execute.run(argv, checkout, env, log, self._mark, TESTS_TIMEOUT_S, TESTS_TIMEOUT_S)
        passed = re.findall(r"(\d+) passed", log.read_text(errors="replace"))
        step = _step("Pass", f"{shlex.join(argv)}: {passed[-1] if passed else 0} passed", evidence, log=log)
        step.command, step.cwd, step.outcome = argv, str(checkout), outcome
        if outcome.good and passed and int(passed[-1]):
            step.reason += f"; drift: {', '.join(missing)} not in this checkout" if missing else ""
            return step
        told = triage.of_log(log) if log.stat().st_size else None
        step.triage = told
        if outcome.good or outcome.exit_code in (4, 5):
            step.verdict, step.reason = (
                "Skipped",
                f"pytest ran no test (exit code {outcome.exit_code}): that is no pass; {_last_line(log)}",
            )
        elif told and told.verdict == "Blocked":
            step.verdict, step.reason = "Blocked", f"{told.boundary}: {told.evidence}"
        elif outcome.exit_code == 1 and outcome.ended == "exit":
            failed = next(
                (line for line in log.read_text(errors="replace").splitlines() if line.startswith(("FAILED", "ERROR "))), ""
            )
            step.verdict, step.reason = "Fail", failed or _last_line(log)
        else:
            step.verdict, step.reason = "Blocked", f"pytest could not run: {_last_line(log) or outcome.tell()}"
        return step

    def _drift(self, place: Path) -> Step:
        problems, evidence = [], []
        for one in self.planned:
            seen = self.checked(one)
            problems += [f"{one.name}: {problem}" for problem in seen.problems]
            evidence += [f"{one.name}: {note}" for note in seen.notes]
            if seen.config:
                files.write_json(place / f"{one.name}.config.json", seen.config)
            if seen.preview:
                evidence.append(
                    f"{one.name}: {len(seen.preview.overrides)} overrides accepted by {self.description.wrapper.config_name}"
                )
        if problems:
            return _step("Blocked", f"this revision differs: {problems[0]}", [*problems, *evidence])
        return _step(
            "Pass", f"{Path(self.description.wrapper.script).name} and its config accept all {len(self.planned)} runs", evidence
        )

    def _wrapper(self, one: Planned) -> Callable[[Path], Step]:
        return lambda place: self._start(one, place)

    def _start(self, one: Planned, place: Path) -> Step:
        """Steps 6 to 9 for one start of the wrapper."""
        checkpoints = self.folder.checkpoints / one.group
        if one.run.resumes:
            if problem := criteria.checkpoint(checkpoints, one.steps[0] - 1):
                return _step("Fail", f"checkpoint: {one.run.resumes} left nothing to resume: {problem}")
        elif checkpoints.exists():
            # An earlier try's: kept, but not where a resume would find it.
            checkpoints.rename(checkpoints.with_name(f"{one.group}.before-{place.name}"))
        seen = self.checked(one)
        log, env, argv = place / "wrapper.log", self.environment(one), self.command(one)
        changed = {name: value for name, value in env.items() if os.environ.get(name) != value}
        files.write_text(place / "command.sh", script(self.checkout, redact.environment(changed), argv))
        outcome = execute.run(
            argv, self.checkout, env, log, self._mark, self.request.timeout_s, self.request.stall_s, self._watch(one)
        )
        step = _step("Pass", "", log=log)
        step.command, step.env, step.cwd, step.outcome = argv, changed, str(self.checkout), outcome
        if not outcome.log_bytes:
            step.verdict, step.reason = "Blocked", f"the wrapper printed nothing: {outcome.tell()}"
            return step
        reader = criteria.Reader(self.description).read(log)
        told = triage.of_log(log, self.description.learning)
        step.triage = told
        step.criteria = criteria.judge(self.description, one, outcome, reader, told, seen.problems)
        step.verdict, step.reason = criteria.verdict(step.criteria, outcome, told)
        step.evidence = [f"{each.name}: {each.evidence}" for each in step.criteria]
        if outcome.left_behind:
            step.evidence.append(f"residual: {outcome.left_behind} processes outlived the wrapper and were ended")
        if told.verdict == "Noise":
            step.limitations.append(f"known shutdown noise: {told.evidence}")
        saves = one.run.env.get("SAVE_FREQ", "-1") != "-1"
        if step.passed and saves and (problem := criteria.checkpoint(checkpoints, one.steps[1])):
            step.verdict, step.reason = "Fail", f"checkpoint: {problem}"
        if one.level.learning:
            self._judge_learning(one, step, reader, seen)
        elif step.passed:
            step.reason = f"{one.level.title}: {step.reason}"
        return step

    def _judge_learning(self, one: Planned, step: Step, reader: criteria.Reader, seen: Checked) -> None:
        how = self.description.learning
        cap = drift.select(seen.config, how.length_cap) if how.length_cap else None
        signal = learning.judge(
            reader.metrics.steps,
            how,
            one.steps,
            reader.metrics.trainable,
            peft=one.env.get("LORA_RANK", "0") != "0",
            baseline=learning_of(Path(self.request.baseline)) if self.request.baseline else None,
            cap=float(cap) if isinstance(cap, (int, float)) else None,
        )
        step.learning = [*signal.told, *signal.wrong, *signal.notes]
        step.limitations += signal.notes
        step.limitations.append(f"{one.steps[1]} steps: a learning signal at most, no benchmark convergence")
        if step.passed and signal.verdict != "Pass":
            step.verdict, step.reason = "Fail", f"no learning signal: {signal.reason()}"
        elif step.passed:
            step.reason = signal.reason()

    def _watch(self, one: Planned) -> Callable[[bytes], None]:
        """Says how far the run is, whenever another step is done."""
        seen, told = learning.LogMetrics(), 0

        def watch(piece: bytes) -> None:
            nonlocal told
            seen.feed(piece)
            if (last := max(seen.steps, default=0)) > told:
                told = last
                number = next(
                    (
                        f", {name} {seen.steps[last][name]:.4g}"
                        for name in sorted(seen.steps[last])
                        if re.search(self.description.learning.rewards, name)
                    ),
                    "",
                )
                self.say(f"{one.name}: step {last}/{one.steps[1]}{number}")

        return watch

    @property
    def _mark(self) -> str:
        return self.folder.path.name

    # -- the summary -------------------------------------------------------------------------------------------------------------

    def _write_summary(self) -> Summary:
        found = self.summary()
        for suffix, data in (
            ("txt", summary.text(found).encode() + b"\n"),
            ("md", summary.markdown(found).encode()),
            ("json", summary.as_json(found)),
        ):
            files.write_bytes(self.folder.summary(suffix), data)
        return found

    def summary(self) -> Summary:
        """The summary of the steps so far."""
        by_name = {step.name: step for step in self.steps}
        runs = [(one, by_name[one.name]) for one in self.planned if one.name in by_name]
        tests = by_name.get("bridge-checks")
        requested = [step.verdict for step in self.steps]
        result = summary.overall(requested, requested)
        first = next((step for step in self.steps if not step.passed), None)
        levels = ", ".join(f"Level {number} ({self.description.levels[number].title})" for number in self.request.levels)
        if result == "Pass":
            sentence = f"{levels} passed with the local {self.description.subject} checkout" + _signal(runs)
        else:
            assert first
            sentence = f"{first.name}: {first.reason}"
            if result == "Blocked":
                sentence += f"; this is not evidence against the {self.description.subject} code"
        return Summary(
            result=result,
            sentence=redact.text(sentence),
            coverage=levels + (f"; variants: {', '.join(self.request.variants)}" if self.request.variants else ""),
            model=self.planned[0].env.get(self.description.model.path_variable)
            or self.planned[0].env.get(self.description.model.id_variable, ""),
            deliverables=self._deliverables(by_name, runs, tests),
            evidence=self._evidence(runs),
            limitations=self._limitations(runs),
            follow_ups=self._follow_ups(first),
            run=str(self.folder.path),
            steps=[msgspec.to_builtins(step) for step in self.steps],
        )

    def _deliverables(
        self, by_name: Mapping[str, Step], runs: list[tuple[Planned, Step]], tests: Step | None
    ) -> list[Deliverable]:
        nothing = "not reached"
        proof = by_name.get("imports")
        base = [(one, step) for one, step in runs if one.number == min(self.request.levels)]
        others = [(one, step) for one, step in runs if one.number != min(self.request.levels)] or [
            (one, step) for one, step in base if one.number != min(self.description.levels)
        ]
        logs = [Path(step.log) for _, step in runs if step.log]
        kept = bool(logs) and all(log.is_file() and log.stat().st_size for log in logs)
        return [
            Deliverable(
                name="Bridge-side checks" if self.description.tests else "Unit checks",
                verdict=tests.verdict if tests else "Not requested",
                reason=tests.reason if tests else "this procedure has none",
            ),
            Deliverable(
                name="Local Bridge import in verl" if "bridge" in self.paths else "Local imports",
                verdict=proof.verdict if proof else "Skipped",
                reason=proof.reason if proof else nothing,
            ),
            _together("verl Megatron backend run" if "bridge" in self.paths else "Trainer run", base),
            _together("Requested variants", others)
            if others
            else Deliverable(name="Requested variants", verdict="Not requested", reason="no further level"),
            Deliverable(
                name="Log capture",
                verdict="Pass" if kept else "Skipped" if not logs else "Fail",
                reason=", ".join(map(str, logs))
                if logs
                else "the wrapper was not started; see the steps' logs in the run's folder",
            ),
        ]

    def _evidence(self, runs: list[tuple[Planned, Step]]) -> list[tuple[str, str]]:
        found = [(f"{'Bridge' if state.name == 'bridge' else state.name} repo", state.tell()) for state in self.states]
        shown = [(one, step) for one, step in runs if step.command] or runs[:1]
        for one, step in shown:
            where = Path(step.log).parent / "command.sh" if step.command else "not run"
            variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in redact.environment(one.env).items())
            name = "Command" if len(shown) == 1 else f"Command ({one.name})"
            found.append((name, redact.text(f"{variables} {shlex.join(self.command(one))}") + f"  [{where}]"))
        lines = [
            criterion.evidence
            for _, step in runs
            for criterion in step.criteria
            if criterion.met and criterion.name != "no exception in construction or training"
        ]
        bad = next((step for step in self.steps if step.verdict in ("Fail", "Blocked")), None)
        if bad:
            at = f" ({bad.triage.log}:{bad.triage.line})" if bad.triage and bad.triage.line else ""
            lines = [f"{bad.reason}{at}"]
        found.append(("Key lines", redact.text(", ".join(dict.fromkeys(lines[:12]))) or "none"))
        found += [(f"Learning signal ({step.name})", "; ".join(step.learning)) for _, step in runs if step.learning]
        found += [(f"Resources ({step.name})", step.outcome.tell()) for _, step in runs if step.outcome]
        return found

    def _limitations(self, runs: list[tuple[Planned, Step]]) -> list[str]:
        ran = [one for one, step in runs if step.outcome]
        found = [*self.limits, *matrix.limitations(self.description, ran, self.extra)]
        # What one run leaves out another one may have done.
        if any(one.run.resumes and step.passed for one, step in runs):
            found = [text for text in found if not text.startswith("save/resume")]
        found += [text for step in self.steps for text in step.limitations if text not in found]
        if ran and not any(one.level.learning for one in ran):
            found.append("no convergence claim")
        if not ran:
            found.append("nothing was trained: no claim about any level")
        found += [f"{text}" for step in self.steps for text in step.evidence if text.startswith(("drift:", "residual:"))]
        return list(dict.fromkeys(found))

    def _follow_ups(self, first: Step | None) -> list[str]:
        if first is None:
            return []
        found = []
        if first.triage and first.triage.verdict not in ("Pass",):
            limit = f" (limitation: {first.triage.limitation})" if first.triage.limitation else ""
            found = [
                text
                for text in (first.triage.advice, f"{first.triage.follow_up}{limit}" if first.triage.follow_up else "")
                if text
            ]
        elif first.verdict == "Blocked":
            found = [f"environment fix: {first.evidence[0] if first.evidence else first.reason}"]
        else:
            found = [f"needed rerun after a fix: {first.reason}"]
        return [*found, f"./scripts/60_e2e_verl.sh --resume {self.folder.path}"]


def _step(
    verdict: Verdict, reason: str, evidence: Sequence[str] = (), log: Path | None = None, limitations: Sequence[str] = ()
) -> Step:
    return Step(
        name="",
        title="",
        verdict=verdict,
        reason=reason,
        evidence=list(evidence),
        log=str(log or ""),
        limitations=list(limitations),
    )


def _together(name: str, runs: Sequence[tuple[Planned, Step]]) -> Deliverable:
    """One deliverable of several runs: the first that did not pass decides."""
    if not runs:
        return Deliverable(name=name, verdict="Skipped", reason="not reached")
    bad = next((step for _, step in runs if not step.passed), None)
    words = ", ".join(dict.fromkeys(f"level {one.number}, {one.variant.title}" for one, _ in runs))
    step = bad or runs[-1][1]
    return Deliverable(
        name=name, verdict=step.verdict, reason=f"{words}: {step.name}: {step.reason}" if bad else f"{words}: {step.reason}"
    )


def _signal(runs: Sequence[tuple[Planned, Step]]) -> str:
    return f"; {learning.PASSED}" if any(one.level.learning and step.passed for one, step in runs) else ""


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return lines[-1][:300] if lines else ""


def script(cwd: Path, env: Mapping[str, str], argv: Sequence[str]) -> str:
    """A command with its environment as a script that does the same by hand."""
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in sorted(env.items()))
    return f"#!/usr/bin/env bash\n# secret values are masked\ncd {shlex.quote(str(cwd))}\n{exports}\n{shlex.join(argv)}\n"
