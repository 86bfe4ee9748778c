"""Step "environment": can these runs start here? What is missing blocks them, with what to do about it."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base import redact
from ...base.errors import BadInput, Blocked
from ...diagnosis import views
from .. import data_files, environment, execute
from ..context import Context
from ..requests.parts import DataFile
from ..step import Step, last_line, step_of
from . import imports

PREPARE_TIMEOUT_S = 1800


def run(context: Context, place: Path) -> Step:
    """Check devices, Ray, GPUs, disk, interpreter, packages, data, model and reward model."""
    env = context.environment(context.planned[0])
    if " " in str(context.folder.path):
        raise BadInput(
            f"the runs' folder {context.folder.path} contains a space, at which the script would split its arguments",
            hint="--runs-dir FOLDER",
        )
    available, how = _available_gpus(context, env)
    evidence = [f"GPUs: {'' if available is None else f'{available} '}({how})"]
    problems = [*context.trainer.environment_problems(env), *filter(None, [environment.ray_problem(env)])]
    problems += context.gpu_problems(available)
    problems += environment.disk(env, [environment.hf_home(env), context.folder.path])
    interpreter: list[str] = []
    try:
        interpreter = _interpreter(context, evidence)
        problems += _packages(context, place, interpreter, env, evidence)
    except Blocked as error:
        problems.append(f"{error.what}: {error.hint}")
    problems += _data(context, place, interpreter, env, evidence)
    problems += model_problems(context, env)
    evidence += filter(None, [context.switch_off_missing_reward_model()])
    used = {name: value for name, value in env.items() if name in context.request.env}
    evidence += [f"from your environment: {name}={value}" for name, value in redact.environment(used).items()]
    context.limits += context.unused_words()
    if problems:
        step = step_of("Blocked", problems[0], [*problems, *evidence])
        step.fixes = problems
        return step
    return step_of("Pass", f"{' '.join(interpreter)}, {evidence[0]}", evidence)


def _available_gpus(context: Context, env: Mapping[str, str]) -> tuple[int | None, str]:
    if context.description.devices != "gpu":
        return 0, "CPU only"
    if env["RAY_ADDRESS"] != "local":
        return None, f"those of the Ray cluster at {env['RAY_ADDRESS']}, see imports"
    return environment.gpus(env)


def _interpreter(context: Context, evidence: list[str]) -> list[str]:
    """Return the words with which the script starts Python. Raises Blocked when its program is not installed."""
    interpreter = context.trainer.interpreter(context.launches(context.planned[0])[0])
    evidence.append(f"interpreter: {shlex.join(interpreter)}")
    if not shutil.which(interpreter[0], path=context.base.get("PATH")):
        raise Blocked(
            f"the script starts Python with '{interpreter[0]}', which is not on the PATH",
            hint=context.trainer.missing_interpreter,
        )
    return interpreter


def _packages(
    context: Context, place: Path, interpreter: Sequence[str], env: Mapping[str, str], evidence: list[str]
) -> list[str]:
    wanted = {
        package.module: package
        for package in context.description.packages
        if all(env.get(name) == value for name, value in package.only_if.items())
    }
    log, cwd = place / "packages.log", context.cwd(context.planned[0])
    one = context.planned[0]
    asked: dict[str, Any] = {"modules": [], "packages": list(wanted), "ray": None}
    if context.description.model.verify and (folder := environment.model_folder(context.description, env, one.overrides)):
        asked["snapshot"] = str(folder)
    answer, outcome = imports.ask(interpreter, cwd, env, log, context.mark, asked)
    if answer is None:
        return [f"the script's interpreter does not start: {last_line(log) or outcome.summary()}"]
    driver = answer["driver"]
    evidence.append(f"Python {driver['version']}: {driver['python']}")
    image = f", image {context.request.image}" if context.request.image else ""
    context.where = f"{driver['host']}, Python {driver['version']} at {driver['python']}{image}"
    problems = [f"the script's interpreter has no module '{name}': install {wanted[name].install}" for name in answer["missing"]]
    if loaded := answer.get("snapshot"):
        evidence += [f"{asked['snapshot']} loads offline: {loaded['loads']}"] if "loads" in loaded else []
        problems += [f"{asked['snapshot']} does not load offline: {loaded['error']}"] if "error" in loaded else []
    return problems


def _data(context: Context, place: Path, interpreter: Sequence[str], env: Mapping[str, str], evidence: list[str]) -> list[str]:
    """Return the problems of the data files; where all are missing, the checkout's own script makes them first."""
    argv = preparation(context, interpreter, env)
    if not argv or not interpreter or not _all_missing(context, env):
        return data_problems(context, env)
    _files(context, env)[0][1].parent.mkdir(parents=True, exist_ok=True)
    log = place / "prepare.log"
    context.say(f"environment: preparing the data: {shlex.join(argv)}")
    cwd = preparation_folder(context)
    outcome = execute.run(argv, cwd, env, log, context.mark, PREPARE_TIMEOUT_S, PREPARE_TIMEOUT_S)
    evidence.append(f"data prepared: {shlex.join(argv)} ({outcome.summary()})")
    if outcome.good:
        return data_problems(context, env)
    cause = views.triage_log(log).evidence if log.stat().st_size else outcome.summary()
    return [f"the data could not be prepared: {cause}"]


def _files(context: Context, env: Mapping[str, str]) -> list[tuple[DataFile, Path]]:
    return [(data, environment.home(env.get(data.variable) or data.default, env)) for data in context.description.data]


def _all_missing(context: Context, env: Mapping[str, str]) -> bool:
    return not any(path.exists() for _, path in _files(context, env))


def data_problems(context: Context, env: Mapping[str, str]) -> list[str]:
    """Return the problems of the data files that are here."""
    checked = [(data.variable, data_files.problem(path, data.columns)) for data, path in _files(context, env)]
    return [f"{variable}: {problem}" for variable, problem in checked if problem]


def model_problems(context: Context, env: Mapping[str, str]) -> list[str]:
    """Return why the model cannot be loaded, if that is so."""
    return [*filter(None, [environment.model_problem(context.description, env, context.planned[0].overrides)])]


def missing(context: Context) -> list[str]:
    """Return what of the model and the data would block the run, as far as no preparation can make it."""
    env = context.environment(context.planned[0])
    to_prepare = preparation(context, [], env) and _all_missing(context, env)
    return [*model_problems(context, env), *([] if to_prepare else data_problems(context, env))]


def preparation(context: Context, interpreter: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return the command of the checkout's own script that makes the data; empty where there is none for these files."""
    how = context.description.preparation
    folders = {environment.home(env.get(data.variable) or data.default, env).parent for data in context.description.data}
    if not how or len(folders) != 1:
        return []
    raw = env.get(how.source_variable, "")
    source = [how.source_option, str(Path(raw).resolve())] if raw and Path(raw).is_dir() else []
    return [*interpreter, *(text.replace("{folder}", str(*folders)) for text in how.command), *source]


def preparation_folder(context: Context) -> Path:
    """Return the checkout in which that command is run."""
    how = context.description.preparation
    return context.paths[how.checkout] if how else context.folder.path
