"""Secrets of a job: values that reach the trainer and its Ray workers, and appear nowhere else.

Ray's REST API shows everything it knows about a job (argv, ``env_vars``, metadata) to everyone with access. So the submitter
writes the values to a file on the shared root (mode 0600, removed when the job ends) and gives Ray only its path: the job runner
passes them to the trainer as environment variables, and Ray runs ``setup_worker`` first in every worker of the job. The output of
these processes is masked before it is written; hashes of the values remain, for what is collected later (``masking/known.py``).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import BadInput
from ..base.mask import SHORTEST, Mask, forms
from ..base.paths import SharedRoot
from ..base.shared_storage import read_secret
from ..masking import descriptors, known
from ..plan import jobspec, plan
from ..plan.environment import SECRETS_FILE
from ..plan.plan import Plan


def collect(the_plan: Plan, offered: Mapping[str, str], spec: bytes = b"") -> dict[str, str]:
    """Return the values of the plan's secrets: from ``offered`` (the submitter's environment), else from ``user/secrets/NAME``.

    Raises:
        BadInput: a secret is in neither place, its file is open to others, its value is empty, too short to be masked, not text,
            or part of the plan or of ``spec`` (the JobSpec's bytes). No message contains a value.
    """
    values = {name: _value(name, the_plan, offered) for name in the_plan.secrets}
    if values:
        _refuse_exposed(values, the_plan, spec)
    return values


def _value(name: str, the_plan: Plan, offered: Mapping[str, str]) -> str:
    value, place = offered.get(name), "the submitter's environment"
    if value is None:
        path = SharedRoot(Path(the_plan.shared_root)).user_secrets / name
        value, place = read_secret(path), str(path)
    if value is None:
        raise BadInput(
            f"{the_plan.source}: secret {name} is neither in the environment nor in {place}",
            hint=f"export {name}=…, or write it to {place} (chmod 600)",
        )
    origin = f"{the_plan.source}: secrets: the value of {name} in {place}"
    if "\0" in value:
        raise BadInput(f"{origin} contains a NUL byte, which an environment variable cannot contain")
    if len(value.encode(errors="surrogateescape")) < SHORTEST:
        raise BadInput(f"{origin} has fewer than {SHORTEST} bytes, too few to be masked in a log")
    return value


def _refuse_exposed(values: Mapping[str, str], the_plan: Plan, spec: bytes) -> None:
    """Raise BadInput when a value is also part of what everyone may read."""
    public = spec + plan.to_yaml(the_plan).encode(errors="surrogateescape")
    for name, value in values.items():
        if any(form in public for form in forms(value)):
            raise BadInput(
                f"{the_plan.source}: the value of secret {name} is in the JobSpec, the cluster file or the workload",
                hint="remove it there: the trainer finds it in its environment (${oc.env:NAME} in a Hydra override)",
            )


def keep(shared: SharedRoot, path: Path, values: Mapping[str, str]) -> None:
    """Write the values to a file for this user alone: the job's until it ends (``job_folder.write``), or its chain's.

    Their masks, which remain, are kept first.
    """
    if values:
        known.remember(shared, values.values())
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.chmod(0o700)
        files.write_json(path, dict(values), mode=0o600)


def read(path: Path) -> dict[str, str]:
    """Return the values in ``path``; none when it does not exist. Raises OSError when it cannot be read."""
    try:
        values: dict[str, str] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    return values


def pack(data: bytes, source: str) -> bytes:
    """Return a JobSpec's bytes after one line of JSON: the secrets it names that are in this environment.

    Values reach the head this way, through stdin. A mistake in the JobSpec is reported on the head.
    """
    names: list[str] = []
    with contextlib.suppress(BadInput):
        names = jobspec.load(data, source).secrets
    return json.dumps({name: os.environ[name] for name in names if name in os.environ}).encode() + b"\n" + data


def unpack(data: bytes, packed: bool) -> tuple[Mapping[str, str], bytes]:
    """Return the submitter's environment, or the secrets that ``pack`` took from it, and the JobSpec's bytes."""
    if not packed:
        return os.environ, data
    line, _, spec = data.partition(b"\n")
    return json.loads(line), spec


def setup_worker() -> None:
    """Mask what this Ray worker writes and raises, and add the values to its environment (called by ``worker_setup``).

    A worker that starts while the job ends finds no file, and needs no values any more. This raises, so that Ray ends the worker,
    when its output cannot be masked.
    """
    if values := read(Path(os.environ[SECRETS_FILE])):
        descriptors.mask_output(values.values())
        _mask_errors(Mask(values.values()))
        os.environ.update(values)


def _mask_errors(masked: Mask) -> None:
    """Mask what a task raises before Ray records it in its own logs, which outlive the job."""
    from ray.exceptions import RayTaskError

    record = RayTaskError.__init__

    def record_masked(
        self: Any, function_name: str, traceback_str: str, cause: BaseException, *args: Any, **options: Any
    ) -> None:
        error: BaseException | None = cause
        while isinstance(error, BaseException):
            error.args = tuple(masked.value(arg) for arg in error.args)
            error = error.__cause__ or error.__context__
        record(self, function_name, masked.text(traceback_str), cause, *args, **options)

    RayTaskError.__init__ = record_masked
