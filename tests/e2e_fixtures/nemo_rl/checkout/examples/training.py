"""Stands for a training of NeMo-RL: prints, saves and fails as the real one does. FAKE_FAULT: what fails."""

import json
import os
import pprint
import sys
from pathlib import Path

import yaml

FAULT = os.environ.get("FAKE_FAULT", "")


def say(text):
    print(text, flush=True)


def fail(frames, error):
    print("Traceback (most recent call last):")
    for frame in frames:
        print(f'  File "{frame}", line 77, in work\n    work()')
    print(error, flush=True)
    raise SystemExit(1)


def merged(base, over):
    both = {key: merged(base[key], over[key]) for key in over if isinstance(over[key], dict) and isinstance(base.get(key), dict)}
    return {**base, **over, **both}


def loaded(file):
    own = yaml.safe_load(file.read_text())
    return merged(loaded(file.parent / own.pop("defaults")), own) if "defaults" in own else own


def configured(default):
    """What nemo_rl.utils.config makes of it, as far as the trainings here use it, without the time that Hydra's import takes."""
    words, file, overrides = iter(sys.argv[1:]), Path(__file__).parent / "configs" / default, []
    for word in words:
        if word == "--config":
            file = next(words)
        else:
            overrides.append(word)
    config = loaded(Path(file))
    for text in overrides:
        key, _, value = text.lstrip("+").partition("=")
        *parents, last = key.split(".")
        place = config
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = value if ":" in value else yaml.safe_load(value)
    if FAULT == "dtensor":
        config["policy"]["megatron_cfg"]["enabled"] = False
        config["policy"]["dtensor_cfg"]["enabled"] = True
    say(f"Loaded configuration from: {file}\nOverrides: {overrides}\nApplied CLI overrides\nFinal config:")
    if FAULT == "old-print":
        pprint.pprint(config)
    elif FAULT != "no-config":
        say(f"MasterConfig({', '.join(f'{key}={value!r}' for key, value in config.items())})")
    return config


def train(config, steps, metrics, start=None):
    """Train from the last checkpoint to ``steps``; ``metrics``: a function of the step, ``start``: those before the first."""
    if FAULT == "data":
        fail(
            ["/opt/datasets/load.py"],
            "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api",
        )
    if FAULT == "provider":
        say("▶ Setting up Megatron policy")
        fail(
            ["/b/src/megatron/bridge/models/qwen/qwen2_bridge.py"],
            "AttributeError: 'Qwen2Provider' object has no attribute 'rotary_base'",
        )
    saving, folder = config["checkpointing"], Path(config["checkpointing"]["checkpoint_dir"])
    kept = (
        sorted(int(path.name.removeprefix("step_")) for path in folder.glob("step_*"))
        if saving["enabled"] and FAULT != "forgets"
        else []
    )
    logs = Path(config["logger"]["log_dir"])
    logs = logs / f"exp_{len(list(logs.glob('exp_*'))) + 1:03}"
    events = {name: {0: value} for name, value in (start or {}).items()}
    say("▶ Setting up Megatron policy")
    if FAULT == "cuda-graphs" and config["policy"]["generation"]["mcore_generation_config"]["num_cuda_graphs"]:
        fail(
            ["/opt/megatron/core/inference/engines/dynamic_engine.py"],
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered (cuda graph warmup)",
        )
    for step in range((kept[-1] if kept else 0) + 1, steps + 1):
        say(f"\n{'=' * 25} Step {step}/{steps} {'=' * 25}\n• Loss: {1 / step:.4f}")
        for name, value in metrics(step).items():
            events.setdefault(name, {})[step] = value
        events.setdefault("ray/node.0.gpu.0.mem_gb", {})[10 * step] = 12.5
        if saving["enabled"] and step % saving["save_period"] == 0 and FAULT != "no-checkpoint":
            weights = folder / f"step_{step}" / "policy" / "weights"
            weights.mkdir(parents=True)
            (weights / "__0_0.distcp").write_text("" if FAULT == "empty-weights" else "weights")
            (weights.parents[1] / "training_info.json").write_text('{"step": 1}')
        if FAULT == "early" and step == 1 and steps > 1:
            break
        if saving["checkpoint_must_save_by"] and saving["enabled"]:
            say("Timeout has been reached, stopping training early")
            break
    else:
        say("Max number of steps has been reached, stopping training early")
    if FAULT != "no-events":
        logs.mkdir(parents=True)
        (logs / "events.out.tfevents.1").write_text(json.dumps(events))
