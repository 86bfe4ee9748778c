"""Which metrics of a trainer mean what, by regular expressions of their names."""

from __future__ import annotations

import msgspec


class MetricNames(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Patterns for ``re.search`` on a metric's name."""

    finite: str
    """A value of NaN or infinity makes the training worthless."""
    gradients: str
    logprobs: str
    logprobs_key: str = ""
    """The config key that makes the trainer log them, when it is true."""
    rewards: str
    values: str
    """What the critic predicts."""
    lengths: str
    """How long responses are (tokens)."""
    trend: list[str]
    """Metrics that must move up in a run that learns."""
    length_cap: str = ""
    """The config key that limits a response's length."""

    def patterns(self) -> list[str]:
        """Return every pattern, for a check that each is a regular expression."""
        return [self.finite, self.gradients, self.logprobs, self.rewards, self.values, self.lengths, *self.trend]


STEP_PARTS: dict[str, tuple[str, ...]] = {
    "generation": ("timing_s/gen", "timing_s/reward"),
    "training": tuple(f"timing_s/{name}" for name in ("old_log_prob", "ref", "values", "adv", "update_critic", "update_actor")),
    "weight_sync": ("timing_s/update_weights", "timing_s/switch_to_trainer", "timing_s/switch_to_rollout"),
    "saving": ("timing_s/save_checkpoint",),
    "validation": ("timing_s/testing",),
}
"""The seconds of a step's parts, as verl logs them; validation is not in its time of the step. Source: verl/trainer/ppo."""

VERL = MetricNames(
    # The variance of constant values explains nothing, and a rate over no time is infinite: both occur in healthy runs.
    finite=r"(?i)^(?!.*(explained_var|timing|time|elapsed|perf/|throughput|tflops|mfu|tps|memory|mem_|skipped|previous|best))",
    gradients=r"(?i)grad_norm",
    # verl logs differences between the policy that generates and the one that trains, and their log perplexities.
    logprobs=r"(?i)^(?!.*(diff|valid|timing)).*log_?prob|(training|rollout)_log_ppl$|rollout_probs_diff_(mean|std|max)$",
    logprobs_key="actor_rollout_ref.rollout.calculate_log_probs",
    rewards=r"(?i)^critic/(rewards|score)/mean|^(train/)?reward(_mean)?$",
    values=r"(?i)^critic/values/mean",
    lengths=r"(?i)^response_length/mean",
    trend=["^val-core/.*mean", "^val-core/", "^critic/score/mean", "^critic/rewards/mean", "^(train/)?reward"],
    length_cap="data.max_response_length",
)

NEMO_RL = MetricNames(
    # NeMo-RL's own check of a maximum passes when any but the first value is NaN.
    finite=".",
    gradients=r"^train/(?:\w+/)?grad_norm$",
    logprobs=r"^train/(token_mult_prob_error|gen_kl_error|policy_kl_error|sampling_importance_ratio|approx_entropy)$",
    rewards=r"^train/reward$",
    values=r"^train/critic/values",
    lengths=r"^train/mean_gen_tokens_per_sample$",
    trend=["^validation/(accuracy|reward)", "^train/reward$"],
    length_cap="policy.generation.max_new_tokens",
)

CURVES: tuple[tuple[str, str], ...] = (
    ("Reward", r"^critic/(score|rewards)/mean$|^val-core/.*mean|^(train|validation)/(reward|accuracy)$"),
    ("Loss", r"^(train|val)/loss$|^actor/(pg_)?loss$|^critic/vf_loss$|^validation/.*loss$"),
    ("KL divergence", r"(?i)^actor/(ppo_kl|kl_loss)$|^actor/reward_kl_penalty$|^rollout_corr/kl$|^train/(gen|policy)_kl_error$"),
    ("Entropy", r"(?i)^(actor|train)/(approx_)?entropy(_loss)?$"),
    ("Gradient norm", r"^(actor|critic|train)/grad_norm$"),
    ("Response length", r"^response_length/mean$|^train/mean_gen_tokens_per_sample$"),
    ("Throughput", r"(?i)^perf/throughput$|^performance/tokens_per_sec_per_gpu$|^train/tokens_per_sec"),
    ("Time of a step", r"^perf/time_per_step$|^timing_s/step$|^timing/train/total_step_time$"),
)
"""The metrics that a person looks at first, by kind, of every known trainer; patterns for ``re.search`` on a metric's name."""

MEASURED = r"(?i)timing|(^|[/_])(perf|time|mfu|tps|memory|mem)([/_(]|$)|throughput|tflops|tokens_per_sec|max_memory|cpu_memory"
"""Metrics of the machine, which differ between two runs that do the same."""
