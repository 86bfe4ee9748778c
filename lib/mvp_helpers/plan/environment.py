"""The environment variables of a job's processes (``runtime_env.env_vars``), and the names of those that other modules read.

Ray starts the job runner with those of ``of_runner``, which are the toolkit's alone. The runner starts the trainer with those of
``variables``, and Ray gives these to the trainer's Ray workers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..tracking import trackers
from . import workloads

if TYPE_CHECKING:
    from ..cluster.cluster_file import Cluster
    from .jobspec import JobSpec
    from .resolve import Inputs

JOB_FOLDER = "MVP_JOB_FOLDER"
"""Set in every process of a job, wherever Ray starts it: identifies the processes that belong to the job."""
JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""From this variable every ``ray.init()`` of a Ray job takes the job's runtime_env. Source: ray/_private/worker.py."""
SECRETS_FILE = "MVP_SECRETS_FILE"
"""Path of the file with the values of the job's secrets."""
LAST_WORD_S = 20
"""How long the job runner may outlive a trainer that was killed at the end of its stop time: for the last bundle and result."""


def variables(spec: JobSpec, cluster: Cluster, inputs: Inputs) -> dict[str, str]:
    """Merge the environment of the job. Later layers win: workload, device, cluster file, JobSpec.

    PYTHONPATH begins with the code snapshot and has no empty entry.
    """
    layers = {**inputs.workload.env_vars, **inputs.device.env_vars, **cluster.env_vars}
    merged = {key: workloads.render(value, inputs.placeholders) for key, value in layers.items()}
    merged = {**merged, **_of_tracker(inputs), **spec.env_vars}
    python_path = _python_path(cluster, inputs, merged.pop("PYTHONPATH", ""))
    return {
        "PYTHONPATH": ":".join(python_path),
        # Without it the working directory (or a driver script's folder) precedes PYTHONPATH and can shadow the snapshot.
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        **merged,
        **_of_every_process(spec, cluster, inputs),
        **(_for_secrets(inputs) if spec.secrets else {}),
    }


def of_runner(spec: JobSpec, cluster: Cluster, inputs: Inputs) -> dict[str, str]:
    """Return the environment of the job runner and of the Ray actor that starts it: nothing that anybody else chose."""
    return {"PYTHONPATH": f"{cluster.tools}/lib", "PYTHONSAFEPATH": "1", **_of_every_process(spec, cluster, inputs)}


def as_ray_sets(env_vars: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` with ``env_vars`` added as Ray does it in its workers: variables in a value are replaced by theirs.

    Source: ``update_envs`` in ray/_private/utils.py.
    """
    merged = dict(environment)
    for name, value in env_vars.items():
        known = re.sub(r"\$(?:(\w+)|\{([^}]*)\})", lambda match: merged.get(match[1] or match[2], match[0]), value)
        merged[name] = re.sub(r"\$\{[A-Z0-9_]+\}", "", known)
    return merged


def _of_tracker(inputs: Inputs) -> dict[str, str]:
    if not inputs.tracked:
        return {}
    continues = inputs.shared.job(inputs.resume.submission_id) if inputs.resume else None
    return trackers.variables(inputs.tracked, inputs.folder, continues)


def _of_every_process(spec: JobSpec, cluster: Cluster, inputs: Inputs) -> dict[str, str]:
    return {
        # Ray signals every process below its own. The job runner shields the trainer from SIGINT, so that the runner's SIGTERM is
        # the only signal it gets: a trainer may take a second one for "exit now, without a checkpoint".
        "RAY_JOB_STOP_SIGNAL": "SIGINT",
        "RAY_JOB_STOP_WAIT_TIME_S": str((spec.stop_wait_s or cluster.stop_wait_s) + LAST_WORD_S),
        JOB_FOLDER: str(inputs.folder.path),
    }


def _python_path(cluster: Cluster, inputs: Inputs, extra: str) -> list[str]:
    code = [str(inputs.code.path)] if inputs.code else []
    user_code = [str(inputs.shared.user_code)] if inputs.reward else []
    return [*code, f"{cluster.tools}/lib", *user_code, *(part for part in extra.split(":") if part and "$" not in part)]


def _for_secrets(inputs: Inputs) -> dict[str, str]:
    # Ray's timeline would record the full text of what a task raises.
    return {SECRETS_FILE: str(inputs.folder.secrets), "RAY_enable_timeline": "0"}
