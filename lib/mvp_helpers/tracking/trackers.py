"""What each tracker needs: its package, its key, and the variables that say where a run is kept and which run goes on.

A tracker is a logger of verl. Source: verl/utils/tracking.py, and the documentation of each tracker.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ..base import documents
from ..base.documents import Damaged
from ..base.errors import BadInput
from ..base.paths import JobFolder

Name = Literal["tensorboard", "wandb", "mlflow", "swanlab", "trackio"]
RUN_ID = "MLFLOW_RUN_ID"


class Tracked(msgspec.Struct, frozen=True, kw_only=True):
    """The tracker of a job, in its plan. ``run`` is the run that all attempts of a chain share: the id of the first."""

    tracker: Name
    run: str


class Tracker(msgspec.Struct, frozen=True, kw_only=True):
    """One tracker. Its variables may contain ``{folder}``, ``{run}`` and ``{outputs}`` (of the shared root)."""

    package: str
    variables: dict[str, str]
    key: str = ""
    offline: tuple[str, tuple[str, ...]] = ("", ())
    """A variable, and its values with which no key is needed."""


TRACKERS: dict[Name, Tracker] = {
    "tensorboard": Tracker(package="tensorboard", variables={"TENSORBOARD_DIR": "{folder}"}),
    "wandb": Tracker(
        package="wandb",
        key="WANDB_API_KEY",
        offline=("WANDB_MODE", ("offline", "dryrun", "disabled")),
        variables={"WANDB_DIR": "{folder}", "WANDB_RUN_ID": "{run}", "WANDB_RESUME": "allow"},
    ),
    # One store for all jobs: a run cannot go on in another. MLflow 3 refuses a store of files unless it is asked for one.
    "mlflow": Tracker(
        package="mlflow",
        variables={"MLFLOW_TRACKING_URI": "file://{outputs}/mlflow", "MLFLOW_ALLOW_FILE_STORE": "true"},
    ),
    "swanlab": Tracker(
        package="swanlab",
        key="SWANLAB_API_KEY",
        offline=("SWANLAB_MODE", ("local", "offline", "disabled")),
        variables={"SWANLAB_LOG_DIR": "{folder}", "SWANLAB_RUN_ID": "{run}", "SWANLAB_RESUME": "allow"},
    ),
    "trackio": Tracker(package="trackio", variables={"TRACKIO_DIR": "{folder}"}),
}


def check(name: Name, secrets: Sequence[str], env_vars: Mapping[str, str], installed: Callable[[str], bool], source: str) -> None:
    """Raise BadInput when the tracker's package is not installed, or its key is not among the secrets."""
    tracker = TRACKERS[name]
    if not installed(tracker.package):
        raise BadInput(
            f"{source}: tracking: {name}: the package {tracker.package} is not installed in the hosts' Python",
            hint=f"pip install {tracker.package} there, or leave tracking out",
        )
    variable, values = tracker.offline
    if tracker.key and tracker.key not in secrets and env_vars.get(variable) not in values:
        raise BadInput(
            f"{source}: tracking: {name}: its key {tracker.key} is not among secrets",
            hint=f'"secrets": ["{tracker.key}"], or without a key "env_vars": {{"{variable}": "offline"}}',
        )


def variables(tracked: Tracked, folder: JobFolder, continues: JobFolder | None) -> dict[str, str]:
    """Return the variables with which a job's trainer keeps its run. ``continues`` is the job whose run goes on."""
    values = {"folder": folder.tracking, "run": tracked.run, "outputs": folder.shared.root / "outputs"}
    made = {name: text.format(**values) for name, text in TRACKERS[tracked.tracker].variables.items()}
    if tracked.tracker == "mlflow" and continues and (run := recorded_run(continues)):
        made[RUN_ID] = run
    return made


def recorded_run(folder: JobFolder) -> str:
    """Return the id that MLflow gave to a job's run, as its trainer recorded it; "" when it did not."""
    with contextlib.suppress(OSError, Damaged):
        value = documents.read_json(Path(folder.control) / "tracking.json")
        if isinstance(value, dict) and isinstance(value.get("mlflow"), str):
            return str(value["mlflow"])
    return ""
