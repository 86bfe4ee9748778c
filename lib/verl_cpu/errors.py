"""What the plugin raises. Neither is an ImportError: verl takes those for optional parts that are missing and goes on."""

from __future__ import annotations


class PluginError(RuntimeError):
    """The plugin cannot be used here; the message says why and what to do."""


class PatchError(PluginError):
    """verl is not what a patch expects: going on would train with something half-patched."""
