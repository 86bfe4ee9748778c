"""Stands for verl's trainer in a fixture checkout: prints, saves and fails as the real one does. FAKE_FAULT: what fails."""

import os
import sys
import time
import zipfile
from pathlib import Path

given = dict(text.lstrip("+").split("=", 1) for text in sys.argv[1:] if "=" in text and not text.startswith("--"))
fault = os.environ.get("FAKE_FAULT", "")
steps, saves = int(given["trainer.total_training_steps"]), int(given["trainer.save_freq"])
folder = Path(given["trainer.default_local_dir"])
pointer = folder / "latest_checkpointed_iteration.txt"
WHO = "(TaskRunnerV1 pid=4711) "


def say(text: str) -> None:
    print(WHO + text, flush=True)


def pickled(file: Path) -> None:
    """Write a file as torch.save does: a zip archive."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data/data.pkl", "state")


def save(checkpoint: Path) -> None:
    """Write a checkpoint as Megatron does, with LoRA. The fault "cut-checkpoint": its last file is cut short."""
    for model in ("actor",) if fault == "no-critic-saved" else ("actor", "critic"):
        shards = checkpoint / model / "dist_ckpt"
        shards.mkdir(parents=True, exist_ok=True)
        (shards / "__0_0.distcp").write_text("weights")
        (shards / "metadata.json").write_text("{}")
        (shards.parent / "adapter_checkpoint").mkdir(exist_ok=True)
        pickled(shards.parent / "adapter_checkpoint/mp_rank_00_adapter.pt")
    pickled(checkpoint / "data.pt")
    if fault == "cut-checkpoint":
        data = (checkpoint / "data.pt").read_bytes()
        (checkpoint / "data.pt").write_bytes(data[: len(data) // 2])


def fail(frames: list[str], error: str) -> None:
    print("Traceback (most recent call last):")
    for frame in frames:
        print(f'  File "{frame}", line 77, in work\n    work()')
    print(error, flush=True)
    raise SystemExit(1)


if fault == "data":
    fail(["/opt/verl/utils/dataset/rl_dataset.py"], "FileNotFoundError: Unable to find '/data/gsm8k/train.parquet'")
if fault == "hang":
    time.sleep(600)
if fault == "deaf":
    import signal
    import subprocess

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    time.sleep(600)
if fault == "silent-exit":
    raise SystemExit(0)
if not (Path(given["actor_rollout_ref.model.path"]) / "config.json").exists():
    fail(
        ["/opt/transformers/configuration_utils.py"], "OSError: the model folder does not appear to have a file named config.json"
    )
megatron = "actor_rollout_ref.actor.megatron."
names = ("tensor_model", "pipeline_model", "context", "expert_model")
tp, pp, cp, ep = (int(given[f"{megatron}{name}_parallel_size"]) for name in names)
gpus = int(given["trainer.n_gpus_per_node"])
if gpus % (tp * pp * cp) or gpus % (ep * pp):
    fail(["/opt/megatron/core/parallel_state.py"], f"RuntimeError: world_size ({gpus}) is not divisible by {tp * pp * cp}")
say(f"> initialized tensor model parallel with size {tp}, pipeline {pp}, expert {ep}")
say("Qwen2ForCausalLM contains 494.03M parameters")
if fault == "finalised-alone" and tp > 1:
    fail(
        ["/b/3rdparty/Megatron-LM/megatron/core/tensor_parallel/layers.py"],
        f"ValueError: First dimension of the tensor should be divisible by tensor parallel size: 1 % {tp} != 0",
    )
if given[f"{megatron}use_megatron_fsdp"] == "True":
    say("Wrapping with Megatron-FSDP")
    if fault == "fsdp":
        fail(["/b/3rdparty/Megatron-LM/megatron/core/distributed/fsdp/adapter.py"], "AssertionError: expected a DTensor")
if fault == "provider":
    say("building")
    fail(
        ["/b/src/megatron/bridge/models/qwen/qwen2_bridge.py"],
        "AttributeError: 'Qwen2Provider' object has no attribute 'rotary_base'",
    )
if fault == "secondary-first":
    print("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.")
    fail(["/b/src/megatron/bridge/peft/lora.py"], "ValueError: target module linear_qkv was not found")
if fault == "edits":
    Path(os.environ["PYTHONPATH"].split(":")[0], "megatron/bridge/__init__.py").write_text("__version__ = '1'\n")
start = 0
if given["trainer.resume_mode"] == "auto":
    if fault == "from-scratch" or not pointer.exists():
        say("Training from scratch")
    else:
        start = int(pointer.read_text())
        say(f"Resuming from {folder}/global_step_{start}")
        for model in ("actor", "critic"):
            say(f"INFO: [Rank 0] Loaded optimizer checkpoint from {folder}/global_step_{start}/{model}")
for _ in ("actor", "critic"):
    say("PEFT Adapter Information:")
    say(f"  Adapter parameters:   {0 if fault == 'frozen' else '1,081,344'}")
    say(f"  Trainable percentage: {0.0 if fault == 'frozen' else 0.22:.2f}%")
if fault == "vanilla":
    say("DeprecationWarning: vanilla_mbridge=True is deprecated")
for step in range(start + 1, steps + 1):
    if fault == "dies-in-step":
        fail(["/opt/verl/trainer/ppo/ray_trainer.py"], "RuntimeError: shape '[4, 7]' is invalid for input of size 27")
    flat = fault == "flat"
    values = {
        "actor/pg_loss": float("nan") if fault == "nan" else 1.0 / step,
        "critic/vf_loss": 0.5 / step,
        "actor/grad_norm": 0.0 if fault == "zero-gradients" else 0.5 + step / 100,
        "critic/grad_norm": 3.0 + step / 10,
        "actor/entropy": 2.0 - step / 50,
        "training/rollout_probs_diff_mean": 0.004 if fault == "frozen" else 0.004 + step / 1000,
        "critic/score/mean": 0.25 if flat else (0.5 - step / 100 if fault == "falls" else 0.1 + step / 100),
        "response_length/mean": 100.0 + step,
        "training/global_step": step,
    }
    say(f"step:{step} - " + " - ".join(f"{key}:{value}" for key, value in values.items()))
    print(f"Training Progress: {100 * step // steps}%|###| {step}/{steps} [00:01<00:00,  1.0s/it]", file=sys.stderr, flush=True)
    if saves > 0 and step % saves == 0 and fault != "no-checkpoint":
        save(folder / f"global_step_{step}")
        pointer.write_text(str(step))
if start >= steps:
    say("Training from scratch" if not start else "nothing left to train")
if fault == "exit-code":
    raise SystemExit(3)
print(
    "resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown" if fault == "noise" else "done"
)
