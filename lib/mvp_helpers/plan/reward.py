"""A user's reward function (``reward_fn_path``): find its file, and check from the source that verl can call it.

The source is parsed and never run. On the driver's host, the precheck calls the function once (``reward_trial.py``).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..base.errors import BadInput, did_you_mean
from ..base.paths import SharedRoot
from . import inputs

if TYPE_CHECKING:
    import inspect

DEFAULT_NAME = "compute_score"
CALLED_WITH = ("data_source", "solution_str", "ground_truth", "extra_info")
"""The arguments that verl passes, by keyword."""
PACKAGE = "pkg://"
_FORMS = "user/code/my_reward.py, user/code/my_reward.py:my_function, or my_package.my_module:my_function under user/code/"


class RewardFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The function ``name`` in ``file``; verl's config gets ``path``: the file, or ``pkg://package.module``."""

    path: str
    file: str
    name: str
    kwargs: dict[str, Any] = {}
    """Further arguments of every call."""
    one_by_one: bool = True
    """False: the reward manager calls it with other arguments, so that the function can only be loaded."""


def find(given: str, shared: SharedRoot, source: str) -> RewardFunction:
    """Find the function that ``file.py``, ``file.py:function`` or ``package.module:function`` (under ``user/code/``) names.

    Raises BadInput when the file does not exist or is outside the shared root, or when the text has none of these forms.
    """
    place, colon, name = given.rpartition(":") if ":" in given else (given, "", DEFAULT_NAME)
    if not name.isidentifier():
        raise BadInput(f"{source}: reward_fn_path {given!r}: {name!r} is not a function's name", hint=_FORMS)
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
    module = next((file for file in tried if file.is_file()), None)
    if module is None:
        raise BadInput(f"{source}: reward_fn_path: no module '{place}': {tried[1]} does not exist", hint=_FORMS)
    file = inputs.resolve(str(module), "reward_fn_path", shared.root, source)
    return RewardFunction(path=PACKAGE + place, file=str(file), name=name)


def check_source(reward: RewardFunction, source: str) -> None:
    """Check from the source alone that the file parses, has the function, and that verl can call it.

    What only a run can show (decorators, names that are imported or made at run time) passes.

    Raises BadInput with file and line.
    """
    origin = f"{source}: reward_fn_path: {reward.file}"
    tree = _parse(reward.file, origin)
    definitions = [node for name, node in _bound(tree) if name == reward.name]
    if not definitions and not _names_made_at_run_time(tree):
        functions = [name for name, node in _bound(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        raise BadInput(
            f"{origin} has no function '{reward.name}'{did_you_mean(reward.name, functions)}",
            hint=f"its functions: {', '.join(functions) or 'none'}; choose one with {Path(reward.file).name}:function",
        )
    if reward.one_by_one and len(definitions) == 1:
        _check_call(definitions[0], reward, origin)


def _parse(file: str, origin: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape is reported when the function is run
            return ast.parse(Path(file).read_bytes(), file)
    except SyntaxError as error:
        raise BadInput(f"{origin}:{error.lineno or 1}: {type(error).__name__}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"{origin}: cannot be parsed: {error}") from None
    except OSError as error:
        raise BadInput(f"{origin}: cannot be read: {error.strerror}") from None


def _check_call(node: ast.AST, reward: RewardFunction, origin: str) -> None:
    """Raise BadInput when the signature of a plain function cannot take verl's arguments."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.decorator_list:
        return
    try:
        _signature(node.args).bind(**dict.fromkeys([*CALLED_WITH, *reward.kwargs]))
    except TypeError as error:
        raise BadInput(
            f"{origin}:{node.lineno}: {reward.name}({ast.unparse(node.args)}) cannot take verl's call: {error}",
            hint=f"def {reward.name}({', '.join([*CALLED_WITH[:3], 'extra_info=None', *reward.kwargs])}, **kwargs)",
        ) from None


def _module_level(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every node in the module's own scope."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _module_level(child)


def _bound(tree: ast.Module) -> list[tuple[str, ast.stmt | ast.alias | ast.Name]]:
    """Return the names that the module binds, each with the node that binds it."""
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
    """Tell whether the module may have names that its text does not show."""
    makers = {"globals", "vars", "exec", "setattr"}
    return any(name in ("*", "__getattr__") for name, _ in _bound(tree)) or any(
        isinstance(node, ast.Global) or (isinstance(node, ast.Name) and node.id in makers) for node in ast.walk(tree)
    )


def _signature(args: ast.arguments) -> inspect.Signature:
    import inspect  # here, because only a reward function needs it at a submission

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


def defined_at(reward: RewardFunction) -> str:
    """Return ``file:line`` of the function, or its file where the source does not show the line."""
    try:
        lines = [node.lineno for name, node in _bound(ast.parse(Path(reward.file).read_bytes())) if name == reward.name]
    except (OSError, SyntaxError, ValueError):
        lines = []
    return f"{reward.file}:{lines[-1]}" if lines else reward.file
