"""Follow a job from attempt to attempt, to the end of its chain."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..base.errors import TimedOut
from ..base.paths import JobFolder
from ..job.follow import Say, how_to_follow
from ..record import chain as chains
from ..record.chain import Chain
from ..record.job_folder import Result

POLL_S = 0.5

FollowOne = Callable[[JobFolder, "float | None"], Result]
"""Follows one job to its end, for at most this many seconds."""


def to_the_end(folder: JobFolder, follow_one: FollowOne, say: Say, timeout_s: float | None = None) -> tuple[JobFolder, Result]:
    """Follow ``folder``'s job with ``follow_one``, and each later attempt of its chain; return the last one and its result.

    Raises:
        TimedOut: the chain goes on after ``timeout_s`` seconds.
    """
    began = time.monotonic()

    def left_s() -> float | None:
        return None if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - began))

    while True:
        result = follow_one(folder, left_s())
        following = _next_attempt(folder, left_s, say)
        if following is None:
            return folder, result
        folder = following


def _next_attempt(folder: JobFolder, left_s: Callable[[], float | None], say: Say) -> JobFolder | None:
    """Wait for the attempt after this one; return None when no other follows."""
    note, shared = "", folder.shared
    while (chain := chains.find(shared, folder.submission_id)) is not None:
        number = [attempt.id for attempt in chain.attempts].index(folder.submission_id) + 1
        if number < len(chain.attempts):
            following = chain.attempts[number].id
            say(f"{following}: attempt {number + 1} of {chain.id}")
            return shared.job(following)
        if chain.ended_at:
            say(f"{chain.id}: {_summary(chain)}")
            return None
        if chain.note and chain.note != note:
            note = chain.note
            say(f"{chain.id}: {note}")
        if left_s() == 0.0:
            raise TimedOut(
                f"job '{chain.id}' has no next attempt yet ({chain.note or 'its last one has just ended'})",
                hint=f"{how_to_follow(folder)}; or stop it: ./scripts/52_stop.sh {chain.id}",
            )
        time.sleep(POLL_S)
    return None


def _summary(chain: Chain) -> str:
    count = len(chain.attempts)
    return f"no further attempt after {count} attempt{'s' if count != 1 else ''}: {chain.note}"
