"""The search finds the first bad commit with as few jobs as it says, whatever interrupts it, and changes no repository."""

from __future__ import annotations

import math

import pytest
from histories import History, Lab

from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.bisect import record as records
from mvp_helpers.bisect.search import choose


@pytest.mark.parametrize("at", [1, 2, 7, 12])
def test_the_first_bad_commit_is_found_in_log2_steps(lab: Lab, history: History, at: int) -> None:
    commits = [history.commit("ok" if number < at else "worse") for number in range(13)]
    before = history.snapshot()
    search = lab.search(commits[0], commits[-1])
    assert search.complete().first_bad == commits[at]
    assert len(lab.trials.calls) <= 2 + math.ceil(math.log2(12))
    assert search.neighbour().commit == commits[at - 1]
    assert history.snapshot() == before


def test_a_range_of_one_commit_needs_only_the_two_ends(lab: Lab, history: History) -> None:
    good, bad = history.commit("ok"), history.commit("worse")
    assert lab.search(good, bad).complete().first_bad == bad
    assert len(lab.trials.calls) == 2


def test_a_commit_on_a_merged_branch_is_found(lab: Lab, history: History) -> None:
    good = history.commit("ok")
    history.git("checkout", "--quiet", "-b", "side")
    side = [history.commit(state) for state in ("ok", "ok", "worse", "worse")]
    history.git("checkout", "--quiet", "main")
    for _ in range(4):
        history.commit("ok")
    history.git("merge", "--quiet", "--no-ff", "-X", "theirs", "--message", "merge", "side")
    last = history.commit("worse")
    assert lab.search(good, last).complete().first_bad == side[2]


def test_commits_that_cannot_run_are_skipped(lab: Lab, history: History) -> None:
    states = ["ok", "ok", "no-code", "ok", "broken", "ok", "worse", "other-metrics", "worse", "worse"]
    commits = [history.commit(state) for state in states]
    assert lab.search(commits[0], commits[-1]).complete().first_bad == commits[6]
    skipped = lab.record().commits("skipped")
    assert skipped and set(skipped) <= {commits[at] for at in (2, 4, 7)}


def test_when_only_commits_that_cannot_run_are_left_they_are_the_suspects(lab: Lab, history: History) -> None:
    commits = [history.commit(state) for state in ("ok", "ok", "broken", "broken", "worse", "worse")]
    outcome = lab.search(commits[0], commits[-1]).complete()
    assert outcome.first_bad is None
    assert sorted(outcome.suspects) == sorted(commits[2:5])


def test_the_same_code_is_not_run_twice(lab: Lab, history: History) -> None:
    """Commits that change nothing that jobs use, such as documentation, get the verdict of their code."""
    good = history.commit("ok", number=0)
    for _ in range(6):
        history.commit("ok", number=0)
    worse = history.commit("worse", number=0)
    for _ in range(6):
        last = history.commit("worse", number=0)
    assert lab.search(good, last).complete().first_bad == worse
    assert len(lab.trials.calls) == 2
    assert any("the same code as" in line for line in lab.said)


def test_only_the_gates_that_the_bad_end_fails_judge_what_is_between(lab: Lab, history: History) -> None:
    commits = [history.commit(state) for state in ("ok", "slow-start", "slow-start", "slow-start", "worse")]
    assert lab.search(commits[0], commits[-1]).complete().first_bad == commits[4]


def test_three_runs_of_the_good_end_are_the_baseline(lab: Lab, history: History) -> None:
    good, bad = history.commit("ok"), history.commit("worse")
    lab.trials.figures = {"01": 1.0, "02": 3.0, "03": 1.5}
    lab.search(good, bad, runs=3).complete()
    recorded = lab.record().baseline
    assert recorded and (recorded.gates["learning"].median, recorded.gates["learning"].spread) == (1.5, 1.5)
    assert len(lab.trials.calls) == 4


def test_ends_that_are_not_as_the_user_says_are_bad_input(lab: Lab, history: History) -> None:
    first, worse, ok, later = [history.commit(state) for state in ("ok", "worse", "ok", "ok")]
    with pytest.raises(BadInput, match=rf"the good end {worse[:10]} fails: learning: is worse"):
        lab.search(worse, ok).complete()
    (lab.place / "bisect.json").unlink()
    with pytest.raises(BadInput, match=rf"the bad end {later[:10]} passes every gate"):
        lab.search(first, later).complete()


