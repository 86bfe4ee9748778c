"""Lets a resumed attempt go on with the MLflow run of the attempt before it, records which run this one has, and masks secrets.

verl hands every tracker its whole config, in which ``${oc.env:NAME}`` is replaced by the value of a secret.

MLflow gives a run its id, which nobody knows before; and it refuses to log a parameter again with another value, which a resumed
attempt has for its folders: verl would then train without MLflow.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from .imports import after_import


def arm(job_folder: str) -> None:
    """Hook MLflow, and verl's trackers, when they are imported in a process of the job in ``job_folder``."""
    after_import("mlflow", functools.partial(_hook, job_folder))
    after_import("verl.utils.tracking", _mask_config)


def _mask_config(module: ModuleType) -> None:
    begin = module.Tracking.__init__

    @functools.wraps(begin)
    def masked(self: Any, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None) -> None:
        begin(self, project_name, experiment_name, default_backend, _masked(config))

    module.Tracking.__init__ = masked


def _masked(config: Any) -> Any:
    from mvp_helpers.base.mask import Mask
    from mvp_helpers.job import job_secrets
    from mvp_helpers.plan.environment import SECRETS_FILE

    values = job_secrets.read(Path(os.environ[SECRETS_FILE])) if SECRETS_FILE in os.environ else {}
    return Mask(values.values()).value(config) if values else config


def _hook(job_folder: str, mlflow: ModuleType) -> None:
    log_params, start_run = mlflow.log_params, mlflow.start_run

    @functools.wraps(start_run)
    def recorded_start(*args: Any, **kwargs: Any) -> Any:
        run = start_run(*args, **kwargs)
        _record(Path(job_folder), run.info.run_id)
        return run

    @functools.wraps(log_params)
    def new_params(params: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        run = mlflow.active_run()
        known = mlflow.get_run(run.info.run_id).data.params if run and os.environ.get("MLFLOW_RUN_ID") else {}
        return log_params({name: value for name, value in params.items() if name not in known}, *args, **kwargs)

    mlflow.start_run, mlflow.log_params = recorded_start, new_params  # type: ignore[attr-defined]


def _record(folder: Path, run_id: str) -> None:
    from mvp_helpers.base import files

    try:
        (folder / "control").mkdir(exist_ok=True)
        files.write_json(folder / "control" / "tracking.json", {"mlflow": run_id})
    except OSError as error:
        print(f"MVP_WARNING: cannot record the MLflow run: {error}", file=sys.stderr, flush=True)
