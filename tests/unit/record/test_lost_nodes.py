"""Nodes that died, and that Ray has yet to give up."""

from __future__ import annotations

from collections.abc import Callable

from fake_ray import FakeRay

from mvp_helpers.record import lost_nodes


def turns(ray: FakeRay, *reports: dict[str, float]) -> Callable[[], bool]:
    """Each look at whether to hurry is followed by the next reports."""
    later = iter(reports)
    ray.has_reports(**next(later))

    def hurry() -> bool:
        following = next(later, None)
        if following is not None:
            ray.has_reports(**following)
        return following is None

    return hurry


def test_a_silent_node_is_waited_for_until_ray_gives_it_up() -> None:
    with FakeRay() as ray:
        hurry = turns(
            ray,
            {"head": 1, "w0": 1, "w1": 1},
            {"head": 6, "w0": 1, "w1": 4},
            {"head": 11, "w0": 1, "w1": 9},
            {"head": 16, "w1": 14},
        )
        assert lost_nodes.wait(ray.api(), hurry, limit_s=60, ask_s=0) == ["w0"]
        assert len(ray.asked) == 4


def test_nothing_is_waited_for_once_every_node_has_reported_twice() -> None:
    with FakeRay() as ray:
        hurry = turns(ray, {"head": 1, "w0": 1}, {"head": 6, "w0": 1}, {"head": 6, "w0": 2}, {"head": 11, "w0": 7}, {"head": 16})
        assert lost_nodes.wait(ray.api(), hurry, limit_s=60, ask_s=0) == []
        assert len(ray.asked) == 4


def test_the_last_report_of_a_dead_node_may_come_late() -> None:
    with FakeRay() as ray:
        hurry = turns(ray, {"head": 1, "w0": 1}, {"head": 6, "w0": 6}, {"head": 11, "w0": 6}, {"head": 16, "w0": 6}, {"head": 21})
        assert lost_nodes.wait(ray.api(), hurry, limit_s=60, ask_s=0) == ["w0"]


def test_the_wait_ends_with_its_limit_a_stop_or_a_head_that_does_not_answer() -> None:
    with FakeRay() as ray:
        ray.has_reports(head=1, w0=1)
        assert lost_nodes.wait(ray.api(), lambda: False, limit_s=0.05, ask_s=0.02) == []
        assert lost_nodes.wait(ray.api(), lambda: True, limit_s=60) == []
        for answer in (500, {"data": {}}, {"data": {"summary": [{"now": "?", "raylet": {"nodeId": "w", "state": "ALIVE"}}]}}):
            ray.answers["/nodes?view=summary"] = answer
            assert lost_nodes.wait(ray.api(), lambda: False, limit_s=60, ask_s=0.02, unanswered_s=0.05) == []
    assert lost_nodes.wait(ray.api(), lambda: False, limit_s=60, ask_s=0.02, unanswered_s=0.05) == []


def test_a_head_that_is_too_busy_to_answer_at_first_is_asked_again() -> None:
    with FakeRay() as ray:
        hurry = turns(ray, {}, {"head": 1, "w0": 1}, {"head": 6, "w0": 1}, {"head": 11})
        ray.answers["/nodes?view=summary"] = 500
        assert lost_nodes.wait(ray.api(), hurry, limit_s=60, ask_s=0) == ["w0"]
