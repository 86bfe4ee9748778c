"""In which collectives the ranks of a run waited when NCCL's watchdog ended them. Pure."""

from __future__ import annotations

import re

_TIMED_OUT = re.compile(
    rb"\[Rank (?P<rank>\d{1,6})\] Watchdog caught collective operation timeout: "
    rb"WorkNCCL\(SeqNum=(?P<call>\d{1,12}), OpType=(?P<kind>\w{1,40})"
)
"""PyTorch's report of a rank; the number counts the calls of one process group."""
_NOTICED = re.compile(
    rb"Rank (?P<rank>\d{1,6})\] Exception \(either an error or timeout\) detected by watchdog at work: (?P<call>\d{1,12})"
)
"""Its other report, of a rank whose first one the log may lack."""
MOST_RANKS = 8
"""So many ranks are named."""
NOTHING = {"single": "yes", "no_apart": "yes"}
"""What the reports of one rank say of the others."""


def waiting(log: bytes) -> dict[str, str]:
    """Return what the ranks' reports say together, under one name.

    ``apart``: in which calls they were, if these differ; ``together``: which of them were in the same one; ``single``: nothing,
    as one rank reports, or one reports several calls, which are then of several process groups. Without ``apart`` also
    ``no_apart``.
    """
    found = {(int(match["rank"]), int(match["call"]), match["kind"].decode()) for match in _TIMED_OUT.finditer(log)}
    kinds = {call: kind for _, call, kind in found}
    noticed = ((int(match["rank"]), int(match["call"])) for match in _NOTICED.finditer(log))
    also = {(rank, call, kinds[call]) for rank, call in noticed if call in kinds}
    found |= {each for each in also if each[0] not in {rank for rank, _, _ in found}}
    ranks = {rank: (call, kind) for rank, call, kind in sorted(found)}
    if len(ranks) < 2 or len(ranks) < len(found):
        return NOTHING
    calls = {where: [rank for rank in ranks if ranks[rank] == where] for where in ranks.values()}
    said = [f"{_named(those)} in call {call} ({kind})" for (call, kind), those in calls.items()]
    return {"apart": ", ".join(said)} if len(said) > 1 else {"together": said[0], "no_apart": "yes"}


def _named(ranks: list[int]) -> str:
    listed = ", ".join(map(str, ranks[:MOST_RANKS])) + (", …" if len(ranks) > MOST_RANKS else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {listed}"
