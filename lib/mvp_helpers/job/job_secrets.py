"""Secrets of a job: values that reach the trainer and its Ray workers, and appear nowhere else.

Whatever Ray is told about a job (argv, ``env_vars``, metadata) its REST answers show to anyone who may ask. So the submitter puts
the values into a file on the shared root (0600, gone when the job has ended) and tells Ray only where that lies: the job runner
gives them to the trainer as environment variables, and Ray runs ``setup_worker`` first thing in every worker of the job. What
these processes print is masked before it is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import BadInput
from ..base.mask import SHORTEST, Mask, forms
from ..base.paths import JobFolder, SharedRoot
from ..plan import jobspec
from ..plan.plan import SECRETS_FILE, Plan


def collect(the_plan: Plan, offered: Mapping[str, str], spec: bytes = b"") -> dict[str, str]:
    """The values of the plan's secrets: from ``offered`` (the submitter's environment), or else from ``user/secrets/NAME``.

    Raises:
        BadInput: a secret is nowhere, its file is open to others, its value is empty, too short to be masked, not text, or stands
            in the plan or in ``spec`` (the JobSpec's bytes). No message holds a value.
    """
    folder = SharedRoot(Path(the_plan.shared_root)).user_secrets
    values = {}
    for name in the_plan.secrets:
        value, place = offered.get(name), "the submitter's environment"
        if value is None:
            value, place = _read_own(name, folder / name, the_plan.source), str(folder / name)
        if len(value.encode(errors="surrogateescape")) < SHORTEST or "\0" in value:
            what = "holds a NUL byte" if "\0" in value else f"has fewer than {SHORTEST} bytes, too few to be masked in a log"
            raise BadInput(f"{the_plan.source}: secrets: the value of {name} in {place} {what}")
        values[name] = value
    if values:
        from ..plan.plan import to_yaml

        told = spec + to_yaml(the_plan).encode(errors="surrogateescape")
        for name, value in values.items():
            if any(form in told for form in forms(value)):
                raise BadInput(
                    f"{the_plan.source}: the value of secret {name} stands in the JobSpec, the cluster file or the workload",
                    hint="remove it there: the trainer finds it in its environment (${oc.env:NAME} in a Hydra override)",
                )
    return values


def _read_own(name: str, path: Path, source: str) -> str:
    hint = f"export {name}=…, or write it to {path} (chmod 600)"
    try:
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            raise BadInput(f"{path} is open to others (mode {mode:04o}): a secret needs 0600", hint=f"chmod 600 {path}")
        text = path.read_text()
    except FileNotFoundError:
        raise BadInput(f"{source}: secret {name} is neither in the environment nor in {path}", hint=hint) from None
    except OSError as error:
        raise BadInput(f"{source}: secret {name}: cannot read {path}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise BadInput(f"{source}: secret {name}: {path} is not UTF-8 text", hint=hint) from None
    return text.removesuffix("\n").removesuffix("\r")


def keep(folder: JobFolder, values: Mapping[str, str]) -> None:
    """Put the values where the job's own processes find them; ``job_folder.write`` removes them with the job's end."""
    if values:
        folder.secrets.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.secrets.parent.chmod(0o700)
        files.write_json(folder.secrets, dict(values), mode=0o600)


def read(path: Path) -> dict[str, str]:
    """The values kept in ``path``; none when there is no such file. Raises OSError when it cannot be read."""
    try:
        values: dict[str, str] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    return values


def pack(data: bytes, source: str) -> bytes:
    """A JobSpec's bytes behind one line of JSON: those secrets it names that the environment here holds.

    That is how values reach the head, through stdin. A mistake in the spec is for the head to tell.
    """
    names: list[str] = []
    with contextlib.suppress(BadInput):
        names = jobspec.load(data, source).secrets
    return json.dumps({name: os.environ[name] for name in names if name in os.environ}).encode() + b"\n" + data


def unpack(data: bytes, packed: bool) -> tuple[Mapping[str, str], bytes]:
    """The submitter's environment, as far as it counts, and the JobSpec's bytes."""
    if not packed:
        return os.environ, data
    line, _, spec = data.partition(b"\n")
    return json.loads(line), spec


def mask(folder: JobFolder) -> Mask:
    """The mask for everything that is written about a job; masks nothing once its values are gone."""
    try:
        return Mask(read(folder.secrets).values())
    except OSError:
        return Mask([])


def setup_worker() -> None:
    """Ray's ``worker_process_setup_hook``: this Ray worker's environment gets the values, what Python prints is masked.

    A worker that starts while the job ends finds the file gone: nobody needs the values any more.
    """
    values = read(Path(os.environ[SECRETS_FILE]))
    os.environ.update(values)
    masked = Mask(values.values())
    for stream in (sys.stdout, sys.stderr):
        stream.write = _masking(stream.write, masked)  # type: ignore[method-assign]
    _mask_errors(masked)


def _masking(write: Any, masked: Mask) -> Any:
    return lambda text: write(masked.text(text)) and len(text)


def _mask_errors(masked: Mask) -> None:
    """What a task raises, Ray writes into its logs and records of its own, which outlive the job: masked when Ray takes it up."""
    from ray.exceptions import RayTaskError

    take_up = RayTaskError.__init__

    def take_up_masked(
        self: Any, function_name: str, traceback_str: str, cause: BaseException, *args: Any, **options: Any
    ) -> None:
        error: BaseException | None = cause
        while isinstance(error, BaseException):
            error.args = tuple(masked.value(arg) for arg in error.args)
            error = error.__cause__ or error.__context__
        take_up(self, function_name, masked.text(traceback_str), cause, *args, **options)

    RayTaskError.__init__ = take_up_masked
