"""What all steps of one run share: its request, description and trainer, its checkouts, and how each planned run is started."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ..base.errors import Blocked
from ..base.paths import E2eRun
from ..base.project import PROJECT
from ..gates import assertions
from ..trainers import launch_preview
from ..trainers.launch_preview import Launch
from ..trainers.trainer import ABSENT, Outputs, at_key
from . import environment, revision, variables
from .requests import checkouts, description, levels
from .requests.checkouts import State
from .requests.description import config_problems, model_of
from .requests.levels import Planned
from .requests.parts import Expect, LocalCopy
from .requests.request import Request, planned_of

INHERITED = "MVP_E2E_PYTHONPATH"
"""The PYTHONPATH of whoever started the script; PYTHONPATH itself is this project's own, and is not handed on."""
CACHES = (
    *("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "CUDA_CACHE_PATH"),
    *("CUPY_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "PYTORCH_KERNEL_CACHE_PATH"),
)
"""Variables of folders in the home by default, where vLLM, Triton, FlashInfer, CUDA, CuPy and torch keep what they compile."""


@dataclass(frozen=True)
class Checked:
    """One run against this revision of the checkout. ``problems`` block it; ``notes`` say how it adapts."""

    launches: list[Launch] = field(default_factory=list)
    configs: list[dict[str, Any]] = field(default_factory=list)
    """The resolved config of each launch; empty when one of them does not compose."""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    """The user's variables that this revision's script does not read, each with a sentence: limitations of the run."""
    by_request: bool = False
    """The first problem is gone without the request's own overrides."""

    @property
    def reason(self) -> str:
        """Why the run cannot be done."""
        return f"{'an override does not fit this run' if self.by_request else 'this revision differs'}: {self.problems[0]}"

    @property
    def config(self) -> dict[str, Any]:
        """The first launch's config."""
        return self.configs[0] if self.configs else {}


class Context:
    """One run. ``say`` prints a line for the person who watches."""

    def __init__(self, folder: E2eRun, request: Request, env: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.folder, self.request, self.say = folder, request, say
        self.description = description.load(request.description)
        self.trainer = self.description.load_trainer()
        self.metric_names = self.description.metric_names()
        self.paths = {name: Path(path) for name, path in request.checkouts.items()}
        self.inherited = env.get(INHERITED, "")
        self.local = {
            copy.of: environment.home(env[copy.variable], env) for copy in self.description.local_copies if env.get(copy.variable)
        }
        """Node-local copies in the place of a checkout's folder."""
        # By default the trainer would join any Ray that happens to run here.
        ray = {"RAY_DEDUP_LOGS": "0", "RAY_ADDRESS": env.get("RAY_ADDRESS") or "local"}
        # Nothing is left in a checkout, or in the user's home: compiled code is kept for the next run beside the runs.
        self.caches = {name: folder.cache / name.lower() for name in CACHES}
        self.base = {
            **{name: str(path) for name, path in self.caches.items()},
            **env,
            "PYTHONPATH": self.pythonpath(),
            **ray,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.states: list[State] = []
        """The checkouts as the run found them."""
        self.logs: dict[str, str] = {}
        """The logs of the steps so far, by step."""
        self.extra: list[str] = []
        """Overrides that this machine and this revision need."""
        self.where = ""
        """Host, interpreter and image, once the step "environment" knows them."""
        self._checked: dict[tuple[str, ...], Checked] = {}
        planned = planned_of(self.description, request)
        self.planned, self.limits = revision.adapted(self, planned)
        if not self.planned:
            raise Blocked(self.limits[0], hint="another revision of the checkout")
        self.tests, left_out = revision.tests_of(self, levels.tests_of(self.description, request.levels))
        self.limits += left_out

    @property
    def mark(self) -> str:
        """Marks the processes of this run."""
        return self.folder.path.name

    def paths_of(self, baseline: bool = False) -> dict[str, Path]:
        """Return the checkouts of a run; the baseline has the unchanged code in the subject's place."""
        return self.paths | ({self.description.subject: Path(self.request.baseline)} if baseline else {})

    def pythonpath(self, baseline: bool = False) -> str:
        return checkouts.pythonpath(self.description, self.paths_of(baseline), self.inherited, {} if baseline else self.local)

    def local_copies(self) -> list[LocalCopy]:
        """Return the copies whose variables name a folder."""
        return [copy for copy in self.description.local_copies if copy.of in self.local]

    def source_of(self, copy: LocalCopy) -> Path:
        """Return the folder of a checkout of which this is a copy."""
        name, _, folder = copy.of.partition(":")
        return self.paths[name] / folder

    def checkout(self, one: Planned) -> Path:
        """Return the checkout whose script the run starts."""
        return self.paths_of(one.baseline)[one.wrapper.checkout]

    def cwd(self, one: Planned) -> Path:
        """Return the folder in which the run's script is started."""
        return self.checkout(one) / one.wrapper.cwd

    def environment(self, one: Planned) -> dict[str, str]:
        """Return the environment of a run; ``{run}`` in its variables is the run's folder."""
        model, read = self.description.model, self.read_by(one)
        own = {name: value.replace("{run}", str(self.folder.path)) for name, value in one.env.items()}
        folder = environment.model_folder(self.description, {**self.base, **own}, one.overrides)
        if folder and model.path_variable in read and model.id_variable not in read:
            own[model.path_variable] = str(folder)
        unused = variables.unused(one, read, self.base)
        kept = {name: value for name, value in self.base.items() if name not in unused}
        return {**kept, **self.uv(self.checkout(one)), **own, "PYTHONPATH": self.pythonpath(one.baseline)}

    def unused_words(self) -> list[str]:
        """Return a sentence for each variable of the user's shell that is unset for some run."""
        return variables.words([variables.unused(one, self.read_by(one), self.base) for one in self.planned])

    def shown_environment(self, one: Planned) -> dict[str, str]:
        """Return what a run's command needs in an empty shell."""
        return variables.shown(one, self.read_by(one), self.environment(one))

    def uv(self, checkout: Path) -> dict[str, str]:
        """Return what keeps uv from making its environment inside a checkout that has none."""
        if "UV_PROJECT_ENVIRONMENT" in self.base or (checkout / ".venv").exists() or not (checkout / "uv.lock").exists():
            return {}
        return {"UV_PROJECT_ENVIRONMENT": str(self.folder.uv / checkout.name)}

    def read_by(self, one: Planned) -> set[str]:
        """Return the variables that the run's script reads; empty when this revision does not have the script."""
        try:
            return launch_preview.variables(self.script(one))
        except Blocked:
            return set()

    def settings(self, one: Planned) -> list[str]:
        """Return overrides in place of variables that the script does not read."""
        description = self.description
        values = {data.variable: str(environment.home(data.default, self.base)) for data in description.data}
        if folder := environment.model_folder(description, {**self.base, **one.env}, one.overrides):
            values[description.model.path_variable] = str(folder)
        return variables.overrides(description, {**values, **one.env}, self.read_by(one))

    def expect(self, one: Planned) -> Expect:
        """Return what the run must show; a script shows only variables that it reads, and the config proves the others."""
        expect, read = one.expect(self.description), self.read_by(one)
        shown = {name: value for name, value in expect.xtrace.items() if name in read}
        return msgspec.structs.replace(expect, xtrace=shown)

    def arguments(self, one: Planned) -> list[str]:
        """Return the overrides that the run's script is given."""
        checkpoints = self.folder.checkpoints / one.group
        values = {
            "pythonpath": self.pythonpath(one.baseline),
            "checkpoints": str(checkpoints),
            "run": str(self.folder.path),
        }
        own = [re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text) for text in one.wrapper.overrides]
        given, joins = one.wrapper.worker_variable, self.base["RAY_ADDRESS"] != "local"
        own += [given.format(name=name, value=self.base[name]) for name in CACHES] if given and joins else []
        return [*own, *self._output_arguments(one), *self.settings(one), *self.extra, *one.overrides]

    def _contradictions(self, one: Planned, config: Mapping[str, Any]) -> list[str]:
        """Return where overrides contradict how far the run trains, what it saves and resumes, and where it writes."""
        names = [self.description.step_count.variable, *(one.run.env if one.run.saves else ())]
        wanted = {key: one.env[name] for name in names if name for key in self.description.equivalents.get(name, ())}
        wanted |= dict(self.trainer.setting(text) for text in self._output_arguments(one))
        actual = {key: at_key(config, key) for key in wanted}
        return [
            f"the resolved config has {key}={actual[key]}, but the run needs {value}: leave that override out"
            for key, value in wanted.items()
            if actual[key] is not ABSENT and str(actual[key]) != value
        ]

    def _output_arguments(self, one: Planned) -> list[str]:
        scratch = self.folder.path / "trainer-output" / one.name
        outputs = Outputs(checkpoints=self.folder.checkpoints / one.group, scratch=scratch)
        return [] if one.wrapper.keeps_outputs else self.trainer.output_arguments(outputs)

    def command(self, one: Planned) -> list[str]:
        return ["bash", str(self._script_argument(one)), *self.arguments(one)]

    def _script_argument(self, one: Planned) -> str:
        script = one.wrapper.script.replace("{project}", str(PROJECT))
        return script if one.wrapper.cwd == "." else str(self.checkout(one) / script)

    def script(self, one: Planned) -> Path:
        """Return the run's script. Raises Blocked when this revision has none at that place."""
        script = self.checkout(one) / one.wrapper.script.replace("{project}", str(PROJECT))
        if not script.is_file():
            raise Blocked(
                f"this {one.wrapper.checkout} checkout has no {one.wrapper.script}",
                hint="another revision of it, or correct the description in templates/e2e/",
            )
        return script

    def launches(self, one: Planned) -> list[Launch]:
        """Return the trainings that the run would start, without starting any. Raises Blocked when there are none."""
        device = "cpu" if self.description.devices == "cpu" else "cuda"
        return self.trainer.preview(self.script(one), self.cwd(one), self.environment(one), self.arguments(one), device)

    def configs(self) -> dict[str, dict[str, Any]]:
        """Return the resolved config of each run, by its name, as far as this revision composes it."""
        return {one.name: self.checked(one).config for one in self.planned}

    def limitations(self, planned: Sequence[Planned]) -> list[str]:
        """Return what none of these runs shows, by their settings."""
        ignored = {one.name: self.checked(one).ignored for one in planned}
        return levels.limitations(self.description, planned, self.configs() if planned else {}, self.extra, ignored)

    def switch_off_missing_reward_model(self) -> str:
        """Switch off a reward model that is not here, with the key that this revision's config has; return why, else ""."""
        model, first = self.description.reward_model, self.planned[0]
        if not model:
            return ""
        env = self.environment(first)
        path = environment.home(env.get(model.variable) or model.default, env)
        config = self.checked(first).config
        key = next((key for key in model.enabled_by if at_key(config, key) is not ABSENT), "")
        if path.is_dir() or not key or at_key(config, key) is False:
            return ""
        self.extra = [f"{key}=False"]
        lowest = min(self.description.levels)
        others = ", ".join(one.name for one in self.planned if one.number != lowest)
        beyond = f"; only level {lowest} allows that, but it applies to {others} too" if others else ""
        self.limits.append(f"no reward model at {path}: switched off here with {key}=False{beyond}")
        return f"no reward model at {path}: {key}=False"

    def checked(self, one: Planned) -> Checked:
        """Compare the run with this revision of the checkout, once for each set of ``extra``; nothing is started."""
        key = (one.name, *self.extra)
        if key not in self._checked:
            checked, users = self._check(one), self.request.overrides
            if checked.problems and users:
                without = replace(one, overrides=[text for text in one.overrides if text not in users])
                checked = replace(checked, by_request=checked.problems[0] not in self._check(without).problems)
            self._checked[key] = checked
        return self._checked[key]

    def model(self, one: Planned) -> str:
        """Return the path or the id of the run's model, as far as that is known."""
        if named := model_of(self.description, one.env, one.overrides):
            return named
        config = next((seen.config for (name, *_), seen in self._checked.items() if name == one.name), {})
        values = [at_key(config, key) for key in self.description.model.overrides]
        return next((str(value) for value in values if value is not ABSENT), "")

    def gpu_problems(self, available: int | None, where: str = "here") -> list[str]:
        """Return the runs that do not fit the GPUs of ``where`` (None: not known yet), by their resolved configs."""
        available = available if self.description.devices == "gpu" else None
        return [
            problem
            for one in self.planned
            for config in self.checked(one).configs
            for problem in environment.gpu_problems(one.name, self.trainer.gpus(config), available, where)
        ]

    def _check(self, one: Planned) -> Checked:
        try:
            script = self.script(one)
        except Blocked as error:
            return Checked(problems=[error.what])
        if one.problem:
            return Checked(problems=[one.problem])
        read, users = self.read_by(one), self.request.env
        problems, notes, ignored = variables.unread(self.description, one, read, users, script.name)
        try:
            launches = self.launches(one)
        except Blocked as error:
            return Checked(problems=[*problems, error.what], notes=notes, ignored=ignored)
        if len(launches) != len(one.trainings):
            problems.append(f"{script.name} starts {len(launches)} trainings, not {len(one.trainings)}")
        composed = [self.trainer.compose(launch, self.checkout(one)) for launch in launches]
        refused = [f"its own config: {problem}" for each in composed for problem in each.problems]
        if refused:
            return Checked(launches, [], [*problems, *refused], notes, ignored)
        configs = [each.config for each in composed]
        wanted = one.expects(self.description)
        problems += dict.fromkeys(
            problem for config, each in zip(configs, wanted, strict=False) for problem in config_problems(config, each)
        )
        problems += self._contradictions(one, configs[0])
        problems += dict.fromkeys(problem for config in configs for problem in self.trainer.refusals(config))
        if one.run.recipe and (problem := revision.recipe_problem(one.run.recipe, configs[0])):
            problems.append(problem)
        problems += [text for launch in launches for text in assertions.problems(self.trainer.assertions(launch))]
        env = self.environment(one)
        problems += environment.model_problems(self.description, env, one.overrides, configs[0])
        problems += environment.feature_problems(self.description, one, env, configs[0])
        return Checked(launches, configs, problems, notes, ignored)
