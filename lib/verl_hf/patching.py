"""A patch: a workaround for a place of verl 0.9.1 that has no option, registry or override, with its check.

A patch is applied right after verl imports the module it concerns. It first checks that verl still has what it works around
(symbol, parameters, a distinctive piece of source); if not, it raises PatchError and that import fails, in the driver as in Ray
workers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mvp_verl.imports import after_import

from .errors import PatchError


@dataclass(frozen=True)
class Patch:
    """One workaround: the code it expects in verl, and the change it makes to the module after checking that."""

    name: str
    module: str
    symbol: str
    parameters: tuple[str, ...]
    fragment: str
    where: str
    apply: Callable[[ModuleType], None]

    def __call__(self, module: ModuleType) -> None:
        """Check ``module``, then patch it. Raises PatchError and leaves the module as it was."""
        self.check(module)
        self.apply(module)

    def check(self, module: ModuleType) -> None:
        """Raise PatchError if verl no longer has the code that this patch works around."""
        symbol: Any = module
        for part in self.symbol.split("."):
            symbol = getattr(symbol, part, None)
            if symbol is None:
                raise self._error("is gone")
        try:
            parameters = tuple(inspect.signature(symbol).parameters)
            source = inspect.getsource(symbol)
        except (TypeError, ValueError, OSError) as error:
            raise self._error(f"cannot be inspected ({error})") from error
        missing = [name for name in self.parameters if name not in parameters]
        if missing:
            raise self._error(f"has no parameter {', '.join(missing)} (it takes {', '.join(parameters)})")
        if self.fragment not in source:
            raise self._error(f"no longer contains {self.fragment!r}")

    def _error(self, what: str) -> PatchError:
        plugin, _, place = self.apply.__module__.partition(".")
        return PatchError(
            f"{plugin}, patch '{self.name}': in verl {_verl_version()}, {self.module}.{self.symbol} {what}. "
            f"The patch works around {self.where} of verl 0.9.1. "
            f"Use verl 0.9.1 with this plugin, or compare that place and change or drop the patch in {plugin}/{place}.py."
        )


def _verl_version() -> str:
    import verl

    return str(getattr(verl, "__version__", "(unknown version)"))


def set_default(function: Any, name: str, value: object) -> None:
    """Change a parameter's default on the function object, so that it also applies to existing references."""
    positional = [p for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    function.__defaults__ = tuple(value if p.name == name else p.default for p in positional if p.default is not p.empty)


def arm(patches: Iterable[Patch]) -> None:
    """Apply each patch when verl imports its module, or now if that is imported already."""
    for patch in patches:
        after_import(patch.module, patch)
