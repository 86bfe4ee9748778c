"""An ended job with a checkpoint of a random model, exported by script 57 and merged by verl's merger alone (bench_export.sh)."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import msgspec
import yaml
from checkpoints import seconds

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.keep import verl_export
from mvp_helpers.plan import plan
from mvp_helpers.prepare import generated, snapshot
from mvp_helpers.prepare.settings import Generated

sys.path.insert(0, str(PROJECT / "tests" / "unit"))
from kept_jobs import make_job

LIMIT = 1.1


def fill(shared: SharedRoot, hidden: int, layers: int) -> tuple[Path, Path]:
    """Make an ended PPO job with a checkpoint of step 1; return its actor's folder and the code snapshot."""
    import torch
    from transformers import AutoModelForCausalLM

    for parent in (shared.jobs, shared.verl_code):
        parent.mkdir(parents=True)
    code = snapshot.snapshot(snapshot.Source(), shared, "bench").path
    job = make_job(shared, "job", 1)
    job.resolved.write_text(plan.to_yaml(msgspec.structs.replace(plan.read(job), code_path=str(code), workload="ppo")))
    actor = job.checkpoints / "global_step_1" / "actor"
    shutil.rmtree(actor)
    made = actor / "huggingface"
    made.mkdir(parents=True)
    generated.write_model(made, Generated(hidden_size=hidden, layers=layers))
    model = AutoModelForCausalLM.from_pretrained(made, dtype=torch.float32)
    print(f"{model.num_parameters() / 1e9:.2f}B parameters", flush=True)
    for kind, state in (("model", model.state_dict()), ("optim", {}), ("extra_state", {})):
        torch.save(state, actor / f"{kind}_world_size_1_rank_0.pt")
    (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))
    for weights in made.glob("*.safetensors*"):
        weights.unlink()
    return actor, code


def main(folder: Path, rounds: int, hidden: int, layers: int) -> int:
    """Print the medians; return 1 when the export takes more CPU time than the limit."""
    shared = SharedRoot(folder / "private")
    actor, code = fill(shared, hidden, layers)
    cluster = yaml.safe_load((PROJECT / "templates" / "ray" / "local.yaml").read_text())
    cluster |= {"shared_root": str(shared.root), "state_dir": str(folder / "state")}
    (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    os.environ |= verl_export.environment(code, os.environ)
    merger = [sys.executable, "-m", verl_export.MERGER, "merge", "--backend", "fsdp", "--local_dir", str(actor), "--target_dir"]
    export = [str(PROJECT / "scripts" / "57_checkpoints.sh"), "--cluster", str(folder / "cluster.yaml"), "--export", "job"]
    taken: dict[str, list[tuple[float, float]]] = {"verl's merger": [], "57 --export": []}
    for _ in range(rounds):
        for name, argv in zip(taken, (merger, export), strict=True):
            target = folder / "out"
            taken[name].append(seconds([*argv, str(target)]))
            shutil.rmtree(target)
    medians = {name: tuple(map(statistics.median, zip(*each, strict=True))) for name, each in taken.items()}
    for name, (wall, cpu) in medians.items():
        print(f"{name:<14} {wall:6.1f} s, CPU time {cpu:.1f} s")
    (wall, cpu), (own_wall, own_cpu) = medians.values()
    ratio = own_cpu / cpu
    print(f"ratio {own_wall / wall:.2f}, of CPU time {ratio:.2f} (limit {LIMIT}): {'within' if ratio <= LIMIT else 'OVER'}")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    try:
        raise SystemExit(main(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{error.cmd[0]} ended with exit code {error.returncode}") from None
