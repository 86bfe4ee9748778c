"""The plugin's errors. They are not ImportErrors: verl ignores those as missing optional parts."""

from __future__ import annotations


class PluginError(RuntimeError):
    """The plugin cannot be used here; the message says why and what to do."""


class PatchError(PluginError):
    """verl differs from what a patch expects; training would run half-patched."""
