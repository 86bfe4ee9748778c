"""The JobSpec: what to train, read from JSON or YAML. templates/jobspec.schema.json is generated from this module."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from ..base.documents import convert, parse
from ..base.errors import BadInput
from ..record import chain, stall
from ..record.chain import Retry
from ..record.stall import StallLimits
from ..tracking import trackers
from ..trainers import hydra, verl_rollouts
from . import limits

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
RESERVED_ENV = re.compile(
    r"MVP_.*|RAY_(ADDRESS|AUTH.*|JOB_.*)|VERL_FILE_LOGGER_PATH"
    r"|PYTHON(SAFEPATH|HOME|STARTUP|INSPECT|EXECUTABLE|PLATLIBDIR|USERBASE|BREAKPOINT|CASEOK)|PATH|LD_(PRELOAD|AUDIT)|BASH_ENV|ENV"
)
"""Variables that decide what the job runner and Ray's own processes run, or whom they trust."""
LOOKS_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|API_?KEY)(_|$)(?!.*(FILE|PATH|DIR)$)", re.IGNORECASE)
EXPANDED_BY_RAY = re.compile(r"\$(\w+|\{[^}]*\})")

Described = msgspec.Meta


class RayTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Ray dashboard that receives the submission, as the head reaches it."""

    address: (
        Annotated[str, Described(pattern="^https?://", description="Address of the dashboard; default: the cluster file's.")]
        | None
    ) = None


class Resources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the driver requests from Ray; the defaults come from the cluster file and keep it on a worker."""

    entrypoint_resources: Annotated[dict[str, int | float], Described(description='Default {"worker_node": 1}.')] | None = None
    entrypoint_num_cpus: Annotated[int | float | None, Described(description="Default 1.")] = None


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to train. Paths are under the shared root: absolute, ``${SHARED_ROOT}/…``, or relative to it."""

    workload: Annotated[str, Described(description="Name of a file in templates/workloads/: ppo, …")]
    submission_id: (
        Annotated[
            str, Described(pattern=f"{ID_PATTERN}|^$", description='Default, also for "": made of the workload and the time.')
        ]
        | None
    ) = None
    shared_root: Annotated[str, Described(description="Must equal the cluster's; leave it out.")] | None = None
    code_path: Annotated[str, Described(description="verl code snapshot that 31_snapshot_verl_code.sh made.")] | None = None
    model: Annotated[str, Described(description="Model folder in Hugging Face format.")] | None = None
    dataset: Annotated[str, Described(description="Folder with the parquet files of the workload.")] | None = None
    reward_fn_path: (
        Annotated[
            str,
            Described(
                description="Python file with compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs), "
                "file.py:function, or module:function for a module under ${SHARED_ROOT}/user/code, which is on the PYTHONPATH."
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
                description="Id of a job that has ended: this job resumes its last whole checkpoint, in a folder of its own.",
            ),
        ]
        | None
    ) = None
    stop_wait_s: Annotated[
        Annotated[int, Described(ge=3, le=limits.LONGEST_WAIT_S)] | None,
        Described(description="Seconds the trainer has to save and end at a stop; default: the cluster file's."),
    ] = None
    env_vars: Annotated[dict[str, str], Described(description="Environment variables of the driver and its Ray workers.")] = {}
    secrets: Annotated[
        list[str],
        Described(
            description="Names of environment variables whose values must stay hidden: taken from the submitter's environment "
            "or from ${SHARED_ROOT}/user/secrets/NAME (mode 0600)."
        ),
    ] = []
    save_by: (
        Annotated[
            int | float | str, Described(description="Save and end before this moment: UTC (2026-01-31T23:59) or Unix time.")
        ]
        | None
    ) = None
    stall: Annotated[StallLimits, Described(description="When a job that makes no step is stalled, and what happens then.")] = (
        StallLimits()
    )
    tracking: Annotated[
        trackers.Name | None,
        Described(description="Where curves are also shown: adds this logger, its folder and its run, which a resume continues."),
    ] = None
    keep_rollouts: Annotated[
        int,
        Described(
            ge=0,
            le=verl_rollouts.MOST_STEPS,
            description="Of how many last steps the prompts, answers and scores are kept, for 58_samples.sh; 0: of none.",
        ),
    ] = verl_rollouts.DEFAULT_STEPS
    retry: Annotated[
        Retry | None, Described(description="Further attempts after an end that is not the job's own fault; default: none.")
    ] = None


def load(data: bytes, source: str) -> JobSpec:
    """Read a JobSpec from the bytes of ``source``, a file name that ends in .json or .yaml.

    Raises:
        BadInput: syntax error with line and column, unknown field, wrong type, bad id, bad environment variable.
    """
    if not data.strip():
        raise BadInput(f"{source} is empty", hint="start from templates/ppo.json")
    document = parse(data, source, limits.DOCUMENT, exponents="trainer_overrides")
    if b"\\ud" in data.lower():
        _check_surrogates(document, source)
    _drop_defaults(document)
    if isinstance(given := document.get("submission_id"), str) and not re.fullmatch(ID_PATTERN.strip("^$"), given):
        raise BadInput(
            f"{source}: submission_id {_short(given)} is not usable as a folder and job name",
            hint="letters, digits, '.', '_' and '-', starting with a letter or digit, 63 at most",
        )
    spec = convert(document, JobSpec, source)
    if spec.resume_from and not re.fullmatch(ID_PATTERN.strip("^$"), spec.resume_from):  # "$" also takes a line break
        raise BadInput(
            f"{source}: resume_from {_short(spec.resume_from)} is not a job's id", hint="./scripts/50_status.sh lists the jobs"
        )
    for field in ("shared_root", "code_path", "model", "dataset", "reward_fn_path"):
        limits.check_path(field, getattr(spec, field) or "", source)
    _check_resources(spec.resources, source)
    stall.check(spec.stall, source)
    chain.check(spec.retry, spec.submission_id, source)
    for name, value in spec.env_vars.items():
        _check_env(name, value, source)
    for at, name in enumerate(spec.secrets):
        _check_secret(at, name, spec, source)
    return spec


def with_overrides(data: bytes, source: str, overrides: Sequence[str]) -> bytes:
    """Return the bytes of a JobSpec with ``key=value`` texts added to its trainer overrides, which become a list.

    Without texts the bytes are unchanged. Raises BadInput as ``load``.
    """
    if not overrides:
        return data
    own = hydra.texts(load(data, source).trainer_overrides, f"{source}: trainer_overrides")
    return _written(parse(data, source, limits.DOCUMENT) | {"trainer_overrides": [*own, *overrides]}, source)


def with_fields(data: bytes, source: str, fields: Mapping[str, str]) -> bytes:
    """Return the bytes of a JobSpec with these fields in place of its own. Raises BadInput as ``load``."""
    load(data, source)
    return _written(parse(data, source, limits.DOCUMENT, exponents="trainer_overrides") | dict(fields), source)


def _written(document: dict[str, Any], source: str) -> bytes:
    if source.endswith(".json"):
        return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    import yaml

    return str(yaml.dump(document, sort_keys=False, allow_unicode=True)).encode()


def _drop_defaults(document: dict[str, Any]) -> None:
    """Remove an empty ``submission_id``, and ``RAY_ADDRESS=auto``: this cluster, as for every job."""
    if document.get("submission_id") == "":
        del document["submission_id"]
    env_vars = document.get("env_vars")
    if isinstance(env_vars, dict) and env_vars.get("RAY_ADDRESS") == "auto":
        document["env_vars"] = {name: value for name, value in env_vars.items() if name != "RAY_ADDRESS"}


def _check_surrogates(document: dict[str, Any], source: str) -> None:
    """Raise BadInput for half of a surrogate pair (such as ``\\ud800``), which no file, argv or environment can contain."""
    try:
        json.dumps(document, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{source}: the escape \\u{ord(error.object[error.start]):04x} is not a character") from None
    except (ValueError, RecursionError):
        pass  # a YAML alias that contains itself, which is reported where it is used


def _short(value: str) -> str:
    return repr(value if len(value) <= 70 else value[:67] + "…")


def _check_resources(resources: Resources, source: str) -> None:
    amounts = {f"entrypoint_resources.{name}": amount for name, amount in (resources.entrypoint_resources or {}).items()}
    for name, amount in {"entrypoint_num_cpus": resources.entrypoint_num_cpus or 0, **amounts}.items():
        limits.check_amount(name, amount, source)


def _check_env(name: str, value: str, source: str) -> None:
    if not ENV_NAME.fullmatch(name):
        raise BadInput(
            f"{source}: env_vars: {_short(name)} is not a name for an environment variable", hint="letters, digits and '_'"
        )
    if RESERVED_ENV.fullmatch(name):
        raise BadInput(
            f"{source}: env_vars.{name} is set by the toolkit and cannot be changed: it changes how the job itself runs",
            hint="leave it out; env_vars of the cluster file are for all jobs",
        )
    if LOOKS_SECRET.search(name) and len(value) >= 8:  # shorter: a number or a switch
        raise BadInput(
            f"{source}: env_vars.{name} looks like a secret, and everyone with access to Ray can read env_vars",
            hint=f'"secrets": ["{name}"] takes the value from your environment',
        )
    if "\0" in value:
        raise BadInput(f"{source}: env_vars.{name} contains a NUL byte, which an environment variable cannot contain")
    if name != "PYTHONPATH" and (variable := EXPANDED_BY_RAY.search(value)):
        raise BadInput(
            f"{source}: env_vars.{name}: Ray would replace '{variable[0]}' by a variable of the worker's own environment",
            hint="write the value itself",
        )


def _check_secret(at: int, name: str, spec: JobSpec, source: str) -> None:
    if not ENV_NAME.fullmatch(name):  # not shown: it may be a value
        raise BadInput(f"{source}: secrets[{at}] is not a name for an environment variable", hint="names only, never a value")
    if RESERVED_ENV.fullmatch(name) or name.startswith(("RAY_", "PYTHON", "LD_")):
        raise BadInput(f"{source}: secrets: {name} changes how the job itself runs and cannot be a secret")
    if name in spec.env_vars:
        raise BadInput(f"{source}: {name} is in env_vars and in secrets", hint="keep it in secrets only")
    if spec.secrets.count(name) > 1:
        raise BadInput(f"{source}: secrets: duplicate name {name}")


def schema_json() -> str:
    """Return the JSON Schema of a JobSpec for editors (templates/jobspec.schema.json)."""
    schema = msgspec.json.schema(JobSpec)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "JobSpec", **schema}, indent=2) + "\n"
