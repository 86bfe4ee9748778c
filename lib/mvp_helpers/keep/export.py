"""``57 --export``: Hugging Face weights of a checkpoint, made by the job's own code, proven to load, their origin beside them.

They appear complete or not at all: everything is written into a folder beside the target, which is renamed at the end.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from .. import __version__
from ..base import files, processes
from ..base.documents import Damaged, read_json
from ..base.errors import BadInput, Blocked, Failed
from ..base.paths import JobFolder, SharedRoot
from ..base.shared_storage import remove_tree, writing
from ..base.times import now
from ..plan import plan, workloads
from ..plan.plan import Plan
from ..prepare import snapshot
from ..record import removals
from ..seal import contents
from ..trainers import verl_checkpoints
from ..trainers.checkpoint import Checkpoint, CheckpointLayout
from . import verl_export
from .verl_export import Proof

ORIGIN = "mvp_export.json"
"""The file beside the weights that says where they came from."""
SHOWN_LINES = 15

Say = Callable[[str], None]


@dataclass(frozen=True)
class Export:
    """What is to be exported, found whole; ``code`` is the job's own code snapshot."""

    folder: JobFolder
    plan: Plan
    checkpoint: Checkpoint
    model: Path
    code: Path
    target: Path
    merge_lora: bool = False


def split(name: str) -> tuple[str, int | None]:
    """Return id and step of ``ID[:STEP]``. Raises BadInput for a step that is not a number."""
    submission_id, colon, step = name.partition(":")
    if colon and not (step.isascii() and step.isdigit()):
        raise BadInput(f"'{name}' is not ID or ID:STEP", hint="./scripts/57_checkpoints.sh ID lists the steps")
    return submission_id, int(step) if colon else None


def find(folder: JobFolder, step: int | None, target: str, *, merge_lora: bool = False) -> Export:
    """Find the checkpoint of that step, or the newest whole one, and the place for its weights.

    Raises BadInput when the checkpoint is not whole, the job's code is gone, the target exists, or the checkpoint has
    no LoRA to merge.
    """
    the_plan = plan.read(folder)
    layout = workloads.load(the_plan.workload).checkpoint
    if not layout or not the_plan.code_path:
        raise BadInput(f"workload '{the_plan.workload}' of job '{folder.submission_id}' saves no checkpoints of verl")
    checkpoint = _checkpoint(folder, layout, step)
    place = _target(folder.shared, target)
    code = snapshot.check(Path(the_plan.code_path)).path
    model = verl_export.model_folder(checkpoint.path, layout)
    if merge_lora and not verl_export.has_adapter(model):
        raise BadInput(f"{folder.submission_id}:{checkpoint.step} has no LoRA adapter", hint="leave --merge-lora out")
    return Export(folder, the_plan, checkpoint, model, code, place, merge_lora)


def _checkpoint(folder: JobFolder, layout: CheckpointLayout, step: int | None) -> Checkpoint:
    saved = {checkpoint.step: checkpoint for checkpoint in verl_checkpoints.every(folder.checkpoints, layout)}
    hint = f"./scripts/57_checkpoints.sh {folder.submission_id} lists its checkpoints"
    if step is None:
        step = next((newest for newest, checkpoint in saved.items() if not checkpoint.problem), None)
        if step is None:
            raise BadInput(f"job '{folder.submission_id}' has no whole checkpoint", hint=hint)
    name = f"{folder.submission_id}:{step}"
    if step not in saved:
        removed = removals.of(folder).get(step)
        raise BadInput(f"{name} was {removed}" if removed else f"the job has no checkpoint {name}", hint=hint)
    if saved[step].problem:
        raise BadInput(f"{name} is not whole: {saved[step].problem}", hint=hint)
    return saved[step]


def _target(shared: SharedRoot, text: str) -> Path:
    path = Path(os.path.realpath(shared.root / text))
    if path.is_relative_to(os.path.realpath(shared.jobs)):
        raise BadInput(f"{path} is in the folder of the jobs, whose content is evidence", hint="common/models/NAME")
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise BadInput(
            f"{path} {'is not empty' if path.is_dir() else 'is a file'}", hint="choose a folder that does not exist yet"
        )
    return path


def export(job: Export, say: Say) -> Proof:
    """Make the weights. Raises Failed when the merger or the proof fails, Blocked when nothing can be written or run here."""
    aside = _aside(job.target, os.getpid())
    try:
        with writing(job.target):
            job.target.parent.mkdir(parents=True, exist_ok=True)
            _remove_left(job.target)
            aside.mkdir()
        say(f"merging step {job.checkpoint.step} of {job.folder.submission_id} with the code in {job.code}")
        proof = _merge(job, aside)
        with writing(job.target):
            for path in aside.rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o644)  # safetensors makes its files readable by their owner only
            files.write_json(aside / ORIGIN, _origin(job, proof, aside))
            aside.rename(job.target)
        return proof
    finally:
        remove_tree(aside)


def _aside(target: Path, process: int | str) -> Path:
    return target.with_name(f".{target.name}.export-{os.uname().nodename}-{process}")


def _remove_left(target: Path) -> None:
    """Remove what exports into the same folder left that were killed on this host."""
    for left in target.parent.glob(glob.escape(_aside(target, "").name) + "*"):
        process = left.name.rpartition("-")[2]
        if process.isdecimal() and processes.start_time(int(process)) is None:
            remove_tree(left)


def _merge(job: Export, target: Path) -> Proof:
    argv = [sys.executable, "-m", verl_export.__name__, str(job.model), str(target), *(["merge-lora"] if job.merge_lora else [])]
    environment = verl_export.environment(job.code, os.environ)
    run = subprocess.run(
        argv,
        env=environment,
        cwd=target,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=processes.die_with_parent,
    )
    said = run.stderr.decode(errors="replace").strip().splitlines()
    if run.returncode and any("ModuleNotFoundError: No module named" in line for line in said[-1:]):
        raise Blocked(f"this host cannot export: {said[-1]}", hint="./scripts/12_install_py_deps.sh")
    if run.returncode:
        shown = "\n".join(said[-SHOWN_LINES:])
        raise Failed(f"verl's model merger, or the model that it made, failed (exit code {run.returncode}):\n{shown}")
    proof = msgspec.json.decode(run.stdout, type=Proof)
    if not Path(proof.merger).resolve().is_relative_to(job.code.resolve()):
        raise Failed(f"the model merger was imported from {proof.merger}, not from the job's code {job.code}")
    return proof


def _origin(job: Export, proof: Proof, made: Path) -> dict[str, Any]:
    """Return where the weights came from, and the digest of each file."""
    try:
        provenance = read_json(job.folder.provenance)
    except (OSError, Damaged):
        provenance = None
    return {
        "made_at": now(),
        "by": removals.who(),
        "toolkit": __version__,
        "submission_id": job.folder.submission_id,
        "workload": job.plan.workload,
        "step": job.checkpoint.step,
        "checkpoint": str(job.checkpoint.path),
        "seal": files.sha256(job.folder.seal) if job.folder.seal.exists() else None,
        "model": job.plan.model,
        "dataset": job.plan.dataset,
        "code_id": job.plan.code_id,
        "job_provenance": provenance,
        "proof": msgspec.to_builtins(proof),
        "files": dict(sorted(contents.of(made).files.items())),
    }
