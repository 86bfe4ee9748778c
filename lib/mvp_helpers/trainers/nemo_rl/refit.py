"""How long NeMo-RL takes to bring new weights to separate generation workers, from its metrics, and what takes the time."""

from __future__ import annotations

from statistics import mean

from ..trainer import Metrics

TIMING = "timing/train/prepare_for_generation/"
TOTAL, TRANSFER = f"{TIMING}total", f"{TIMING}transfer_and_update_weights"
PARTS = f"{TIMING}weight_transfer/"
"""Revisions with delta compression by ``policy.generation.delta_compression`` time the packing and unpacking below it."""
WITHIN = f"{PARTS}producer/sparse_nonzero"
"""A part of ``sparse_encode``."""
STAGES = ("refit/transfer/relay_flush_s", "refit/transfer/global_commit_s")
"""Revisions with ``refit_transport=vllm_zmq_sparse`` time the ways to the receivers, of which the rest is export and encoding."""
PREPARATION, BROADCAST = "weight preparation (export, encoding, decoding, loading)", "the broadcast of the payload"


def sentences(metrics: Metrics) -> list[str]:
    """Return the mean seconds of each part over the steps that logged it, and the bottleneck; metrics are by step and name."""
    names = sorted({name for values in metrics.values() for name in values})
    wanted = [name for name in names if name in (TOTAL, TRANSFER, *STAGES) or name.startswith(PARTS)]
    seconds = {name: mean(values[name] for values in metrics.values() if name in values) for name in wanted}
    if not seconds:
        return ["weight transfer: no timings were logged"]
    shown = ", ".join(f"{name.removeprefix(TIMING)} {value:.3g} s" for name, value in seconds.items())
    return [f"weight transfer, mean of the steps: {shown}", f"weight transfer: {_bottleneck(seconds)}"]


def _bottleneck(seconds: dict[str, float]) -> str:
    if TOTAL not in seconds or TRANSFER not in seconds:
        return "the timers do not show what takes the time"
    total, transfer = seconds[TOTAL], seconds[TRANSFER]
    parts = sum(value for name, value in seconds.items() if name.startswith(PARTS) and name != WITHIN)
    stages = sum(seconds.get(name, 0.0) for name in STAGES)
    if parts or stages:
        broadcast = max(transfer - parts, 0.0) if parts else stages
        preparation = max(total - broadcast, 0.0)
    elif total - transfer > transfer:
        preparation, broadcast = total - transfer, transfer
    else:
        return "its bottleneck is transfer_and_update_weights, of which this revision times neither preparation nor broadcast"
    if preparation >= broadcast:
        return f"its bottleneck is {PREPARATION}, {preparation:.3g} s of {total:.3g} s, not {BROADCAST}"
    return f"its bottleneck is {BROADCAST}, {broadcast:.3g} s of {total:.3g} s"
