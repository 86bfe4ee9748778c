"""The JobSpec: what to train. JSON and YAML alike; templates/jobspec.schema.json is generated from this file."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED_ENV = (
    "RAY_ADDRESS",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_JOB_STOP_SIGNAL",
    "RAY_JOB_STOP_WAIT_TIME_S",
    "PYTHONSAFEPATH",
    "VERL_FILE_LOGGER_PATH",
)
LOOKS_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|API_?KEY)(_|$)(?!.*(FILE|PATH|DIR)$)", re.IGNORECASE)
EXPANDED_BY_RAY = re.compile(r"\$(\w+|\{[^}]*\})")

Described = msgspec.Meta


class RayTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which Ray dashboard takes the submission, as the head sees it."""

    address: (
        Annotated[str, Described(pattern="^https?://", description="Dashboard address; default: the cluster file's.")] | None
    ) = None


class Resources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the driver asks of Ray; the defaults come from the cluster file and keep it on a worker."""

    entrypoint_resources: Annotated[dict[str, int | float], Described(description='Default {"worker_node": 1}.')] | None = None
    entrypoint_num_cpus: Annotated[int | float | None, Described(description="Default 1.")] = None


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to train. Paths are under the shared root: absolute, ``${SHARED_ROOT}/…``, or relative to it."""

    workload: Annotated[str, Described(description="A file in templates/workloads/: ppo, …")]
    submission_id: Annotated[str, Described(pattern=ID_PATTERN, description="Default: made from workload and time.")] | None = (
        None
    )
    shared_root: Annotated[str, Described(description="Must be the cluster's; leave it out.")] | None = None
    code_path: Annotated[str, Described(description="verl code snapshot made by 31_snapshot_verl_code.sh.")] | None = None
    model: Annotated[str, Described(description="Model folder in Hugging Face format.")] | None = None
    dataset: Annotated[str, Described(description="Folder with the workload's parquet files.")] | None = None
    reward_fn_path: (
        Annotated[
            str,
            Described(
                description="Python file with compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs), "
                "file.py:function, or module:function of a module under ${SHARED_ROOT}/user/code (then on the PYTHONPATH)."
            ),
        ]
        | None
    ) = None
    ray: RayTarget = RayTarget()
    resources: Resources = Resources()
    trainer_overrides: Annotated[
        dict[str, Any] | list[str],
        Described(description="Hydra overrides: a mapping (nested or dotted keys), or key=value texts."),
    ] = {}
    resume_from: (
        Annotated[
            str,
            Described(
                pattern=ID_PATTERN,
                description="A job that has ended: this one goes on from its last whole checkpoint, in a folder of its own.",
            ),
        ]
        | None
    ) = None
    stop_wait_s: Annotated[
        Annotated[int, Described(ge=3)] | None,
        Described(description="Seconds the trainer gets from SIGTERM to SIGKILL at a stop; default: the cluster file's."),
    ] = None
    env_vars: Annotated[dict[str, str], Described(description="Environment of the driver and its Ray workers.")] = {}
    secrets: Annotated[
        list[str],
        Described(
            description="Names of environment variables whose values nobody may see: taken from the submitter's environment, or "
            "from ${SHARED_ROOT}/user/secrets/NAME (mode 0600)."
        ),
    ] = []
    save_by: (
        Annotated[
            int | float | str, Described(description="Save and end before this moment: UTC (2026-01-31T23:59) or Unix time.")
        ]
        | None
    ) = None


def load(data: bytes, source: str) -> JobSpec:
    """A JobSpec from the bytes of ``source`` (its ending says JSON or YAML).

    Raises:
        BadInput: syntax error with line and column, unknown field, wrong type, bad id, bad environment variable.
    """
    if not data.strip():
        raise BadInput(f"{source} is empty", hint="start from templates/ppo.json")
    document = parse(data, source)
    if isinstance(found := document.get("submission_id"), str) and not re.fullmatch(ID_PATTERN.strip("^$"), found):
        raise BadInput(
            f"{source}: submission_id {_short(found)} is not usable as a folder and job name",
            hint="letters, digits, '.', '_' and '-', starting with a letter or digit, 63 at most",
        )
    spec = convert(document, JobSpec, source)
    if (spec.resources.entrypoint_num_cpus or 0) < 0 or any(
        amount < 0 for amount in (spec.resources.entrypoint_resources or {}).values()
    ):
        raise BadInput(f"{source}: resources: an amount is negative")
    for name, value in spec.env_vars.items():
        _check_env(name, value, source)
    for at, name in enumerate(spec.secrets):
        _check_secret(at, name, spec, source)
    return spec