@pytest.mark.parametrize(("states", "name"), [(("broken", "worse"), "good"), (("ok", "broken"), "bad")])
def test_an_end_that_cannot_run_is_blocked_and_run_again_by_the_same_command(
    lab: Lab, history: History, states: tuple[str, str], name: str
) -> None:
    good, bad = [history.commit(state) for state in states]
    for _ in range(2):
        with pytest.raises(Blocked, match=rf"the {name} end .* cannot be judged: .* before it trained"):
            lab.search(good, bad).complete()
    assert len(set(lab.trials.calls)) == len(lab.trials.calls) == (2 if name == "good" else 3)


def test_an_end_that_the_gates_do_not_fit_is_bad_input(lab: Lab, history: History) -> None:
    good, bad = history.commit("other-metrics"), history.commit("worse")
    with pytest.raises(BadInput, match="has no metric 'reward'"):
        lab.search(good, bad).complete()


STATES = ["ok", "ok", "broken", "ok", "ok", "worse", "worse", "worse", "worse"]


@pytest.mark.parametrize("at", range(5))
def test_an_interrupted_search_follows_its_job_and_repeats_none(lab: Lab, history: History, at: int) -> None:
    commits = [history.commit(state) for state in STATES]
    lab.trials.interrupt_at = at
    with pytest.raises(KeyboardInterrupt):
        lab.search(commits[0], commits[-1], runs=1).complete()
    interrupted, begun = lab.trials.calls[-1], len(lab.trials.calls)
    assert lab.search(commits[0], commits[-1]).complete().first_bad == commits[5]
    assert lab.trials.calls[begun] == interrupted, "the job of the interrupted step was not followed"
    assert len(set(lab.trials.calls)) == len(lab.trials.calls) - 1, "a finished job ran again"


@pytest.mark.parametrize("at", range(12))
def test_a_killed_search_continues_from_any_state_of_its_record(
    lab: Lab, history: History, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kill -9 leaves it: nothing after the ``at``-th write of the record happened."""

    class Killed(BaseException):
        pass

    commits = [history.commit(state) for state in STATES]
    writes, write = [0], records.write

    def write_and_die(*given: object) -> None:
        write(*given)  # type: ignore[arg-type]
        writes[0] += 1
        if writes[0] == at + 1:
            raise Killed

    monkeypatch.setattr(records, "write", write_and_die)
    with pytest.raises(Killed):
        lab.search(commits[0], commits[-1]).complete()
    done = [job for step in lab.record().steps for job in step.judged]
    begun = len(lab.trials.calls)
    assert lab.search(commits[0], commits[-1]).complete().first_bad == commits[5]
    assert not set(done) & set(lab.trials.calls[begun:]), "a finished job ran again"


def test_a_job_that_an_interruption_ended_is_run_again_under_another_id(lab: Lab, history: History) -> None:
    """The cluster was stopped with the search: the job did not fail by its code."""
    commits = [history.commit(state) for state in ("ok", "ok", "worse")]
    lab.trials.interrupt_at = 2
    with pytest.raises(KeyboardInterrupt):
        lab.search(commits[0], commits[-1]).complete()
    left = lab.trials.calls[-1]
    lab.trials.states[left] = "stopped"
    assert lab.search(commits[0], commits[-1]).complete().first_bad == commits[2]
    step = lab.record().step(commits[1])
    assert step and step.jobs[0] == left and len(step.jobs) == 2 and step.judged == step.jobs[1:]


def test_an_ended_search_runs_nothing_again(lab: Lab, history: History) -> None:
    good, bad = history.commit("ok"), history.commit("worse")
    lab.search(good, bad).complete()
    begun = len(lab.trials.calls)
    assert lab.search(good, bad).complete().first_bad == bad
    assert len(lab.trials.calls) == begun


def test_the_progress_names_step_commit_verdict_figure_and_job(lab: Lab, history: History) -> None:
    commits = [history.commit(state) for state in ("ok", "ok", "worse")]
    lab.search(commits[0], commits[-1]).complete()
    assert lab.said[-2] == f"step 1 of about 1, 2 commits left: {commits[1][:10]} ok 1"
    assert lab.said[-1].startswith("  good: learning: is ok (job bisect-")


def test_after_a_skip_the_next_choice_is_not_always_its_neighbour() -> None:
    left = [str(number) for number in range(100)]
    chosen = [choose(left, left[:skips]) for skips in range(1, 20)]
    assert len(set(chosen)) > 10 and all(commit not in left[:1] for commit in chosen)
    assert choose(["bad"], []) is None and choose(["a", "bad"], ["a"]) is None
