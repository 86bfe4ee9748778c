"""What to look at after errors that a library raises for one reason only, and the verdict and boundary that they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from triaging import triaged

from mvp_helpers.diagnosis import signatures

SENTENCES = {
    "ValueError: Unrecognized configuration class <class 'a.B'> for this kind of AutoModel: AutoModelForCausalLM.": (
        "AutoModelForImageTextToText",
        "Blocked",
        "model path",
    ),
    "ValueError: Asking to pad but the tokenizer does not have a padding token.": ("pad_token", "", ""),
    "ValueError: Unable to create tensor, you should probably activate truncation and/or padding": (
        "DataCollatorForSeq2Seq",
        "Blocked",
        "data",
    ),
    "TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'": (
        "has only the second",
        "",
        "",
    ),
    "TypeError: DPOTrainer.__init__() got an unexpected keyword argument 'tokenizer'": ("processing_class", "", ""),
    "TypeError: SFTTrainer.__init__() got an unexpected keyword argument 'max_seq_length'": (
        "in the trainer's configuration",
        "",
        "",
    ),
    "TypeError: MyTrainer.compute_loss() got an unexpected keyword argument 'num_items_in_batch'": ("take it", "", ""),
    "RuntimeError: FlashAttention only support fp16 and bf16 data type": ("autocast (bf16=True)", "", ""),
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x768 and 1024x10)": ("in_features", "", ""),
    "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.": (
        "find_unused_parameters=True",
        "",
        "",
    ),
    "pyarrow.lib.ArrowInvalid: Column 3 named input_ids expected length 1000 but got length 998": ("remove_columns=", "", ""),
    "RuntimeError: DeepSpeed Op Builder: Unable to JIT load the fused_adam op due to it not being compatible": (
        "ds_report",
        "",
        "",
    ),
    "CUDAMismatchException: Installed CUDA version 12.4 does not match the version torch was compiled with": (
        "DS_SKIP_CUDA_CHECK",
        "Blocked",
        "dependency",
    ),
    "RuntimeError: 'weight' must be 2-D": ("GatheredParameters", "", ""),
    "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit": (
        "llm_int8_enable_fp32_cpu_offload",
        "Blocked",
        "memory",
    ),
    "NotImplementedError: Cannot copy out of meta tensor; no data!": ("with device_map", "Blocked", "model path"),
    "RuntimeError: Cannot re-initialize CUDA in forked subprocess.": ("METHOD=spawn", "", ""),
    "RuntimeError: Failed to import transformers.trainer because of the following error (look up to see its traceback):": (
        "the last line of that message",
        "",
        "",
    ),
    "AttributeError: module 'numpy' has no attribute 'bool'.": ("was removed in NumPy", "", ""),
    "RuntimeError: Numpy is not available": ("numpy<2", "Blocked", "dependency"),
    "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/main.c', '-shared']' returned non-zero exit status 1.": (
        "Python.h",
        "Blocked",
        "dependency",
    ),
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 101376.": (
        "num_stages",
        "Blocked",
        "dependency",
    ),
    "IndexError: index out of range in self": ("resize_token_embeddings", "", ""),
    "IndexError: Target 7 is out of bounds.": ("num_labels", "Fail", "training"),
    "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...": (
        "in turn",
        "Blocked",
        "data",
    ),
    "RuntimeError: Trying to resize storage that is not resizable": ("num_workers=0", "", ""),
    "RuntimeError: Some tensors share memory, this will lead to duplicate memory on disk": ("save_safetensors=False", "", ""),
    "AssertionError: Transformer Engine is not installed": ("switch off the option", "Blocked", "dependency"),
    "AssertionError: padded_vocab_size value from checkpoint (32128) is not equal to the input argument value (32256).": (
        "--use-checkpoint-args",
        "",
        "",
    ),
    "ValueError: You passed `model_init_kwargs` to the GRPOConfig, but your model is already instantiated.": (
        "either the model's name",
        "",
        "",
    ),
    "ValueError: Number of reward weights (1) must match number of reward functions (2)": ("reward_funcs", "", ""),
    "ValueError: Invalid format: the dataset must contain 'prompt', 'chosen' and 'rejected'": (
        "rename_column",
        "Blocked",
        "data",
    ),
    "AssertionError: no sync context manager is incompatible with gradient partitioning logic of ZeRO stage 3": (
        "gradient_accumulation_steps=1",
        "",
        "",
    ),
    "RuntimeError: still have inflight params": ("set_z3_leaf_modules", "", ""),
    "AssertionError: The parameter 447 has already been reduced. Gradient computed twice for this partition.": (
        "use_reentrant=False",
        "",
        "",
    ),
    "ValueError: Must flatten tensors with uniform dtype but got torch.float32 and torch.bfloat16": (
        "bnb_4bit_quant_storage",
        "",
        "",
    ),
    "ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`": (
        "use_orig_params=True",
        "",
        "",
    ),
    "RuntimeError: Expected is_sm80 || is_sm90 to be true, but got false.": ("compute_cap", "", ""),
    "RuntimeError: p.attn_bias_ptr is not correctly aligned": ("pad_to_multiple_of=8", "Fail", "training"),
    "RuntimeError: CUDA error: operation not permitted when stream is capturing": (
        "--disable-cuda-graph",
        "Blocked",
        "rollout engine",
    ),
    "ValueError: There is no module or parameter named 'base_model' in LlamaForCausalLM": ("merge_and_unload()", "", ""),
    "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128.": (
        "a smaller tensor parallel size",
        "",
        "",
    ),
    "ValueError: Unknown quantization method: mxfp4. Must be one of": ("a newer version may know", "", ""),
    "ValueError: Quantization method specified in the model config (gptq) does not match the quantization method specified": (
        "without its option quantization",
        "",
        "",
    ),
    "RuntimeError: PTX was compiled with an unsupported toolchain": ("that the driver knows", "Blocked", "host"),
    "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.": ("ray list tasks", "", ""),
    "TypeError: Could not serialize the argument for a task: cannot pickle '_thread.lock' object": (
        "inspect_serializability",
        "",
        "",
    ),
    "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: A": (
        "a branch by rank",
        "",
        "",
    ),
    "ValueError: Attempting to unscale FP16 gradients.": ("they have to be fp32", "", ""),
    "AssertionError: No inf checks were recorded for this optimizer.": ("have a gradient", "Fail", "training"),
    "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group": (
        "start the optimizer anew",
        "",
        "",
    ),
    "ValueError: Image features and image tokens do not match: tokens: 1024, features 1020": ("removes placeholders", "", ""),
    "ValueError: num_samples should be a positive integer value, but got num_samples=0": ("leaves nothing", "Blocked", "data"),
    'ValueError: Unknown split "validation". Should be one of': ("train_test_split()", "", ""),
    "RuntimeError: Dataset scripts are no longer supported, but found gsm8k.py": ("datasets<4", "Blocked", "dependency"),
    "TypeError: Couldn't cast array of type string to int64": ("one type for all rows", "Blocked", "data"),
    "BlockingIOError: [Errno 11] Unable to synchronously open file (unable to lock file, errno = 11)": (
        "HDF5_USE_FILE_LOCKING",
        "Blocked",
        "data",
    ),
    "ValueError: Invalid CUDA 'device=0' requested.": ("device_count()", "Blocked", "host"),
    "ValueError: Expected parameter loc of Normal(loc: x) to satisfy the constraint Real(), but found invalid values:": (
        "max_grad_norm",
        "Fail",
        "training",
    ),
    "gymnasium.error.NameNotFound: Environment `HalfCheetah` doesn't exist.": ("pprint_registry", "Blocked", "dependency"),
    "_tkinter.TclError: no display name and no $DISPLAY environment variable": ("xvfb-run", "Blocked", "host"),
    "AssertionError: The algorithm only supports (<class 'Box'>,) as action spaces but Discrete(2) was provided": (
        "PPO and A2C take both",
        "Blocked",
        "config",
    ),
    "ValueError: Observation spaces do not match: Box(4,) != Box(6,)": ("wrappers", "Blocked", "config"),
    "KeyError: 'eval_loss'": ("metric_for_best_model", "", ""),
    "ValueError: The model did not return a loss from the inputs, only the following keys: logits.": ("without labels", "", ""),
    "ValueError: No columns in the dataset match the model's forward method signature: (input_ids).": (
        "remove_unused_columns=False",
        "Blocked",
        "data",
    ),
    "RuntimeError: Unable to find an engine to execute this computation": ("backends.cudnn", "", ""),
    "MisconfigurationException: `Trainer(strategy='ddp')` is not compatible with an interactive environment.": (
        "ddp_notebook",
        "Blocked",
        "config",
    ),
    "MisconfigurationException: No supported gpu backend found!": ("accelerator='auto'", "Blocked", "host"),
    "ValueError: Expected input batch_size (32) to match target batch_size (16).": ("an axis is missing", "Fail", "training"),
}
"""An example of each, in the file's order: words of what to look at; verdict and boundary, or "" where its place decides."""


