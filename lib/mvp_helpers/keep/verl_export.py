"""Hugging Face weights of a verl checkpoint: verl's own model merger, then a proof that transformers can use what it made.

As a module, ``python -m mvp_helpers.keep.verl_export MODEL TARGET [merge-lora]``, it runs with the code snapshot first on
PYTHONPATH: one process, because importing torch and verl takes longer than merging a small model. Its stdout is one JSON object,
a ``Proof``.
"""

from __future__ import annotations

import gc
import os
import runpy
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ..base.project import PROJECT
from ..trainers.checkpoint import CheckpointLayout

MERGER = "verl.model_merger"
ADAPTER = "lora_adapter"
"""The folder into which the merger puts a LoRA adapter, beside the weights of its base model."""
ADAPTER_FACTS = "lora_train_meta.json"
"""Written by verl's checkpoint manager beside the shards of a model with LoRA."""
PROMPT = "Question: What is 2 + 3? Answer:"
NEW_TOKENS = 4
"""Each takes a CPU as long as reading all weights."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen when the weights were loaded and asked for one line, without sampling."""

    merger: str
    """The file of the merger that ran."""
    architecture: str
    parameters: int
    dtype: str
    prompt: str
    generated: str
    adapter: str | None = None
    """The folder of a LoRA adapter that the weights do not contain."""
    merged_adapter: bool = False
    """The weights contain a LoRA adapter."""


def has_adapter(model: Path) -> bool:
    """Return whether a checkpoint's model has a LoRA adapter, by the file with its rank and alpha."""
    return (model / ADAPTER_FACTS).is_file()


def model_folder(checkpoint: Path, layout: CheckpointLayout) -> Path:
    """Return the folder of a checkpoint with the model that generates: of RL the actor's."""
    return checkpoint / layout.parts[0]


def backend(model: Path) -> str:
    """Return what the merger calls the format of the model's shards."""
    return "fsdp" if (model / "fsdp_config.json").is_file() else "megatron"


def environment(code: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the exporting process: this snapshot's code, no accelerator, no network."""
    own = {"PYTHONPATH": f"{code}:{PROJECT / 'lib'}", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    own["OMP_WAIT_POLICY"] = "PASSIVE"  # torch's threads must not spin on a machine that does other work
    kept = {name: text for name, text in inherited.items() if not name.startswith("VERL_")}
    return kept | own | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def merge(model: Path, target: Path) -> str:
    """Run verl's model merger in this process; return the file that it was imported from."""
    arguments = ["merge", "--backend", backend(model), "--local_dir", str(model), "--target_dir", str(target)]
    sys.argv = [MERGER, *arguments]
    names = runpy.run_module(MERGER, run_name="__main__")
    gc.collect()
    return str(names["__file__"])


def merge_adapter(target: Path) -> None:
    """Replace the base model's weights in ``target`` by those with its LoRA adapter, which goes.

    Raises ValueError when it finds no adapter, or merging it changes nothing, as with the alpha of 0 that the merger writes when
    it does not know the real one.
    """
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    if not (target / ADAPTER).is_dir():
        raise ValueError("the checkpoint has no LoRA adapter")
    base = AutoModelForCausalLM.from_pretrained(target, dtype="auto")
    before = {name: weight.detach().clone() for name, weight in base.named_parameters()}
    merged = PeftModel.from_pretrained(base, target / ADAPTER).merge_and_unload()
    if all(torch.equal(weight, before[name]) for name, weight in merged.named_parameters()):
        raise ValueError("merging the LoRA adapter changes no weight: its alpha or its own weights are 0")
    for old in target.glob("model*.safetensors*"):
        old.unlink()
    merged.save_pretrained(target)
    shutil.rmtree(target / ADAPTER)


def prove(target: Path, merger: str, *, merged_adapter: bool = False) -> Proof:
    """Load the weights and generate a line. Raises ValueError when weights are missing or the model computes no numbers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, loading = AutoModelForCausalLM.from_pretrained(target, dtype="auto", output_loading_info=True)
    if wrong := [f"{kind} {sorted(map(str, keys))[:3]}" for kind, keys in loading.items() if keys]:
        raise ValueError(f"the weights do not fit their config: {'; '.join(wrong)}")
    tokenizer = AutoTokenizer.from_pretrained(target)
    prompt = tokenizer(PROMPT, return_tensors="pt")
    # The raw logits show NaN, which the choice of a token hides, and lack the -infinity that min_new_tokens sets.
    limits = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False}
    with torch.no_grad():
        made = model.generate(**prompt, **limits, return_dict_in_generate=True, output_logits=True)
    if not all(torch.isfinite(logits).all() for logits in made.logits):
        raise ValueError("the model computes NaN or infinity")
    text = tokenizer.decode(made.sequences[0, prompt["input_ids"].shape[1] :])
    return Proof(
        merger=merger,
        architecture=type(model).__name__,
        parameters=model.num_parameters(),
        dtype=str(model.dtype).removeprefix("torch."),
        prompt=PROMPT,
        generated=" ".join(text.split()),
        adapter=ADAPTER if (target / ADAPTER).is_dir() else None,
        merged_adapter=merged_adapter,
    )


def main(model: Path, target: Path, merge_lora: bool) -> None:
    """Merge and prove; what others print on stdout goes to stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)
    merger = merge(model, target)
    if merge_lora:
        merge_adapter(target)
    proof = prove(target, merger, merged_adapter=merge_lora)
    os.write(answer, msgspec.json.encode(proof))
    gc.freeze()  # at its end Python would search all modules for cycles, to free nothing


if __name__ == "__main__":
    # The imports of torch and verl allocate much and free little, as does the merger: collections would be a fifth of their time.
    gc.set_threshold(50_000)
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] == ["merge-lora"])
