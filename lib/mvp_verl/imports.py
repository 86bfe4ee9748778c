"""Runs something right after a module is imported: a patch neither imports verl's modules early nor comes too late."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Action = Callable[[ModuleType], None]


def after_import(module: str, action: Action) -> None:
    """Call ``action(module object)`` now if ``module`` is imported, else as the last part of its first import.

    What the action raises ends that import: the module does not stay in ``sys.modules``.
    """
    loaded = sys.modules.get(module)
    if loaded is not None:
        action(loaded)
        return
    finder = next((entry for entry in sys.meta_path if isinstance(entry, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.actions.setdefault(module, []).append(action)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.actions: dict[str, list[Action]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.actions:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)) is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self.actions[fullname])
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, actions: list[Action]) -> None:
        self.loader = loader
        self.actions = actions

    def __getattr__(self, name: str) -> object:
        """Return what only the real loader has: ``python -m`` asks for ``get_code``."""
        return getattr(self.loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module must look as if nobody had stood in between: inspect and importlib.reload ask for its loader.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        for action in self.actions:
            action(module)