OWN, TRAINER = "/work/own/steps.py", "/opt/venv/lib/python3.12/site-packages/transformers/trainer.py"
STEP = "(TaskRunner pid=1) step:1 - actor/loss:0.5 - training/global_step:1\n"


def raised(error: str, file: str) -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line 11, in work\n    x()\n{error}\n'


@pytest.mark.parametrize("error", SENTENCES)
def test_what_to_look_at_follows_from_the_sentence_wherever_it_is_raised(error: str, tmp_path: Path) -> None:
    word, verdict, boundary = SENTENCES[error]
    assert word not in error
    for file in (TRAINER,) if error.startswith("KeyError") else (OWN, TRAINER):
        answer = triaged(tmp_path, raised(error, file))
        assert not answer.rule and word in answer.follow_up, answer
        assert answer.verdict in ("Fail", "Blocked") and (not verdict or (answer.verdict, answer.boundary) == (verdict, boundary))


AROUND = {"dependency", "host", "rollout engine"}
"""Boundaries around the code under test, whatever was trained before."""


@pytest.mark.parametrize("error", [error for error, (_, _, boundary) in SENTENCES.items() if boundary not in AROUND | {""}])
def test_after_a_step_no_sentence_about_inputs_makes_it_blocked(error: str, tmp_path: Path) -> None:
    assert triaged(tmp_path, STEP + raised(error, TRAINER)).verdict == "Fail"


def test_every_sentence_has_an_example_that_no_earlier_one_takes() -> None:
    known = signatures.load().steps.sentences
    first = [next((at for at, each in enumerate(known) if re.search(each.evidence, error)), None) for error in SENTENCES]
    assert first == list(range(len(known)))
    assert all(bool(each.verdict) == bool(each.boundary) for each in known)
