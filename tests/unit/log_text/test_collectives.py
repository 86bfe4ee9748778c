"""What the reports of NCCL's watchdog say together."""

from __future__ import annotations

import pytest

from mvp_helpers.log_text import collectives


def report(rank: int, call: int, kind: str = "ALLREDUCE") -> str:
    said = f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={call}, OpType={kind}, NumelIn=1, Timeout(ms)=600000)"
    return f"[rank{rank}]:[E701 10:20:30 ProcessGroupNCCL.cpp:616] [Rank {rank}] {said} ran for 600010 milliseconds\n"


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([(0, 7, "ALLREDUCE"), (1, 9, "BROADCAST")], {"apart": "rank 0 in call 7 (ALLREDUCE), rank 1 in call 9 (BROADCAST)"}),
        ([(0, 7, "ALLREDUCE"), (1, 7, "BROADCAST")], {"apart": "rank 0 in call 7 (ALLREDUCE), rank 1 in call 7 (BROADCAST)"}),
        ([(3, 7, "SEND"), (1, 7, "SEND")], {"together": "ranks 1, 3 in call 7 (SEND)", "no_apart": "yes"}),
        ([(2, 7, "SEND"), (2, 7, "SEND")], collectives.NOTHING),  # the same rank twice
        ([(0, 7, "SEND"), (1, 7, "SEND"), (0, 400, "SEND")], collectives.NOTHING),  # of two process groups
        ([], collectives.NOTHING),
    ],
)
def test_calls_of_several_ranks_are_compared(reports: list[tuple[int, int, str]], said: dict[str, str]) -> None:
    assert collectives.waiting("".join(report(*each) for each in reports).encode()) == said


def test_only_the_first_of_many_ranks_are_named() -> None:
    many = collectives.waiting("".join(report(rank, 5) for rank in range(64)).encode())
    assert many["together"] == "ranks 0, 1, 2, 3, 4, 5, 6, 7, … in call 5 (ALLREDUCE)"


def test_a_rank_counts_whose_watchdog_only_reports_the_call() -> None:
    noticed = (
        "[rank3]:[E321] [PG 1 Rank 3] Exception (either an error or timeout) detected by watchdog at work: {}, last one: 9\n"
    )
    log = report(0, 7) + report(1, 7)
    assert collectives.waiting((log + noticed.format(7)).encode())["together"] == "ranks 0, 1, 3 in call 7 (ALLREDUCE)"
    assert collectives.waiting((log + noticed.format(8)).encode())["together"] == "ranks 0, 1 in call 7 (ALLREDUCE)"
