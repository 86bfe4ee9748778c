"""A LoRA adapter merged into exported weights: with a real, tiny model and the real peft."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.keep import verl_export


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A folder as verl's model merger leaves it for a model with LoRA: the base model's weights, and the adapter beside them."""
    torch = pytest.importorskip("torch")
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    base = Qwen2ForCausalLM(Qwen2Config(**sizes, num_attention_heads=2, num_key_value_heads=2)).to(torch.bfloat16)
    base.save_pretrained(tmp_path)
    model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    model.save_pretrained(tmp_path / verl_export.ADAPTER)
    return tmp_path


def logits(folder: Path, adapter: Path | None = None) -> object:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = PeftModel.from_pretrained(model, adapter) if adapter else model
    with torch.no_grad():
        return model(torch.tensor([[1, 2, 3]])).logits


def test_merged_weights_answer_as_the_base_model_with_the_adapter(exported: Path) -> None:
    import torch

    alone, adapted = logits(exported), logits(exported, exported / verl_export.ADAPTER)
    verl_export.merge_adapter(exported)
    merged = logits(exported)
    assert not (exported / verl_export.ADAPTER).exists()
    near = (merged - adapted).abs().mean()  # type: ignore[operator]
    assert near < 0.1 * (alone - adapted).abs().mean()  # type: ignore[operator]
    assert torch.isfinite(merged).all()  # type: ignore[arg-type]


def test_an_adapter_that_changes_nothing_is_an_error_and_so_is_none(exported: Path) -> None:
    config = exported / verl_export.ADAPTER / "adapter_config.json"
    config.write_text(config.read_text().replace('"lora_alpha": 8', '"lora_alpha": 0'))
    with pytest.raises(ValueError, match="merging the LoRA adapter changes no weight"):
        verl_export.merge_adapter(exported)
    with pytest.raises(ValueError, match="has no LoRA adapter"):
        verl_export.merge_adapter(exported / verl_export.ADAPTER)
