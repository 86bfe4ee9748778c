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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import files, jobspec
from .errors import BadInput
from .paths import JobFolder, SharedRoot
from .plan import SECRETS_FILE, Plan

SHORTEST = 8
"""Bytes: masking a shorter value would black out ordinary text, so it is refused instead."""
MASKED = b"***"


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
        from .plan import to_yaml

        told = spec + to_yaml(the_plan).encode(errors="surrogateescape")
        for name, value in values.items():
            if any(form in told for form in _forms(value)):
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


class Mask:
    """Replaces values, and the forms in which programs usually print them, by ``***``."""

    def __init__(self, values: Iterable[str]) -> None:
        # The longest first: of two values of which one begins with the other no rest may stay.
        self._forms = sorted({form for value in values for form in _forms(value)}, key=lambda form: (-len(form), form))

    def data(self, data: bytes) -> bytes:
        for form in self._forms:
            data = data.replace(form, MASKED)
        return data

    def text(self, text: str) -> str:
        return self.data(text.encode(errors="surrogateescape")).decode(errors="surrogateescape") if self._forms else text

    def value(self, value: Any) -> Any:
        """A copy of plain data (dicts, lists, scalars) with every text in it masked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value

    def stream(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks, masked also where a value begins in one and ends in another; only what may be such a beginning waits."""
        if not self._forms:
            yield from chunks
            return
        held = b""
        for chunk in chunks:
            data = held + chunk
            cut = self._safe(data)
            held = data[cut:]
            if cut:
                yield self.data(data[:cut])
        if held:
            yield self.data(held)

    def _safe(self, data: bytes) -> int:
        """Length of the part of ``data`` that can be masked now: no value begins in it and may end behind it."""
        cut = len(data)
        for form in self._forms:
            at = data.find(form[:1], max(0, len(data) - len(form) + 1))
            while 0 <= at < cut and not form.startswith(data[at:]):
                at = data.find(form[:1], at + 1)
            if 0 <= at < cut:
                cut = at
        # A whole value that lies across that cut must not be torn apart either.
        moved = cut < len(data)
        while moved:
            moved = False
            for form in self._forms:
                if (at := data.find(form, max(0, cut - len(form) + 1), cut + len(form) - 1)) >= 0 and at < cut:
                    cut, moved = at, True
        return cut


def _forms(value: str) -> set[bytes]:
    """A value, its lines (Ray prints each with a prefix), and both as JSON, repr() and URLs show them."""
    from urllib.parse import quote

    forms = set()
    for part in {value, *value.splitlines()}:
        shown = (part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1], repr(part)[1:-1])
        forms |= {*shown, quote(part, safe="", errors="surrogateescape")}
    return {form for text in forms if len(form := text.encode(errors="surrogateescape")) >= SHORTEST}


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
