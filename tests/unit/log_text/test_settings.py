"""The settings of a log that an error names."""

from __future__ import annotations

import pytest

from mvp_helpers.log_text import settings

LOG = """\
loading the modules
'actor': {'max_model_len': 4096, 'max_num_batched_tokens': 512},
  num_layers ...................................... 32
+ train.py --save-only-model true --pipeline-model-parallel-size 3 data.train_files=/d/rows.parquet
src_dir=/data/sft_runs/lerobot_data
  "resume_pkl": "runs/00005-cond/network-snapshot-004240.pkl",
Not found: /images/one.jpg; No such file or directory
learning_rate=1e-5 (an equivalent value is max_len=7)
  File "/c/model.py", line 3, in build
    num_heads = config.num_heads
experiment_name: A_baseline
padding_free=True
padding_free=False
WARNING: max_tokens=9
shapes = make_shapes(4)
secret_file=x
use mixed precision via `with torch.autocast(device_type='torch_device'):`
bf16 ............................................ True
Error executing job with overrides: ['data.train_batch_size=4', 'actor.ppo_mini_batch_size=8']
"""


@pytest.mark.parametrize(
    ("message", "expected"),
    {
        "ValueError: max_num_batched_tokens (512) is smaller than max_model_len (4096)": [
            "'max_num_batched_tokens': 512 (line 2)",
            "'max_model_len': 4096 (line 2)",
        ],
        "num_layers should be divisible by pipeline_model_parallel_size": [
            "num_layers ...................................... 32 (line 3)",
            "--pipeline-model-parallel-size 3 (line 4)",
        ],
        "not compatible with save_only_model=True": ["--save-only-model true (line 4)"],
        "KeyError: 'Repo /data/sft_runs/lerobot_data lacks keys'": ["src_dir=/data/sft_runs/lerobot_data (line 5)"],
        "No such file or directory: 'runs/00005-cond/network-snapshot-004240.pkl'": [
            '"resume_pkl": "runs/00005-cond/network-snapshot-004240.pkl" (line 6)'
        ],
        "Experiment directory already exists: checkpoints/A_baseline": ["experiment_name: A_baseline (line 11)"],
        "of two values the last comes first, and words may name it: no padding free": [
            "padding_free=False (line 13)",
            "padding_free=True (line 12)",
        ],
        "No such file or directory: '/images/one.jpg'": [],
        "max_tokens is too large": [],
        "max_len of a proposal": [],
        "num_heads in code": [],
        "make_shapes is a function": [],
        "train_batch_size (4) must be >= actor.ppo_mini_batch_size (8)": [
            "data.train_batch_size=4 (line 19)",
            "actor.ppo_mini_batch_size=8 (line 19)",
        ],
        "sequence_length=900 is larger than model_len=4096": ["'max_model_len': 4096 (line 2)"],
        "sequence_length=900 is larger than model_len=8192": [],
        "no backend of device_type cpu": [],
        "AssertionError: assert not args.bf16": ["bf16 ............................................ True (line 18)"],
        "nothing": [],
    }.items(),
)
def test_a_setting_that_the_error_names_is_found(message: str, expected: list[str]) -> None:
    assert settings.named_in(message, LOG.encode(), 1, None) == expected


def test_only_the_run_before_the_error_counts() -> None:
    log = b"max_len=1\nthe run begins\nmax_len=2\nError: max_len\nmax_len=3\n"
    assert settings.named_in("max_len", log, 2, 4) == ["max_len=2 (line 3)"]
    assert settings.named_in("max_len", log, 1, 3) == ["max_len=1 (line 1)"]
    assert settings.named_in("max_len", log, 4, 4) == []


def test_settings_of_given_names_are_those_with_a_value() -> None:
    log = b"'micro_batch_size': None, 'batch_size': 8\nmax_length=2048\nTokens / micro-batch: 65,536\n"
    assert settings.having("micro_batch_size batch_size max_length", log, 1, None) == [
        "'batch_size': 8 (line 1)",
        "max_length=2048 (line 2)",
    ]


def test_no_more_than_a_few_are_named() -> None:
    names = [f"option_{letter}" for letter in "abcdefgh"]
    log = "\n".join(f"{name}=1" for name in names).encode()
    assert len(settings.named_in(" ".join(names), log, 1, None)) == settings.MOST
