"""The SDK submission takes the options of ``ray job submit``, as ``Plan.submit_argv`` writes them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from mvp_helpers.job import sdk_submit

ARGV = [
    *("--address", "http://head:8265", "--submission-id", "ppo-1", "--entrypoint-resources", '{"worker_node":1}'),
    *("--entrypoint-num-cpus", "0.5", "--runtime-env-json", '{"env_vars":{"A":"b c"}}', "--no-wait"),
    *("--", "python3", "-m", "mvp_helpers", "run-job", "/jobs/a b", "--help"),
]


@pytest.mark.parametrize("refusal", ["", "already exists"])
def test_ray_is_asked_for_the_same_job_and_its_refusal_is_the_answer(refusal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Client:
        def __init__(self, address: str) -> None:
            assert address == "http://head:8265"

        def submit_job(self, **job: Any) -> str:
            asked.append(job)
            if refusal:
                raise RuntimeError(refusal)
            return str(job["submission_id"])

    monkeypatch.setitem(sys.modules, "ray.job_submission", SimpleNamespace(JobSubmissionClient=Client))
    ended = CliRunner().invoke(sdk_submit.main, ARGV)
    assert asked == [
        {
            "entrypoint": "python3 -m mvp_helpers run-job '/jobs/a b' --help",
            "submission_id": "ppo-1",
            "runtime_env": {"env_vars": {"A": "b c"}},
            "entrypoint_num_cpus": 0.5,
            "entrypoint_resources": {"worker_node": 1},
        }
    ]
    assert (ended.exit_code, ended.output) == ((1, "RuntimeError: already exists\n") if refusal else (0, "ppo-1\n"))
