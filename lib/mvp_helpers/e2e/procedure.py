"""Script 60: the steps of a run in their order, each with a verdict and its evidence in the run's folder.

A step that does not pass ends the run: what comes after it is Skipped, with that step as the reason. Every try has a folder of
its own, so nothing is ever overwritten; ``resume`` takes passed steps as they are, if the checkouts have not changed since.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ..base import files, redact, times
from ..base.errors import BadInput, Blocked
from ..base.paths import E2eRun
from ..base.project import PROJECT
from ..base.times import now
from ..diagnosis import learning, metric_lines, views
from . import checkouts, criteria, description, drift, environment, execute, imports, summary, wrapper
from .checkouts import State
from .criteria import Verdict
from .drift import Checked
from .matrix import Planned
from .report import Report
from .request import Request, planned_of
from .step import Step
from .summary import Summary

INHERITED = "MVP_E2E_PYTHONPATH"
"""The PYTHONPATH of whoever started the script; PYTHONPATH itself is this project's own, and is not handed on."""
TESTS_TIMEOUT_S = 1800
PREPARE_TIMEOUT_S = 1800
ALWAYS = ("checkouts", "setup", "environment")
"""Steps that a resume does again: it may be on another machine, or in a new container."""
QUIET_S = 60.0
"""After so long without a new step the person watching hears that it still runs."""


