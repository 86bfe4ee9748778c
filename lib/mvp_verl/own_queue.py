"""Gives each job a TransferQueue of its own.

The library names its actors in one namespace of the whole Ray cluster, so that of two jobs which train at the same time the
second one joins the queue of the first: both train on each other's samples, fail or wait for ever. Without a namespace a name
belongs to the Ray job alone.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .imports import after_import

PLACES = {
    "transfer_queue.interface": "TransferQueueController",
    "transfer_queue.storage.clients.ray_storage_client": "RayObjectRefStorage",
}
"""The modules that name an actor, and the actor's class."""


def arm() -> None:
    """Take the namespace from each module's calls of Ray, as the last part of its import."""
    for module in PLACES:
        after_import(module, _without_namespace)


def _without_namespace(module: ModuleType) -> None:
    for name in ("ray", PLACES[module.__name__]):
        if hasattr(module, name):  # another version may do without
            setattr(module, name, _InJob(getattr(module, name)))


class _InJob:
    """Ray, or an actor's class, whose calls that name an actor mean this Ray job's namespace."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        if name == "_wrapped":  # of a copy that is not filled yet, as pickle makes it
            raise AttributeError(name)
        return getattr(self._wrapped, name)

    def get_actor(self, name: str, namespace: str | None = None) -> Any:
        return self._wrapped.get_actor(name)

    def options(self, **options: Any) -> Any:
        return self._wrapped.options(**{key: value for key, value in options.items() if key != "namespace"})
