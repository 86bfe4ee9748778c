"""Make data and a model without a network: word problems, a tokenizer trained on them, a tiny Qwen2. Same seed, same bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from .gsm8k import INSTRUCTION, Problem
from .settings import Generated

MADE_WITH = ("tokenizers", "torch", "transformers", "pyarrow")
VERSION = 1
"""Part of every recipe: increase it with every change of the templates below, so that data are made again."""

_NAMES = ("Tom", "Mia", "Ali", "Lin", "Ana", "Ben", "Eva", "Raj")
_THINGS = ("apples", "books", "coins", "pens", "cards", "eggs")
_CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""Turns are independent: rendered one by one and concatenated they equal the conversation, as verl's SFT data need."""


def _buys(name: str, thing: str, a: int, b: int) -> tuple[str, str, int]:
    return f"{name} has {a} {thing} and buys {b} more. How many {thing} does {name} have?", f"{a}+{b}", a + b


def _gives(name: str, thing: str, a: int, b: int) -> tuple[str, str, int]:
    return f"{name} has {a + b} {thing} and gives away {a}. How many {thing} are left?", f"{a + b}-{a}", b


def _bags(name: str, thing: str, a: int, b: int) -> tuple[str, str, int]:
    return f"{name} fills {a} bags with {b} {thing} each. How many {thing} is that?", f"{a}*{b}", a * b


def _shares(name: str, thing: str, a: int, b: int) -> tuple[str, str, int]:
    return f"{name} shares {a * b} {thing} among {a} friends. How many {thing} does each get?", f"{a * b}/{a}", b


_TEMPLATES: tuple[Callable[[str, str, int, int], tuple[str, str, int]], ...] = (_buys, _gives, _bags, _shares)


def problems(count: int, seed: int) -> list[Problem]:
    """Return ``count`` different problems, at most 8000 of the 12288 possible; a larger ``count`` only appends."""
    choose = random.Random(seed)
    by_question: dict[str, Problem] = {}
    while len(by_question) < count:
        template = choose.choice(_TEMPLATES)
        thing = choose.choice(_THINGS)
        question, sum_, result = template(choose.choice(_NAMES), thing, choose.randint(2, 9), choose.randint(2, 9))
        by_question[question] = Problem(question, f"{sum_} = <<{sum_}={result}>>{result} {thing}.\n#### {result}")
    return list(by_question.values())


def splits(settings: Generated) -> tuple[list[Problem], list[Problem]]:
    """Return training problems, and test problems that are not among them."""
    every = problems(settings.train_rows + settings.test_rows, settings.seed)
    return every[: settings.train_rows], every[settings.train_rows :]


def write_model(folder: Path, settings: Generated) -> None:
    """Write a tokenizer and random weights to ``folder``, loadable with ``from_pretrained``."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    # Separate problems, so that the tokenizer does not depend on the number of rows.
    corpus = [f"{problem.question} {INSTRUCTION} {problem.answer}" for problem in problems(2000, settings.seed + 1)]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([*corpus, "system user assistant"], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        model_max_length=1024,
    )
    tokenizer.chat_template = _CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)

    config = Qwen2Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=settings.hidden_size,
        intermediate_size=2 * settings.hidden_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        Qwen2ForCausalLM(config).save_pretrained(folder)
