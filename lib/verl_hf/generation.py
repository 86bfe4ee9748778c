"""Token-in, token-out generation with ``transformers`` and the trainer's weights; independent of Ray.

With one thread the same prompt, seed and weights give the same answer to the bit, whatever is generated beside it: each row draws
from random numbers of its own, and the shapes of a batch are such that torch adds up a row's numbers in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

ROWS, COLUMNS = 4, 64
"""A batch has a multiple of this many rows, and prompts are padded to one of this many tokens: other shapes change last bits."""

# Sent by verl with every request, without effect here: log-probs are always returned.
_NEUTRAL = {"repetition_penalty": 1.0, "n": 1, "min_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
_IGNORED = frozenset({"logprobs", "seed"})


@dataclass(frozen=True)
class Sampling:
    """How to draw tokens. ``temperature`` 0 is greedy; ``top_k`` below 1 and ``top_p`` 1 are off."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    ignore_eos: bool = False

    @classmethod
    def from_verl(cls, params: Mapping[str, Any], max_tokens: int, ignore_eos: bool = False) -> Sampling:
        """Return a request's sampling parameters; ``max_tokens`` and ``ignore_eos`` are the defaults.

        Raises:
            ValueError: a parameter that would change the result is not supported.
        """
        rest = {name: value for name, value in params.items() if value is not None and name not in _IGNORED}
        known = {
            "max_tokens": int(rest.pop("max_new_tokens", max_tokens)),
            "ignore_eos": ignore_eos,
            **{name: rest.pop(name) for name in ("max_tokens", "temperature", "top_p", "top_k", "ignore_eos") if name in rest},
        }
        unsupported = {name: value for name, value in rest.items() if _NEUTRAL.get(name, ...) != value}
        if unsupported:
            raise ValueError(f"rollout.name=hf does not support the sampling parameters {unsupported}")
        return cls(**known)


@dataclass(frozen=True)
class Completion:
    """One answer: its tokens, their log-probabilities (natural logarithm), and whether it ended with an end token."""

    token_ids: list[int]
    log_probs: list[float]
    ended: bool


class TokenModel:
    """A causal language model whose weights come from the trainer.

    Args:
        path: folder of a Hugging Face model; its config, tokenizer and generation config are read, its weights are not.
        dtype: of the weights and of the computation.
        device: of the weights and of the computation.
    """

    def __init__(
        self,
        path: str,
        *,
        dtype: torch.dtype = torch.float32,
        trust_remote_code: bool = False,
        device: str = "cpu",
    ) -> None:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

        config = AutoConfig.from_pretrained(path, trust_remote_code=trust_remote_code)
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
        model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=trust_remote_code)
        self.model = model.eval().to(device)
        self.eos_ids = _eos_ids(path, tokenizer.eos_token_id)
        self.pad_id = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.eos_ids[0])
        # generate() takes missing settings from here: an empty config keeps the model's sampling defaults out.
        self.model.generation_config = GenerationConfig(pad_token_id=self.pad_id)
        self.max_length = int(getattr(config, "max_position_embeddings", None) or 1 << 30)
        self.has_weights = False
        self._received: set[str] = set()

    @torch.no_grad()
    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Completion]:
        """Return one completion per prompt and seed, in order, generated in one padded batch.

        Raises:
            RuntimeError: no weights have been received, or an update is not complete.
            ValueError: a prompt is empty or leaves no room in the model's context.
        """
        from transformers import GenerationConfig

        if not self.has_weights:
            raise RuntimeError("asked to generate before the trainer sent all its weights")
        lengths = sorted(map(len, prompts))
        room = self.max_length - lengths[-1]
        if room < 1 or lengths[0] < 1:
            raise ValueError(f"prompts of {lengths[0]} to {lengths[-1]} tokens; the model takes 1 to {self.max_length - 1}")
        device = self.model.device
        rows = [*zip(prompts, seeds, strict=True)]
        rows += rows[:1] * (-len(rows) % ROWS)
        width = columns(lengths[-1])
        # Pad on the left, so that every row's next token is in the last column.
        ids = torch.tensor([[self.pad_id] * (width - len(prompt)) + list(prompt) for prompt, _ in rows], device=device)
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in rows], device=device)
        eos_ids = [] if sampling.ignore_eos else self.eos_ids
        config = GenerationConfig(
            max_new_tokens=max(1, min(sampling.max_tokens, room)),
            eos_token_id=eos_ids or None,
            pad_token_id=self.pad_id,
            do_sample=False,  # the draws are those of _draws, and the likeliest token is what they make it
        )
        log_probs, processors = _draws(sampling, rows)
        output = self.model.generate(input_ids=ids, attention_mask=mask, generation_config=config, logits_processor=processors)
        tokens = output[: len(prompts), width:]
        chosen = torch.stack(log_probs, dim=1)[: len(prompts)].gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        return [_completion(row, row_probs, eos_ids) for row, row_probs in zip(tokens.tolist(), chosen.tolist(), strict=True)]

    @torch.no_grad()
    def load_weights(self, tensors: Mapping[str, torch.Tensor], *, last: bool) -> None:
        """Copy a part of the weights; ``last`` ends the update.

        Raises:
            ValueError: a tensor is unknown or has another shape, or, at the end, one is missing: the rollout would use weights
                that are not the trainer's.
        """
        self.has_weights = False
        own = self.model.state_dict()
        unexpected = sorted(set(tensors) - set(own))
        misshapen = sorted(name for name in set(tensors) & set(own) if tensors[name].shape != own[name].shape)
        if unexpected or misshapen:
            raise ValueError(
                f"the trainer's weights do not fit the rollout model: unexpected {unexpected}, misshapen {misshapen}"
            )
        for name, tensor in tensors.items():
            own[name].copy_(tensor)
        self._received |= set(tensors)
        if not last:
            return
        # Tied weights share storage; the trainer sends them once.
        arrived = {own[name].data_ptr() for name in self._received}
        missing = sorted(name for name, tensor in own.items() if tensor.data_ptr() not in arrived)
        self._received = set()
        if missing:
            raise ValueError(f"the trainer did not send these weights of the rollout model: {missing}")
        self.has_weights = True


