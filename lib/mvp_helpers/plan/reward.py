"""A reward function of the user's (``reward_fn_path``): where it lies, and whether verl can call it, told before anything trains.

At submission its source is read and never run. On the driver's host, the precheck lets verl load it and calls it once
(``reward_trial.py``): in a process of its own, because what it does is the user's.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..base import processes
from ..base.errors import BadInput, did_you_mean
from ..base.paths import SharedRoot
from . import inputs

DEFAULT_NAME = "compute_score"
CALLED_WITH = ("data_source", "solution_str", "ground_truth", "extra_info")
"""What verl passes, by keyword."""
ONE_BY_ONE = frozenset({"naive", "dapo", "gdpo", "rate_limited", "remote"})
"""verl's reward managers that call the function so, once for each answer. Others (batch, prime, a user's own) do otherwise."""
PACKAGE = "pkg://"
LIMIT_S = 60
"""How long loading and one call may take."""
START_S = 240
"""How long verl itself may take to import, on a machine that does much else."""
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)


class RewardFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The function ``name`` in ``file``; ``path`` is how verl is told: the file, or ``pkg://package.module``."""

    path: str
    file: str
    name: str
    kwargs: dict[str, Any] = {}
    """Passed in every call beside ``CALLED_WITH``."""
    one_by_one: bool = True
    """False: the reward manager has a call of its own, so that the function can only be loaded."""


def find(given: str, shared: SharedRoot, source: str) -> RewardFunction:
    """The function that ``file.py``, ``file.py:function`` or ``package.module:function`` (under ``user/code/``) names.

    Raises BadInput when there is no such file, it lies outside the shared root, or the text is none of the three.
    """
    place, colon, name = given.rpartition(":") if ":" in given else (given, "", DEFAULT_NAME)
    if not name.isidentifier():
        raise BadInput(f"{source}: reward_fn_path {given!r}: '{name}' is not a function's name", hint=_FORMS)
    if place.endswith(".py") or "/" in place:
        file = inputs.resolve(place, "reward_fn_path", shared.root, source)
        if file.suffix != ".py" or not file.is_file():
            raise BadInput(f"{source}: reward_fn_path is not a Python file (.py): {file}", hint=_FORMS)
        return RewardFunction(path=str(file), file=str(file), name=name)
    parts = place.split(".")
    if not colon or not all(part.isidentifier() for part in parts):
        raise BadInput(f"{source}: reward_fn_path {given!r} is neither a file nor module:function", hint=_FORMS)
    base = shared.user_code.joinpath(*parts)
    tried = [base / "__init__.py", base.with_name(f"{base.name}.py")]  # in the order in which Python looks
    found = next((file for file in tried if file.is_file()), None)
    if found is None:
        raise BadInput(f"{source}: reward_fn_path: there is no module '{place}': no {tried[1]}", hint=_FORMS)
    return RewardFunction(
        path=PACKAGE + place, file=str(inputs.resolve(str(found), "reward_fn_path", shared.root, source)), name=name
    )


_FORMS = "user/code/my_reward.py, user/code/my_reward.py:my_function, or my_package.my_module:my_function under user/code/"