def _short(value: str) -> str:
    return repr(value if len(value) <= 70 else value[:67] + "…")


def _check_env(name: str, value: str, source: str) -> None:
    if not ENV_NAME.fullmatch(name):
        raise BadInput(f"{source}: env_vars: {_short(name)} is not a name for an environment variable")
    if name in RESERVED_ENV or name.startswith("MVP_"):
        raise BadInput(f"{source}: env_vars.{name} is set by the toolkit and cannot be changed")
    if LOOKS_SECRET.search(name) and len(value) >= 8:  # shorter: a number or a switch
        raise BadInput(
            f"{source}: env_vars.{name} looks like a secret, and everyone who may ask Ray about the job sees env_vars",
            hint=f'"secrets": ["{name}"] takes the value from your environment',
        )
    if "\0" in value:
        raise BadInput(f"{source}: env_vars.{name} holds a NUL byte, which no environment variable can hold")
    if name != "PYTHONPATH" and (found := EXPANDED_BY_RAY.search(value)):
        raise BadInput(
            f"{source}: env_vars.{name}: Ray would replace '{found[0]}' by a variable of the worker's own environment",
            hint="write the value itself",
        )


def _check_secret(at: int, name: str, spec: JobSpec, source: str) -> None:
    if not ENV_NAME.fullmatch(name):  # and is not shown: it may be a value
        raise BadInput(f"{source}: secrets[{at}] is not a name for an environment variable", hint="names only, never a value")
    if name in RESERVED_ENV or name.startswith(("MVP_", "RAY_", "PYTHON", "LD_")) or name == "PATH":
        raise BadInput(f"{source}: secrets: {name} changes how the job itself runs and cannot be a secret")
    if name in spec.env_vars:
        raise BadInput(f"{source}: {name} stands in env_vars and in secrets", hint="leave it in secrets only")
    if spec.secrets.count(name) > 1:
        raise BadInput(f"{source}: secrets: {name} stands there twice")


def schema_json() -> str:
    """JSON Schema of a JobSpec for editors (templates/jobspec.schema.json)."""
    schema = msgspec.json.schema(JobSpec)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "JobSpec", **schema}, indent=2) + "\n"


def override_texts(overrides: dict[str, Any] | list[str], source: str) -> list[str]:
    """Hydra override texts, one argument each. Strings of a mapping are quoted so that they arrive byte for byte.

    ``${…}`` in a value stays Hydra's interpolation. Raises BadInput for what Hydra cannot take.
    """
    if isinstance(overrides, list):
        for text in overrides:
            if not re.match(r"^(~[^=]+|\+{0,2}[^=\s]+=)", text):
                raise BadInput(f"{source}: trainer_overrides: {_short(text)} is not key=value")
        return list(overrides)
    try:
        return [f"{key}={_hydra_value(value)}" for key, value in _flatten(overrides, "", source)]
    except RecursionError:
        raise BadInput(f"{source}: trainer_overrides holds itself (a YAML alias)") from None


def _flatten(values: dict[str, Any], prefix: str, source: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if not re.fullmatch(r"[^\s=\0]+", key):
            raise BadInput(f"{source}: trainer_overrides: {_short(key)} is not a config key")
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            found += _flatten(value, f"{path}.", source)
        else:
            found.append((path, value))
    return found


def _hydra_value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(_hydra_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_hydra_value(item)}" for key, item in value.items()) + "}"
    text = str(value)
    if re.fullmatch(r"[A-Za-z_/][\w/.@+-]*", text) and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    # Hydra's quoting: a backslash counts only before a quote (or before the closing quote).
    return "'" + re.sub(r"(\\*)('|\Z)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text) + "'"
