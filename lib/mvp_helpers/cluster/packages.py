"""The packages that the helper needs on a host, and how to add those that are missing. Imports only the standard library."""

from __future__ import annotations

import importlib.util
import os
import re
import sys

from ..base.errors import Blocked
from ..base.project import PROJECT

INSTALL = "./scripts/12_install_py_deps.sh"
VENV = PROJECT / ".venv"
MODULES = {
    "click": "click",
    "msgspec": "msgspec",
    "cryptography": "cryptography",
    "backports.zstd": "backports.zstd",
    "PyYAML": "yaml",
}
"""The module that each package of ``dependencies`` in pyproject.toml provides."""
OPTIONAL = {"backports.zstd": "53 makes .tar.gz archives, not .tar.zst", "cryptography": "jobs are not sealed"}
"""The effect of their absence; without any other package the helper does not start."""


def requirements() -> dict[str, str]:
    """Return the helper's packages with their pinned versions, as pip takes them, by name."""
    _, _, rest = (PROJECT / "pyproject.toml").read_text().partition("\ndependencies = [")
    pins = re.findall(r'"([^"]+)"', re.sub(r"#.*", "", rest.partition("\n]")[0]))
    return {pin.partition("==")[0]: pin for pin in pins}


def missing() -> list[str]:
    """Return the names of the helper's packages that this Python lacks."""
    return [name for name, module in MODULES.items() if not _importable(module)]


def how_to_add(names: list[str]) -> str:
    """Return the command that adds packages to this Python, for a person on its host."""
    if _is_ours():
        return INSTALL
    pins = requirements()
    return f"{sys.executable} -m pip install {' '.join(pins[name] for name in names)}"


def lacking(module: str) -> Blocked:
    """Return the error for a module that cannot be imported: on the launching machine script 12 adds it, on a host its owner."""
    what = f"{sys.executable} has no module '{module}'"
    names = [name for name in missing() if name not in OPTIONAL]
    if not (host := os.environ.get("MVP_HOST", "")) and not VENV.exists():
        return Blocked(f"the Python packages of this project are not installed: {what}", hint=INSTALL)
    if not host or _is_ours():
        return Blocked(what, hint=INSTALL)
    if not names:
        return Blocked(f"{host}: {what}", hint="./scripts/00_prereq_check.sh")
    what = f"{host}: {sys.executable} lacks {', '.join(names)}, which the helper needs"
    return Blocked(what, hint=f"on {host}, or in its image: {how_to_add(names)}")


def _is_ours() -> bool:
    return sys.prefix == str(VENV)


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # the package above it is missing
        return False
