"""The rooms of ``lib/mvp_helpers``: imports go one way, and no room grows into a heap."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mvp_helpers.base.project import PROJECT

PACKAGE = PROJECT / "lib" / "mvp_helpers"
ROOMS = (
    "base",
    "masking",
    "trainers",
    "cluster",
    "prepare",
    "record",
    "seal",
    "usage",
    "tracking",
    "plan",
    "learning",
    "log_text",
    "success",
    "diagnosis",
    "gates",
    "job",
    "retry",
    "keep",
    "samples",
    "proof",
    "report",
    "bisect",
    "e2e",
    "verbs",
    "cli",
    "isolated",
    "worker_setup",
    "__main__",
)
"""Each may import those before it, and itself."""
MOST_MODULES = 15


def room_of(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


def imported(file: Path) -> list[tuple[int, str]]:
    """Line and room of every import in ``file`` of another module of the package."""
    place = file.relative_to(PACKAGE).parts[:-1]
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = place[: len(place) - node.level + 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found += [(node.lineno, (*base, *name.split("."))[0]) for name in names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE.name:
            found.append((node.lineno, (node.module or "").split(".")[1]))
    return found


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_module_imports_only_rooms_below_its_own(file: Path) -> None:
    own = room_of(file.relative_to(PACKAGE).parts)
    if own == "__init__":
        assert imported(file) == []
        return
    for line, room in imported(file):
        if room != "__version__":
            assert ROOMS.index(room) <= ROOMS.index(own), f"{file.relative_to(PACKAGE)}:{line}: {own} imports {room}, above it"


def test_every_folder_is_a_room_and_none_is_crowded() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {room for room in ROOMS if room not in ("cli", "isolated", "worker_setup", "__main__")}
    for folder in {file.parent for file in PACKAGE.rglob("*/*.py")}:
        modules = sorted(file.name for file in folder.glob("*.py") if file.name != "__init__.py")
        assert len(modules) <= MOST_MODULES, f"{folder.name} has {len(modules)} modules: {', '.join(modules)}"
