"""The lock files: whole for every Python that is supported, with hashes; and the licences of what they install."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections import Counter

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mvp_helpers.base.project import PROJECT

PYTHONS = ("3.10", "3.11", "3.12")
HELPER, DEFAULT, DEV, CPU, CUDA = (f"requirements{kind}.lock" for kind in ("-helper", "", "-dev", "-cpu", "-cuda"))
SETS = {"helper": (HELPER,), "CPU": (DEFAULT, CPU), "CUDA": (DEFAULT, CUDA), "dev": (DEFAULT, CPU, DEV)}
"""What 12_install_py_deps.sh installs together."""
OVERRIDDEN = {
    canonicalize_name(each.name): each.specifier
    for line in re.findall(r"^override-dependencies = (\[.*\])$", (PROJECT / "pyproject.toml").read_text(), re.MULTILINE)
    for each in map(Requirement, json.loads(line))
}
"""What pyproject.toml puts in the place of every package's own requirement: not tomllib, which Python 3.10 lacks."""
HASHED = re.compile(r"([^#\s][^\\]*?)((?: *\\\n +--hash=sha256:[0-9a-f]{64})+)\n")


def requirements(lock: str) -> list[Requirement]:
    """Return what a lock file names; fails where something has no hash."""
    text = re.sub(r"^ *#.*\n", "", (PROJECT / lock).read_text(), flags=re.MULTILINE)
    found = list(HASHED.finditer(text))
    assert "".join(match[0] for match in found) == text, f"{lock} has requirements without hashes"
    return [Requirement(match[1]) for match in found]


def environment(python: str, extra: str = "") -> dict[str, str]:
    return {**default_environment(), "python_version": python, "python_full_version": f"{python}.9", "extra": extra}


def versions(locks: tuple[str, ...], python: str) -> dict[str, str]:
    """Return the version of each package that these lock files install for a Python; fails when one has two."""
    chosen = {
        (canonicalize_name(each.name), str(each.specifier))
        for lock in locks
        for each in requirements(lock)
        if not each.marker or each.marker.evaluate(environment(python))
    }
    assert [name for name, count in Counter(name for name, _ in chosen).items() if count > 1] == [], f"Python {python}"
    assert all(re.fullmatch(r"==[^*,]+", specifier) for _, specifier in chosen)
    return {name: specifier.removeprefix("==") for name, specifier in chosen}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("locks", SETS.values(), ids=SETS)
def test_a_set_of_locks_has_one_hashed_version_of_everything_that_its_packages_require(
    locks: tuple[str, ...], python: str
) -> None:
    pinned, missing = versions(locks, python), []
    for name, version in pinned.items():
        try:
            metadata = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of another Python or machine: make locks resolved it
        if metadata.version.partition("+")[0] != version.partition("+")[0]:
            continue
        for requirement in map(Requirement, metadata.requires or []):
            if requirement.marker and not requirement.marker.evaluate(environment(python)):
                continue
            there = pinned.get(canonicalize_name(requirement.name))
            wanted = OVERRIDDEN.get(canonicalize_name(requirement.name), requirement.specifier)
            if not there or not wanted.contains(there, prereleases=True):
                missing.append(f"{name} {version} needs {requirement}, there is {there}")
    assert missing == []


def test_what_pyproject_pins_is_what_the_locks_install() -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    for python in PYTHONS:
        pinned = versions(SETS["dev"], python)
        for requirement in map(Requirement, wanted):
            if not requirement.marker or requirement.marker.evaluate(environment(python)):
                assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)], prereleases=True), requirement


def licences(page: str) -> dict[str, str]:
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    return {name.strip("`"): licence for name, licence in rows}


def test_every_package_that_is_installed_is_listed_with_its_licence() -> None:
    listed = licences((PROJECT / "docs/licences.md").read_text())
    installed = {canonicalize_name(each.name) for lock in (HELPER, DEFAULT, DEV, CPU, CUDA) for each in requirements(lock)}
    assert listed.keys() == installed
    assert all(listed.values())
