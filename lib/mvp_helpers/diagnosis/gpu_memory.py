"""Why a GPU had too little memory, by the numbers that PyTorch's message gives."""

from __future__ import annotations

import re

_SIZE = re.compile(
    r"(\d{1,9}(?:\.\d{1,9})?) ([GM])iB (total capacity|is free|free|memory in use|reserved in total"
    r"|is allocated by PyTorch|is reserved by PyTorch but unallocated)"
    r"|capaci?ty of (\d{1,9}(?:\.\d{1,9})?) ([GM])iB"
)
_OWN = re.compile(r"this process has (\d{1,9}(?:\.\d{1,9})?) ([GM])iB memory in use")
_USERS = re.compile(r"\bProcess \d{1,12} has (\d{1,9}(?:\.\d{1,9})?) ([GM])iB memory in use")
_WANTED = re.compile(r"Tried to allocate (\d{1,9}(?:\.\d{1,9})?) ([GM])iB")
_ALLOWED = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ([GM])iB allowed")
_KINDS = ("free", "unallocated", "is allocated", "in use", "reserved in", "total")
"""What a size is of, by words of its text; the first that it contains counts."""
HELD = 0.2
"""The least part of a GPU's memory that others hold for it to be the reason."""
MOST = 0.9
"""From this part on it is nearly all of a GPU's memory."""
UNUSED_GIB = 1.0
"""The least that PyTorch has reserved and does not use for it to be the reason."""
OTHERS = (
    "nvidia-smi on that host for which processes hold it: end those that an earlier run left{verl?; this run's own engine "
    "or reward server gets a smaller share (gpu_memory_utilization, mem_fraction_static)}; smaller batches only after that"
)
PIECES = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
AMPLE, AMPLE_GIB = 5, 1.0
"""How many times what was asked for, and how much more, was free at least for the GPU's size not to be the reason."""
SHARE = "grep for set_per_process_memory_fraction (an engine's or a tool's memory fraction): a larger share, or none"
ELSEWHERE = (
    "what limits that process apart from the GPU's size: the share that a virtual GPU or MPS gives it"
    " (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT), ulimit -v and the memory of the host or its container, in which the driver keeps its"
    " mappings (of Windows the page file); an engine that sleeps, if cumem_allocator.cpp is in the lines before (pip show vllm:"
    " a newer one, or without sleep mode); else a process that took the memory for a moment (nvidia-smi -l 1)"
)


def shortage(text: str) -> tuple[str, str] | None:
    """Return why there was too little memory and what to do, if the numbers of PyTorch's message say so."""
    sizes = _sizes(text)
    total, free, own = sizes.get("total"), sizes.get("free"), sizes.get("own")
    asked = _WANTED.search(text)
    wanted = _gib(*asked.groups()) if asked else 0.0
    if total is None or free is None or wanted >= total:  # what no free GPU has, either
        return None
    if wanted and free >= max(AMPLE * wanted, wanted + AMPLE_GIB):
        if allowed := _ALLOWED.search(text):
            return f"The process may use {_gib(*allowed.groups()):.1f} GiB of that GPU's memory only, and has used them.", SHARE
        enough = f"{free:.1f} GiB of that GPU's memory were free, far more than it was asked for: its size is not the limit."
        return enough, ELSEWHERE
    if own is None:
        return None
    held, unused = total - free - own, sizes.get("unallocated", 0.0)
    if held >= HELD * total:
        return (
            f"Other processes hold {held:.1f} of {total:.1f} GiB of that GPU's memory, so that this one had too little.",
            OTHERS,
        )
    counted = sizes.get("is allocated", 0.0) + unused  # more than the process has, where memory was unmapped (offloaded, asleep)
    if wanted and counted <= own and unused >= UNUSED_GIB and unused + free >= wanted > free:
        return f"PyTorch has {unused:.1f} GiB reserved that no tensor uses, but in pieces that are too small.", PIECES
    return None


def held(text: str) -> dict[str, str]:
    """Return as ``holds`` how much of the GPU's memory the process has, if its message says nearly all; else ``no_holds``."""
    sizes = _sizes(text)
    total, own = sizes.get("total", 0.0), sizes.get("own", 0.0)
    return {"holds": f"{own:.1f} of {total:.1f} GiB"} if total and own >= MOST * total else {"no_holds": "yes"}


def _sizes(text: str) -> dict[str, float]:
    """Return the sizes in PyTorch's message in GiB, by their kind; ``own``: what the process that ran out of memory has."""
    sizes: dict[str, float] = {}
    for amount, unit, what, capacity, capacity_unit in _SIZE.findall(text):
        # Without the words that _OWN knows, the last "in use" is this process's own.
        sizes[next((kind for kind in _KINDS if kind in what), "total")] = _gib(amount or capacity, unit or capacity_unit)
    if own_use := _OWN.search(text):
        sizes["in use"] = _gib(*own_use.groups())
    elif len(users := [_gib(*use) for use in _USERS.findall(text)]) > 1:  # in a container it does not know which of them it is
        counted = sizes.get("is allocated", 0.0) + sizes.get("unallocated", 0.0)
        sizes["in use"] = min((use for use in users if use >= counted), default=users[-1])
    if (own := sizes.get("in use", sizes.get("reserved in"))) is not None:
        sizes["own"] = own
    return sizes


def _gib(amount: str, unit: str) -> float:
    return float(amount) / (1 if unit == "G" else 1024)
