"""A baseline: what some equal runs reached, as the median and the spread of each gate's value; with hardware and versions."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..base import files
from ..base.documents import Damaged, read_as
from ..base.errors import BadInput, did_you_mean
from ..base.paths import SharedRoot
from ..base.project import PROJECT
from ..base.times import now

SHIPPED = PROJECT / "templates" / "gates" / "baselines"
FEWEST = 3
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One gate's value: ``spread`` is the largest distance of a run from the median."""

    median: float
    spread: float
    values: list[float]


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """One baseline; ``hardware``, ``versions`` and ``task`` (see ``of_job``) are those of all its runs."""

    name: str
    workload: str
    recorded_at: str
    jobs: list[str]
    hardware: dict[str, str]
    versions: dict[str, str]
    task: dict[str, str] = {}
    gates: dict[str, Recorded]


def make(
    name: str,
    workload: str,
    jobs: Sequence[str],
    hardware: Mapping[str, str],
    versions: Mapping[str, str],
    values: Mapping[str, Sequence[float]],
    task: Mapping[str, str] | None = None,
) -> Baseline:
    """Return the baseline of at least three runs. Raises BadInput for fewer, or for a name that a file cannot have."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"'{name}' is not a name for a baseline", hint="letters, digits, '.', '_' and '-'")
    if len(jobs) < FEWEST:
        raise BadInput(f"a baseline needs at least {FEWEST} runs, got {len(jobs)}", hint="submit the same JobSpec again")
    recorded = {}
    for gate, given in values.items():
        middle = statistics.median(given)
        recorded[gate] = Recorded(median=middle, spread=max(abs(value - middle) for value in given), values=list(given))
    return Baseline(
        name=name,
        workload=workload,
        recorded_at=now(),
        jobs=list(jobs),
        hardware=dict(hardware),
        versions=dict(versions),
        task=dict(task or {}),
        gates=recorded,
    )


def write(shared: SharedRoot, made: Baseline) -> Path:
    """Write the baseline under the shared root and return its path. Raises OSError."""
    path = shared.baselines / f"{made.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n")
    return path


def default_name(device: str, workload: str) -> str:
    """Return the name of the baseline that jobs of a device and workload are compared with when none is named."""
    return f"{device}-{workload}"


def default(shared: SharedRoot, device: str, workload: str, hardware: Mapping[str, str]) -> Baseline | None:
    """Return the baseline of that name, None when there is none. Raises BadInput for one that cannot be read.

    The project ships one for each kind of hardware, ``<device>-<workload>.<processor>``; that of ``hardware`` comes first.
    """
    name = default_name(device, workload)
    if (shared.baselines / f"{name}.json").is_file():
        return find(shared, name)
    shipped = [find(shared, path.stem) for path in sorted(SHIPPED.glob(f"{name}.*.json"))]
    return min(shipped, key=lambda each: bool(differing(each.hardware, hardware)), default=None)


def of_this_root(shared: SharedRoot, recorded: Baseline) -> bool:
    """Return whether a baseline was recorded in this shared root, not by the project on a machine of its own."""
    return (shared.baselines / f"{recorded.name}.json").is_file()


def together(facts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the hardware of several runs as one: ``a or b`` where they differ."""
    names = dict.fromkeys(name for each in facts for name in each)
    return {name: " or ".join(dict.fromkeys(each.get(name, "unknown") for each in facts)) for name in names}


def differing(recorded: Mapping[str, str], own: Mapping[str, str]) -> str:
    """Return which facts of a baseline and of a job differ, and how; empty when none does."""
    names = [name for name in {**recorded, **own} if recorded.get(name) != own.get(name)]
    return "; ".join(f"{name} {recorded.get(name, 'unknown')}, here {own.get(name, 'unknown')}" for name in names)


def _folders(shared: SharedRoot) -> tuple[Path, Path]:
    """Return where baselines are, those of the shared root first."""
    return shared.baselines, SHIPPED


def find(shared: SharedRoot, name: str) -> Baseline:
    """Return a baseline of the shared root, or one that the project ships. Raises BadInput."""
    for folder in _folders(shared):
        try:
            return read_as(folder / f"{name}.json", Baseline)
        except FileNotFoundError:
            continue
        except (OSError, Damaged) as error:
            raise BadInput(f"cannot read {folder / name}.json: {error}") from None
    known = sorted({path.stem for folder in _folders(shared) for path in folder.glob("*.json")})
    raise BadInput(
        f"no baseline is named '{name}'{did_you_mean(name, known)}",
        hint="./scripts/56_report.sh --baseline NAME ID ID ID records one",
    )
