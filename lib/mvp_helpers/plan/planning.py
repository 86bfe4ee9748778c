"""From the bytes of a JobSpec to its plan, in five stages: read, resolve, compose, check, plan.

Each stage takes the results of the earlier ones and calls none of them. Nothing is written but, with ``remember``, the record of
accepted overrides (``hydra_memory``).
"""

from __future__ import annotations

from ..cluster import shape
from ..cluster.cluster_file import Cluster
from ..trainers import verl_actors, verl_config
from . import checks, compose, deadline, disk, environment, jobspec, limits, resolve, workloads
from .compose import Composed
from .disk import Checkpoints
from .inputs import Missing
from .jobspec import JobSpec
from .plan import SETUP_HOOK, Plan
from .resolve import Inputs

ISOLATED = "mvp_helpers/isolated.py"


def make(data: bytes, source: str, cluster: Cluster, *, remember: bool = False, missing: list[Missing] | None = None) -> Plan:
    """Plan one submission of the JobSpec ``data`` on ``cluster``; ``source`` names the JobSpec in messages.

    With a list ``missing``, inputs that do not exist yet are added to it, and the plan is made all the same; without
    a code snapshot the overrides are not checked.

    Raises:
        BadInput: anything wrong with the JobSpec: see ``load``, ``resolve``, ``compose`` and ``check``.
        Blocked: the config of the code snapshot cannot be composed here.
    """
    spec = jobspec.load(data, source)
    inputs = resolve.resolve(spec, cluster, source, missing)
    composed = compose.compose(spec, cluster, inputs, source, remember=remember)
    checks.check(cluster, inputs, composed, source)
    plan = _plan(spec, cluster, inputs, composed, source)
    limits.check_arguments([*plan.submit_argv(), *plan.argv, plan.job_config()], source)
    return plan


def _plan(spec: JobSpec, cluster: Cluster, inputs: Inputs, composed: Composed, source: str) -> Plan:
    settings, asked = composed.settings, spec.resources
    cpus = asked.entrypoint_num_cpus
    warnings = [change.note for change in inputs.device.without.values()]
    saved = None
    if inputs.shared.root.is_dir():  # a plan can be read where the shared root is not
        free = disk.free(cluster.shared_root)
        saved = _checkpoints(inputs, composed, free)
        warnings.append(disk.warning(saved, free, cluster.shared_root))
    return Plan(
        submission_id=inputs.folder.submission_id,
        workload=inputs.workload.name,
        source=source,
        cluster=cluster.name,
        device=cluster.device,
        host_driver=cluster.host_driver,
        shared_root=str(inputs.shared.root),
        job_folder=str(inputs.folder.path),
        code_path=str(inputs.code.path) if inputs.code else None,
        code_id=inputs.code.code_id or None if inputs.code else None,
        model=str(inputs.model) if inputs.model else None,
        dataset=str(inputs.dataset) if inputs.dataset else None,
        data_files=inputs.data_files,
        reward=composed.reward,
        address=cluster.dashboard,
        entrypoint_resources=asked.entrypoint_resources or cluster.entrypoint.resources,
        entrypoint_num_cpus=cluster.entrypoint.num_cpus if cpus is None else cpus,
        entrypoint=[cluster.python, "-I", "-S", f"{cluster.tools}/lib/{ISOLATED}", "run-job", str(inputs.folder.path)],
        nnodes=composed.nnodes,
        processes_per_node=composed.processes_per_node,
        shape=shape.in_use(inputs.shape, composed.nnodes, composed.processes_per_node) if inputs.workload.hydra else "",
        defaults_suit=inputs.device.suit,
        cpus_per_process=inputs.device.cpus_per_process,
        starts=verl_actors.starts(composed.config, inputs.device.cpus_per_process, f"{source}: trainer_overrides"),
        save_freq=settings.save_freq,
        checkpoints=saved,
        train_batch_size=settings.train_batch_size,
        total_epochs=settings.total_epochs,
        total_training_steps=settings.total_training_steps,
        training_rows=composed.training_rows,
        logger=composed.logger,
        argv=_argv(cluster, inputs, composed),
        imports=inputs.workload.imports,
        env_vars=composed.env_vars,
        runner_env_vars=environment.of_runner(spec, cluster, inputs),
        setup_hook=SETUP_HOOK,
        secrets=spec.secrets,
        resume=inputs.resume,
        stop_wait_s=spec.stop_wait_s or cluster.stop_wait_s,
        save_by=deadline.save_by(spec.save_by, source),
        stall=spec.stall,
        tracking=inputs.tracked,
        keep_rollouts=spec.keep_rollouts if any("{rollouts}" in text for text in inputs.workload.overrides) else 0,
        retry=spec.retry,
        warnings=[text for text in warnings if text],
    )


def _checkpoints(inputs: Inputs, composed: Composed, free: int | None) -> Checkpoints | None:
    settings = composed.settings

    def steps_total() -> int | None:
        return verl_config.steps_total(
            settings.total_training_steps, settings.total_epochs, settings.train_batch_size, composed.training_rows
        )

    return disk.estimate(composed.config, free, inputs.resume.step + 1 if inputs.resume else 1, steps_total)


def _argv(cluster: Cluster, inputs: Inputs, composed: Composed) -> list[str]:
    """Return the trainer's argv: a Python module or a plain command, then the overrides."""
    entry = inputs.workload.entry
    if entry.module:
        return [cluster.python, "-m", entry.module, *composed.overrides]
    return [workloads.render(text, inputs.placeholders) for text in entry.command] + composed.overrides