class Procedure:
    """One run. ``say`` is for the person watching."""

    def __init__(self, folder: E2eRun, request: Request, env: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.folder, self.request, self.say = folder, request, say
        self.description = description.load(request.description)
        self.paths = {name: Path(path) for name, path in request.checkouts.items()}
        self.planned = planned_of(self.description, request)
        self.inherited = env.get(INHERITED, "")
        # Without a word about it the trainer would join any Ray that happens to run here.
        self.base = {
            **env,
            "PYTHONPATH": self.pythonpath(),
            "RAY_DEDUP_LOGS": "0",
            "RAY_ADDRESS": env.get("RAY_ADDRESS") or "local",
        }
        self.steps: list[Step] = []
        self.states: list[State] = []
        self.extra: list[str] = []
        """Overrides that this machine and this revision call for."""
        self.limits: list[str] = []
        self._checked: dict[tuple[str, ...], Checked] = {}

    # -- what a run is -----------------------------------------------------------------------------------------------------------

    def paths_of(self, baseline: bool = False) -> dict[str, Path]:
        """The checkouts of a run; the baseline has the unchanged code in the subject's place."""
        return self.paths | ({self.description.subject: Path(self.request.baseline)} if baseline else {})

    def pythonpath(self, baseline: bool = False) -> str:
        return checkouts.pythonpath(self.description, self.paths_of(baseline), self.inherited)

    def environment(self, one: Planned) -> dict[str, str]:
        """The environment of a run; ``{run}`` in its variables is the run's folder."""
        own = {name: value.replace("{run}", str(self.folder.path)) for name, value in one.env.items()}
        return {**self.base, **own, "PYTHONPATH": self.pythonpath(one.baseline)}

    def arguments(self, one: Planned) -> list[str]:
        """The overrides that the wrapper is given."""
        values = {
            "pythonpath": self.pythonpath(one.baseline),
            "checkpoints": str(self.folder.checkpoints / one.group),
            "hydra": str(self.folder.path / "hydra" / one.name),
        }
        own = [re.sub(r"\{(\w+)\}", lambda match: values[match[1]], text) for text in self.description.wrapper.overrides]
        return [*own, *self.extra, *one.overrides]

    def command(self, one: Planned) -> list[str]:
        return ["bash", self.description.wrapper.script.replace("{project}", str(PROJECT)), *self.arguments(one)]

    def checkout(self, baseline: bool = False) -> Path:
        """Where the wrapper is started."""
        return self.paths_of(baseline)[self.description.wrapper.checkout]

    def checked(self, one: Planned) -> Checked:
        """The run against this revision of the checkout; nothing is started. Looked at once, for what this machine adds."""
        key = (one.name, *self.extra)
        if key not in self._checked:
            self._checked[key] = self._check(one)
        return self._checked[key]

    def _check(self, one: Planned) -> Checked:
        decided = {name: value for name, value in one.env.items() if name not in self.request.env or name in one.run.env}
        env = self.environment(one)
        seen = drift.check(self.description, self.paths_of(one.baseline), env, decided, self.arguments(one))
        if seen.config:
            seen.problems.extend(environment.feature_problems(self.description, one, env, seen.config))
        return seen

    # -- the steps ---------------------------------------------------------------------------------------------------------------

    def run(self) -> Summary:
        """All steps, then the summary, also when the run is interrupted between them."""
        actions: list[tuple[str, str, Callable[[Path], Step]]] = [
            ("checkouts", "the checkouts as they are", self._checkouts),
            *([("setup", self.request.setup, self._setup)] if self.request.setup else []),
            ("environment", "environment, data and model", self._environment),
            *(
                (f"imports{'-baseline' if baseline else ''}", "imports in the driver and a Ray worker", self._imports(baseline))
                for baseline in sorted({one.baseline for one in self.planned})
            ),
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
        if (earlier := self._earlier(name)) and earlier.passed and name not in ALWAYS:
            if earlier.fingerprints == marks:
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
            step = Step(name=name, title=title, verdict="Blocked", reason=error.what, fixes=[error.hint] if error.hint else [])
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

    def _note(self, step: Step, again: bool = False) -> None:
        self.steps.append(step)
        took = f" ({times.clock(step.seconds)})" if step.seconds and not again else ""
        self.say(f"{step.name}: {step.verdict}{' (earlier)' if again else ''} - {step.reason}{took}")

    def _checkouts(self, place: Path) -> Step:
        which = {name: (name, path) for name, path in self.paths.items()}
        if any(one.baseline for one in self.planned):
            which["baseline"] = (self.description.subject, Path(self.request.baseline))
        self.states = [checkouts.record(name, path, place) for name, (_, path) in which.items()]
        evidence = [f"{state.name}: {state.path} {state.tell()}" for state in self.states]
        evidence += [f"{state.name}: submodule {line.strip()}" for state in self.states for line in state.submodules]
        files.write_bytes(place / "checkouts.json", msgspec.json.format(msgspec.json.encode(self.states), indent=2) + b"\n")
        empty = [
            f"{state.path}/{folder}"
            for state in self.states
            for folder in checkouts.unready(state, self.description.checkouts[which[state.name][0]])
        ]
        if empty:
            step = _step("Blocked", f"{empty[0]} is empty: a submodule that nobody checked out", evidence)
            step.fixes = ["git submodule update --init --recursive"]
            return step
        return _step("Pass", "; ".join(evidence[: len(self.states)]), evidence)

    def _setup(self, place: Path) -> Step:
        """The user's own command, in the same container and the same step as everything after it."""
        log, argv = place / "setup.log", ["bash", "-c", self.request.setup]
        env = {**self.base, "PYTHONPATH": self.inherited}
        outcome = execute.run(argv, self.checkout(), env, log, self._mark, self.request.timeout_s, self.request.stall_s)
        step = _step("Pass" if outcome.good else "Blocked", f"{self.request.setup}: {outcome.tell()}", log=log)
        step.command, step.cwd, step.outcome = argv, str(self.checkout()), outcome
        step.limitations.append(f"the environment was prepared by: {self.request.setup}")
        if not outcome.good and (last := _last_line(log)):
            step.reason += f": {last}"
        return step

    def _environment(self, place: Path) -> Step:
        found = self.description
        env = self.environment(self.planned[0])
        problems = environment.devices(env)
        if problem := environment.ray_problem(env):
            problems.append(problem)
        available: int | None
        if found.devices != "gpu":
            available, how = 0, "CPU only"
        elif env["RAY_ADDRESS"] != "local":
            available, how = None, f"those of the Ray cluster at {env['RAY_ADDRESS']}, see imports"
        else:
            available, how = environment.gpus(env)
        evidence = [f"GPUs: {'' if available is None else f'{available} '}({how})"]
        problems += environment.sizes(found, self.planned, available)
        problems += environment.disk(env, [environment.hf_home(env), self.folder.path])
        if " " in str(self.folder.path):
            raise BadInput(
                f"the runs' folder {self.folder.path} holds a space, at which the wrapper would take its arguments apart"
            )
        interpreter: list[str] = []
        try:
            interpreter = self._interpreter(place, evidence)
            problems += self._packages(place, interpreter, env, evidence)
        except Blocked as error:
            problems.append(f"{error.what}: {error.hint}")
        problems += self._data(place, interpreter, env, evidence)
        if problem := environment.model_problem(found, env):
            problems.append(problem)
        self._reward_model(env, evidence)
        used = {name: value for name, value in env.items() if name in self.request.env}
        evidence += [f"from your environment: {name}={value}" for name, value in redact.environment(used).items()]
        if problems:
            step = _step("Blocked", problems[0], [*problems, *evidence], limitations=self.limits)
            step.fixes = problems
            return step
        return _step("Pass", f"{' '.join(interpreter)}, {evidence[0]}", evidence, limitations=list(self.limits))

    def _interpreter(self, place: Path, evidence: list[str]) -> list[str]:
        """The command with which the wrapper starts Python. Raises Blocked when it is not here."""
        one = self.planned[0]
        seen = wrapper.preview(
            drift.script_of(self.description, self.paths),
            self.checkout(),
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
        answer, outcome = imports.ask(interpreter, self.checkout(), env, place / "packages.log", self._mark, [], list(wanted))
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
        if (
            how
            and interpreter
            and len(problems) == len(wanted)
            and len(folders) == 1
            and all("does not exist" in text for text in problems)
        ):
            folder = folders.pop()
            argv = [*interpreter, *(text.replace("{folder}", str(folder)) for text in how.command)]
            log = place / "prepare.log"
            self.say(f"environment: no data yet: {shlex.join(argv)}")
            folder.mkdir(parents=True, exist_ok=True)
            outcome = execute.run(argv, self.paths[how.checkout], env, log, self._mark, PREPARE_TIMEOUT_S, PREPARE_TIMEOUT_S)
            evidence.append(f"data prepared: {shlex.join(argv)} ({outcome.tell()})")
            if not outcome.good:
                told = views.triage_log(log) if log.stat().st_size else None
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

    def _imports(self, baseline: bool) -> Callable[[Path], Step]:
        return lambda place: self._prove_imports(next(one for one in self.planned if one.baseline == baseline), place)

    def _prove_imports(self, one: Planned, place: Path) -> Step:
        seen, paths = self.checked(one), self.paths_of(one.baseline)
        if seen.preview is None:
            raise Blocked(seen.problems[0])
        env = {**self.environment(one), "PYTHONPATH": seen.preview.pythonpath}
        address = "" if env["RAY_ADDRESS"] == "local" else env["RAY_ADDRESS"]
        ray = imports.ray_init(seen.config, seen.preview.pythonpath, address)
        log = place / "imports.log"
        modules = [wanted.module for wanted in self.description.imports]
        cwd = self.checkout(one.baseline)
        answer, outcome = imports.ask(seen.preview.interpreter, cwd, env, log, self._mark, modules, ray=ray)
        if answer is None:
            return _step("Blocked", f"the import proof did not end: {_last_line(log) or outcome.tell()}", log=log)
        problems = imports.problems("driver", answer["driver"], self.description, paths)
        problems += imports.problems("Ray worker", answer["worker"], self.description, paths)
        evidence = [
            f"{who}: {module} = {file}" for who in ("driver", "worker") for module, file in answer[who].get("files", {}).items()
        ]
        commits = {state.path: f"{state.name}: commit {state.commit[:12]}" for state in self.states}
        evidence += [commits[str(path)] for path in paths.values()]
        if address and "nodes" in answer["worker"]:
            there, where = answer["worker"]["gpus_of_a_node"], f"on a node of the Ray cluster at {address}"
            evidence.append(f"GPUs: at most {there} {where}, which has {answer['worker']['nodes']} nodes")
            problems += environment.sizes(self.description, self.planned, there, where)
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
        argv = [
            *(["uv", "run", "python"] if uv else ["python3"]),
            "-m",
            "pytest",
            "-q",
            "-rfEp",
            "-p",
            "no:cacheprovider",
            *there,
        ]
        env = {**self.base, "PYTHONDONTWRITEBYTECODE": "1"}
        log = place / "tests.log"
        outcome = execute.run(argv, checkout, env, log, self._mark, TESTS_TIMEOUT_S, TESTS_TIMEOUT_S)
        text = log.read_text(errors="replace")
        passed = re.findall(r"(\d+) passed", text)
        step = _step("Pass", f"{shlex.join(argv)}: {passed[-1] if passed else 0} passed", evidence, log=log)
        step.command, step.cwd, step.outcome = argv, str(checkout), outcome
        if outcome.good and (gone := [name for name in self.request.tests if "::" in name and f"PASSED {name}" not in text]):
            # Beside its whole file pytest does not miss a test that is not there.
            return _step("Blocked", f"--bridge-tests {gone[0]}: pytest ran no such test", evidence, log=log)
        if outcome.good and passed and int(passed[-1]):
            step.reason += f"; drift: {', '.join(missing)} not in this checkout" if missing else ""
            return step
        told = views.triage_log(log) if log.stat().st_size else None
        step.triage = told
        if outcome.good or outcome.exit_code in (4, 5):
            step.verdict, step.reason = (
                "Skipped",
                f"pytest ran no test (exit code {outcome.exit_code}): that is no pass; {_last_line(log)}",
            )
        elif told and told.verdict == "Blocked":
            step.verdict, step.reason = "Blocked", f"{told.boundary}: {told.evidence}"
        elif outcome.exit_code == 1 and outcome.ended == "exit":
            failed = next((line for line in text.splitlines() if line.startswith(("FAILED", "ERROR "))), "")
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
            values = {key: drift.select(seen.config, key) for key in self.description.resolved}
            shown = " ".join(f"{key}={value}" for key, value in values.items() if value is not drift.MISSING)
            evidence += [f"resolved: {one.name}: {shown}"] if shown else []
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
        cwd = self.checkout(one.baseline)
        files.write_text(place / "command.sh", script(cwd, redact.environment(changed), argv))
        outcome = execute.run(argv, cwd, env, log, self._mark, self.request.timeout_s, self.request.stall_s, self._watch(one))
        step = _step("Pass", "", log=log)
        step.command, step.env, step.cwd, step.outcome = argv, changed, str(cwd), outcome
        if not outcome.log_bytes:
            step.verdict, step.reason = "Blocked", f"the wrapper printed nothing: {outcome.tell()}"
            return step
        reader = criteria.Reader(self.description).read(log)
        told = views.triage_log(log)
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
        if moved := checkouts.moved(self.states):
            step.verdict, step.reason = "Blocked", f"a checkout changed while it was being tested: {moved}"
            step.fixes = ["a checkout (git worktree add) that nobody works in, and a new run"]
        elif one.baseline:
            if not step.passed:
                step.verdict, step.reason = "Blocked", f"the unchanged code does not pass either: {step.reason}"
        elif one.level.learning:
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
            baseline=learning.read(self._baseline_log(one)) if self.request.baseline else None,
            cap=float(cap) if isinstance(cap, (int, float)) else None,
        )
        step.learning = [*signal.told, *signal.wrong, *signal.notes]
        step.limitations += signal.notes
        step.limitations.append(f"{one.steps[1]} steps: a learning signal at most, no benchmark convergence")
        if step.passed and signal.verdict != "Pass":
            step.verdict, step.reason = "Fail", f"no learning signal: {signal.reason()}"
        elif step.passed:
            step.reason = signal.reason()

    def _baseline_log(self, one: Planned) -> Path:
        """The file that was given, or the log of the baseline run of ``one``."""
        name = next((other.name for other in self.planned if other.baseline and other.key == one.key), "")
        return Path(next((step.log for step in self.steps if name and step.name == name), self.request.baseline))

    def _watch(self, one: Planned) -> Callable[[bytes], None]:
        """Says how far the run is whenever another step is done, and now and then that it still runs."""
        seen, told, last_line = metric_lines.LogMetrics(), 0, b""
        began = spoke = time.monotonic()

        def watch(piece: bytes) -> None:
            nonlocal told, spoke, last_line
            seen.feed(piece)
            last_line = next((line for line in reversed(piece.splitlines()) if line.strip()), last_line)
            now = time.monotonic()
            if now - spoke > QUIET_S:
                spoke = now
                words = redact.text(last_line.decode(errors="replace").strip()[:120])
                self.say(f"{one.name}: {times.clock(now - began)}, its log's last line: {words}")
            if (last := max(seen.steps, default=0)) > told:
                told, spoke = last, now
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
        found = Report(
            self.description,
            self.request,
            self.planned,
            self.steps,
            self.states,
            self.limits,
            self.extra,
            self.folder.path,
            self.command,
        ).summary()
        for suffix, data in (
            ("txt", summary.text(found).encode() + b"\n"),
            ("md", summary.markdown(found).encode()),
            ("json", summary.as_json(found)),
        ):
            files.write_bytes(self.folder.summary(suffix), data)
        return found


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


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return lines[-1][:300] if lines else ""


def script(cwd: Path, env: Mapping[str, str], argv: Sequence[str]) -> str:
    """A command with its environment as a script that does the same by hand."""
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in sorted(env.items()))
    return f"#!/usr/bin/env bash\n# secret values are masked\ncd {shlex.quote(str(cwd))}\n{exports}\n{shlex.join(argv)}\n"