def check_source(reward: RewardFunction, source: str) -> None:
    """What the source alone tells: does it parse, is the function there, can it be called as verl will?

    What cannot be told without running it (decorators, names that are imported or made at run time) passes: the trial tells.

    Raises BadInput with file and line.
    """
    where = f"{source}: reward_fn_path: {reward.file}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a text is the user's to see, when it is run
            tree = ast.parse(Path(reward.file).read_bytes(), reward.file)
    except SyntaxError as error:
        raise BadInput(f"{where}:{error.lineno or 1}: {type(error).__name__}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"{where}: cannot be parsed: {error}") from None
    except OSError as error:
        raise BadInput(f"{where}: cannot be read: {error.strerror}") from None
    found = [node for name, node in _bound(tree) if name == reward.name]
    if not found and not _names_made_at_run_time(tree):
        functions = [name for name, node in _bound(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        raise BadInput(
            f"{where} has no function '{reward.name}'{did_you_mean(reward.name, functions)}",
            hint=f"its functions: {', '.join(functions) or 'none'}; another one is named so: {Path(reward.file).name}:function",
        )
    if not reward.one_by_one or len(found) != 1:
        return
    (node,) = found
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.decorator_list:
        return
    keywords = dict.fromkeys([*CALLED_WITH, *reward.kwargs])
    try:
        _signature(node.args).bind(**keywords)
    except TypeError as error:
        raise BadInput(
            f"{where}:{node.lineno}: {reward.name}({ast.unparse(node.args)}) cannot take verl's call: {error}",
            hint=f"def {reward.name}({', '.join([*CALLED_WITH[:3], 'extra_info=None', *reward.kwargs])}, **kwargs)",
        ) from None


def _module_level(node: ast.AST) -> Iterator[ast.AST]:
    """Everything that happens in the module's own scope."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _module_level(child)


def _bound(tree: ast.Module) -> list[tuple[str, ast.stmt | ast.alias | ast.Name]]:
    """The names that the module binds, and where."""
    bound: list[tuple[str, ast.stmt | ast.alias | ast.Name]] = []
    for node in _module_level(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.append((node.name, node))
        elif isinstance(node, ast.alias):
            bound.append((node.asname or node.name.partition(".")[0], node))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.append((node.id, node))
    return bound


def _names_made_at_run_time(tree: ast.Module) -> bool:
    """Could the module have names that its text does not show?"""
    tells = {"globals", "vars", "exec", "setattr"}
    return any(name in ("*", "__getattr__") for name, _ in _bound(tree)) or any(
        isinstance(node, ast.Global) or (isinstance(node, ast.Name) and node.id in tells) for node in ast.walk(tree)
    )


def _signature(args: ast.arguments) -> inspect.Signature:
    kind = inspect.Parameter
    positional = [*args.posonlyargs, *args.args]
    without_default = len(positional) - len(args.defaults)
    parameters = []
    for at, arg in enumerate(positional):
        how = kind.POSITIONAL_ONLY if at < len(args.posonlyargs) else kind.POSITIONAL_OR_KEYWORD
        parameters.append(kind(arg.arg, how, default=kind.empty if at < without_default else None))
    if args.vararg:
        parameters.append(kind(args.vararg.arg, kind.VAR_POSITIONAL))
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        parameters.append(kind(arg.arg, kind.KEYWORD_ONLY, default=kind.empty if default is None else None))
    if args.kwarg:
        parameters.append(kind(args.kwarg.arg, kind.VAR_KEYWORD))
    return inspect.Signature(parameters)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of loading and calling a reward function once: a ``problem`` with file and line, or the ``score``."""

    score: float | None = None
    problem: str = ""
    at: str = ""
    """``file:line`` of the problem in the user's code."""


def try_out(reward: RewardFunction, train_file: str | None, user_code: Path, limit_s: float = LIMIT_S) -> Trial:
    """Let verl load the function and call it on the first row of ``train_file``, in a process of its own.

    The user's output goes where ours goes. A crash or a call that never returns is a problem too, told with the line it was at.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, stacks = Path(folder) / "report.json", Path(folder) / "stacks.txt"
        question = msgspec.json.encode([reward, train_file, str(user_code), limit_s]).decode()
        argv = [sys.executable, "-m", "mvp_helpers.plan.reward_trial", question, str(report), str(stacks)]
        # A session of its own, to end all that it starts; a precheck that is stopped takes it along.
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=processes.die_with_parent)
        try:
            code: int | None = child.wait(START_S + limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(report.read_bytes(), type=Trial)
        told = stacks.read_text(errors="replace") if stacks.exists() else ""
    at = _users_line(told, reward, user_code)
    if code is None:
        return Trial(problem=f"cannot be tried: verl was not imported within {START_S} s", at=at)
    if told.startswith("Timeout"):
        return Trial(problem=f"was not loaded and called once within {limit_s:g} s", at=at)
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended the process with exit code {code}"
    return Trial(problem=how, at=at)


def _users_line(stacks: str, reward: RewardFunction, user_code: Path) -> str:
    """``file:line`` of the innermost frame of the user's in what ``faulthandler`` wrote; it lists the innermost first."""
    for file, line in _FRAME.findall(stacks):
        if is_users(file, reward.file, user_code):
            return f"{file}:{line}"
    return defined_at(reward)


def defined_at(reward: RewardFunction) -> str:
    """``file:line`` of the function, as far as the source shows it."""
    try:
        lines = [node.lineno for name, node in _bound(ast.parse(Path(reward.file).read_bytes())) if name == reward.name]
    except (OSError, SyntaxError, ValueError):
        lines = []
    return f"{reward.file}:{lines[-1]}" if lines else reward.file


def is_users(file: str, reward_file: str, user_code: Path) -> bool:
    real = Path(os.path.realpath(file))
    return str(real) == reward_file or real.is_relative_to(user_code.resolve())
