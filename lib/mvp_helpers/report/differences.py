"""What differs between two jobs before any metric: JobSpec, resolved config, code, packages, inputs, hosts, image.

Only real differences: what merely names the job itself is equal.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base import documents, files
from ..base.documents import Damaged, read_yaml
from ..base.errors import BadInput
from ..base.paths import JobFolder
from ..prepare import snapshot
from ..trainers import hydra
from .facts import Run

MOST_DIFF_LINES = 600
MOST_DIFF_FILES = 40
MOST_SOURCE = 1 << 20
"""Bytes of a source file that is compared line by line."""
ABSENT = "–"


@dataclass(frozen=True)
class Difference:
    """One value that differs; ``subject`` is the kind of thing, ``name`` which of it."""

    subject: str
    name: str
    a: str
    b: str


@dataclass
class Found:
    """All differences of two jobs."""

    differences: list[Difference] = field(default_factory=list)
    compared: dict[str, int] = field(default_factory=dict)
    """How many values of each subject were compared."""
    not_compared: dict[str, str] = field(default_factory=dict)
    """Subjects that one of the jobs does not record, and why."""
    code_diff: list[str] = field(default_factory=list)

    def add(self, subject: str, a: Mapping[str, Any] | str, b: Mapping[str, Any] | str) -> None:
        """Compare two mappings of plain values; a text in place of one explains why it is missing."""
        missing = [f"{name}: {side}" for name, side in (("A", a), ("B", b)) if isinstance(side, str)]
        if isinstance(a, str) or isinstance(b, str):
            self.not_compared[subject] = "; ".join(missing)
            return
        names = sorted(key for key in a.keys() | b.keys() if key)
        if not names:
            self.not_compared[subject] = "neither records any"
            return
        self.compared[subject] = len(names)
        for name in names:
            if name not in a or name not in b or a[name] != b[name]:
                self.differences.append(
                    Difference(subject, name, _shown(a[name]) if name in a else ABSENT, _shown(b[name]) if name in b else ABSENT)
                )

    def in_words(self) -> str:
        """Return what was compared, and what could not be, for a sentence that no difference was found."""
        compared = ", ".join(f"{subject} ({count})" for subject, count in self.compared.items())
        missing = "; ".join(f"{subject} ({why})" for subject, why in self.not_compared.items())
        return f"compared: {compared or 'nothing'}" + (f"; not compared: {missing}" if missing else "")


def find(a: Run, b: Run) -> Found:
    """Return all differences; a value that only names its own job's folder or id is equal to the other's."""
    found = Found()
    found.add("JobSpec", job_spec(a), job_spec(b))
    found.add("resolved config", _composed(a), _composed(b))
    found.add("plan", _plan(a), _plan(b))
    known = [run.provenance() for run in (a, b)]
    for subject, keys in (
        ("code", ("code",)),
        ("data and model", ("inputs",)),
        ("reward function", ("reward_fn",)),
        ("hosts", ("hosts",)),
        ("image", ("image", "image_id")),
        ("versions", ("ray", "python", "toolkit")),
    ):
        sides = [
            _own({key: facts[key] for key in keys if facts.get(key) is not None}, run)
            if facts
            else "provenance.json is missing or damaged"
            for run, facts in zip((a, b), known, strict=True)
        ]
        found.add(subject, _without_times(sides[0]), _without_times(sides[1]))
    found.add("packages", a.packages(), b.packages())
    _code(found, a, b)
    return found


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of plain data by dotted key; a list is one leaf unless it has mappings."""
    if isinstance(value, dict) and value:
        return {key: leaf for name, inner in value.items() for key, leaf in flat(inner, f"{prefix}{name}.").items()}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return {key: leaf for at, inner in enumerate(value) for key, leaf in flat(inner, f"{prefix}{at}.").items()}
    return {prefix.rstrip("."): value}


def _own(value: Any, run: Run) -> dict[str, Any]:
    """Return flat data in which the job's own folder and id have names that every job shares."""

    def shared(leaf: Any) -> Any:
        if isinstance(leaf, list):
            return [shared(item) for item in leaf]
        if not isinstance(leaf, str):
            return leaf
        return leaf.replace(str(run.folder.path), "<job folder>").replace(run.id, "<id>")

    return {key: shared(leaf) for key, leaf in flat(value).items()}


def _without_times(side: dict[str, Any] | str) -> dict[str, Any] | str:
    """Leave out what is new in each start of a cluster, and says nothing about what ran."""
    return (
        side if isinstance(side, str) else {key: leaf for key, leaf in side.items() if not key.endswith(("node_id", "made_at"))}
    )


def job_spec(run: Run) -> dict[str, Any] | str:
    """Return the JobSpec, with placeholders for its own id and folder; the reason as a text if it cannot be read."""
    for suffix in (".json", ".yaml"):
        path = run.folder.job_spec(suffix)
        if path.is_file():
            try:
                return _own(documents.parse(files.read(path, documents.MOST_YAML_BYTES), path.name), run)
            except (BadInput, OSError) as error:
                return str(error)
    return "no JobSpec in config/"


def _composed(run: Run) -> dict[str, Any] | str:
    """Return Hydra's own record of the whole config, defaults included."""
    path = hydra.overrides_record(run.folder.logs / "hydra").with_name("config.yaml")
    return _yaml(path, run)


def _plan(run: Run) -> dict[str, Any] | str:
    """Return the plan; its argv as single arguments, so that one override is one difference."""
    plan = _yaml(run.folder.resolved, run)
    if isinstance(plan, str):
        return plan
    argv = plan.pop("argv", None)
    for text in argv if isinstance(argv, list) else ():
        key, _, value = str(text).partition("=")
        plan[f"argv.{key}"] = value
    return plan


def _yaml(path: Path, run: Run) -> dict[str, Any] | str:
    try:
        return _own(read_yaml(path), run)
    except FileNotFoundError:
        return f"no {path.name}"
    except (OSError, Damaged) as error:
        return f"{path.name}: {error}"


def _code(found: Found, a: Run, b: Run) -> None:
    """Compare the files of both code snapshots, and show how their text differs."""
    places = [run.resolved().get("code_path") for run in (a, b)]
    manifests: list[Any] = []
    for place in places:
        try:
            manifests.append({name: facts["sha256"] for name, facts in snapshot.read_manifest(Path(str(place)))["files"].items()})
        except (BadInput, KeyError, TypeError, AttributeError):
            manifests.append("its code snapshot is gone" if place else "no code_path")
    before = len(found.differences)
    found.add("code files", *manifests)
    for each in found.differences[before:][:MOST_DIFF_FILES]:
        left, right = (_source(Path(str(place)) / each.name) for place in places)
        lines = difflib.unified_diff(left, right, f"A/{each.name}", f"B/{each.name}", lineterm="")
        found.code_diff += lines
        if len(found.code_diff) > MOST_DIFF_LINES:
            del found.code_diff[MOST_DIFF_LINES:]
            found.code_diff.append("… the difference goes on")
            return


def _source(path: Path) -> list[str]:
    try:
        if path.stat().st_size > MOST_SOURCE:
            return [f"({path.stat().st_size} bytes)"]
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def folders_differ(a: JobFolder, b: JobFolder) -> None:
    """Raise BadInput when both are one job."""
    if a.path == b.path:
        raise BadInput(f"'{a.submission_id}' is compared with itself", hint="two different ids")