def columns(tokens: int) -> int:
    """Return how wide the prompts of a batch are whose longest one has ``tokens`` tokens."""
    return -(-tokens // COLUMNS) * COLUMNS


def _draws(sampling: Sampling, rows: Sequence[tuple[Sequence[int], int]]) -> tuple[list[torch.Tensor], Any]:
    """Return what makes the likeliest token of each step a draw, and a list that gets each step's log-probabilities.

    The largest sum of log-probability and Gumbel noise is a draw from the distribution. The log-probabilities are those after
    temperature and truncation: verl's default ``logprobs_mode=processed_logprobs``.
    """
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    log_probs: list[torch.Tensor] = []
    generators = [torch.Generator().manual_seed(_seed(prompt, seed)) for prompt, seed in rows]

    def draw(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        log_probs.append(scores.float().log_softmax(-1))
        if sampling.temperature == 0:
            return scores
        waits = torch.stack([torch.empty(scores.shape[-1]).exponential_(generator=each) for each in generators])
        return log_probs[-1] - waits.clamp_min(torch.finfo(torch.float32).tiny).log().to(scores.device)

    processors = LogitsProcessorList()
    if sampling.temperature not in (0, 1):
        processors.append(TemperatureLogitsWarper(float(sampling.temperature)))
    if sampling.temperature > 0 and sampling.top_k > 0:
        processors.append(TopKLogitsWarper(int(sampling.top_k)))
    if sampling.temperature > 0 and sampling.top_p < 1:
        processors.append(TopPLogitsWarper(float(sampling.top_p)))
    processors.append(draw)
    return log_probs, processors


def _seed(prompt: Sequence[int], seed: int) -> int:
    """Return the seed of a row: turns of one conversation have the same seed, and other prompts."""
    return int.from_bytes(hashlib.sha256(repr((seed, [*prompt])).encode()).digest()[:8], "big") >> 1


def _eos_ids(path: str, tokenizer_eos: int | None) -> list[int]:
    """Return the end tokens of the tokenizer and of the model's generation config (chat models have several)."""
    from transformers import GenerationConfig

    try:
        configured = GenerationConfig.from_pretrained(path).eos_token_id
    except OSError:
        configured = None
    listed = configured if isinstance(configured, list) else [configured]
    ids = [int(token) for token in dict.fromkeys([tokenizer_eos, *listed]) if token is not None]
    if not ids:
        raise ValueError(f"neither the tokenizer nor the generation config of {path} names an end-of-sequence token")
    return ids


def _completion(tokens: list[int], log_probs: list[float], eos_ids: list[int]) -> Completion:
    """Cut a row after its first end token; the rest is padding."""
    end = next((place + 1 for place, token in enumerate(tokens) if token in eos_ids), None)
    return Completion(tokens[:end], log_probs[:end], ended=end is not None)
