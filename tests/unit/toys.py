"""Small stand-ins for what is large in real life: a trainer config, workloads, data and a model."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from mvp_helpers.plan.plan import Plan

TRAINER_CONFIG = """
trainer: {total_epochs: 30, save_freq: -1, total_training_steps: null, nnodes: 1, n_gpus_per_node: 8, default_local_dir: x,
          resume_mode: auto, resume_from_path: null, device: cuda, project_name: p, logger: [console, file]}
data: {train_batch_size: 8, train_files: null}
actor: {mini_batch_size: 8, micro_batch_size_per_gpu: 4, use_dynamic_bsz: false, path: null}
rollout: {n: 1}
reward: {path: null, name: null}
"""

WORKLOAD = """
entry: {module: verl.trainer.main_ppo}
hydra: {config_dir: verl/trainer/config, config_name: toy}
imports: [verl]
data: {train: train.parquet}
env_vars: {METRICS: "{metrics}"}
overrides: ["data.train_files={dataset}/train.parquet", "actor.path={model}", "trainer.nnodes={nnodes}",
            "trainer.n_gpus_per_node={processes_per_worker}", "+queue.on={worker_resource}"]
defaults: {trainer.total_epochs: 1, trainer.save_freq: 10}
forced: ["trainer.default_local_dir={checkpoints}", trainer.resume_mode=disable]
resume: [trainer.resume_mode=resume_path, "trainer.resume_from_path={resume_path}"]
checkpoint: {parts: [actor], files: [data.pt]}
reward: [["reward.path={reward_path}", "reward.name={reward_name}"]]
batch_rules:
  - {product: [data.train_batch_size, rollout.n], divisible_by: [world_size], unless: actor.use_dynamic_bsz}
  - {product: [data.train_batch_size], at_least: [actor.mini_batch_size]}
devices:
  cpu: {env_vars: {DEVICE_IN_USE: cpu}, overrides: [trainer.device=cpu]}
"""

ECHO = """
entry: {command: ["{job_folder}/no-such-command"]}
"""


def write_parquet(path: Path, rows: int) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"prompt": [str(row) for row in range(rows)]}), path)


def write_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 8)


def plan_of(submission_id: str, shared_root: Path = Path("/nowhere"), argv: list[str] | None = None) -> Plan:
    """A plan of a plain command, as ``planning.make`` would return it."""
    return Plan(
        submission_id=submission_id,
        workload="echo",
        source="job.json",
        cluster="local",
        device="cpu",
        host_driver="local",
        shared_root=str(shared_root),
        job_folder=str(shared_root / "jobs" / submission_id),
        code_path=None,
        code_id=None,
        model=None,
        dataset=None,
        data_files={},
        address="http://127.0.0.1:9",
        entrypoint_resources={"worker_node": 1},
        entrypoint_num_cpus=1,
        entrypoint=["python3", "-m", "mvp_helpers", "run-job", str(shared_root / "jobs" / submission_id)],
        nnodes=1,
        processes_per_node=1,
        save_freq=None,
        train_batch_size=None,
        total_epochs=None,
        total_training_steps=None,
        argv=argv or ["true"],
        imports=[],
        env_vars={},
        stop_wait_s=60,
    )
