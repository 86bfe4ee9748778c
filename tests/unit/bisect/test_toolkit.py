"""Commits of this project: the toolkit of the commit submits the job, and is what the cluster's hosts run."""

from __future__ import annotations

from pathlib import Path

import pytest
from histories import History

from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.bisect import request as requests
from mvp_helpers.bisect.search import CannotRun
from mvp_helpers.bisect.trials import JobTrials
from mvp_helpers.cluster.cluster_file import Cluster

SUBMITS = """
import json, os, pathlib, sys
tree = pathlib.Path(__file__).parents[2]
cluster, spec = json.loads(os.environ["MVP_CLUSTER_JSON"]), json.load(sys.stdin)
assert os.environ["PYTHONPATH"] == cluster["tools_dir"] + "/lib" == f"{tree}/lib", cluster["tools_dir"]
assert sys.argv[1:] == ["submit", "--spec-name", "ppo.json"] and spec["code_path"] == "its own"
folder = pathlib.Path(cluster["shared_root"], "jobs", spec["submission_id"])
folder.mkdir(parents=True)
result = {"submission_id": folder.name, "workload": "ppo", "state": STATE, "reason": "as planned"}
(folder / "result.json").write_text(json.dumps(result))
"""
SPEC = b'{"workload": "ppo", "code_path": "its own", "submission_id": "mine"}'


@pytest.fixture
def toolkit(history: History) -> History:
    (history.path / "lib" / "mvp_helpers").mkdir(parents=True)
    (history.path / "README.md").write_text("")
    commit(history, SUBMITS.replace("STATE", "'SUCCEEDED'"))
    history.git("tag", "v1")
    return history


def commit(history: History, main: str) -> str:
    (history.path / "lib" / "mvp_helpers" / "__main__.py").write_text(main)
    return history.commit("ok")


def trials(cluster: Cluster, history: History, place: Path) -> JobTrials:
    history.commit("ok")
    request, found = requests.make(cluster, "v1", "main", SPEC, "ppo.json", source=str(history.path))
    assert request.kind == "toolkit"
    return JobTrials(request, place, cluster, found, {}, lambda _: None)


def test_the_toolkit_of_the_commit_submits_and_an_existing_job_is_followed(
    cluster: Cluster, shared: SharedRoot, toolkit: History, tmp_path: Path
) -> None:
    found, good = trials(cluster, toolkit, tmp_path / "place"), toolkit.git("rev-parse", "v1")
    code = found.code_of(good)
    assert found.run(good, code, "bisect-a-01") == "bisect-a-01"
    submitted = shared.job("bisect-a-01").result.stat().st_mtime_ns
    assert found.run(good, code, "bisect-a-01") == "bisect-a-01"
    assert shared.job("bisect-a-01").result.stat().st_mtime_ns == submitted


def test_only_what_jobs_are_made_of_is_the_code_of_a_commit(cluster: Cluster, toolkit: History, tmp_path: Path) -> None:
    found, code = trials(cluster, toolkit, tmp_path / "place"), toolkit.git("rev-parse", "v1")
    (toolkit.path / "README.md").write_text("more")
    assert found.code_of(toolkit.commit("ok")) == found.code_of(code)
    assert found.code_of(commit(toolkit, "pass")) != found.code_of(code)


@pytest.mark.parametrize(
    ("main", "error", "words"),
    [
        (SUBMITS.replace("STATE", "'FAILED'"), CannotRun, "job bisect-a-01 is FAILED before it trained: as planned"),
        ("import no_such_module", CannotRun, "ended with exit code 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys; sys.exit('bad input: x')", CannotRun, "ended with exit code 1: bad input: x"),
        ("import sys; print('blocked: no Ray', file=sys.stderr); sys.exit(3)", Blocked, "the toolkit of .*: no Ray"),
    ],
)
def test_a_toolkit_that_cannot_submit_or_whose_job_fails(
    cluster: Cluster, toolkit: History, tmp_path: Path, main: str, error: type[Exception], words: str
) -> None:
    broken = commit(toolkit, main)
    found = trials(cluster, toolkit, tmp_path / "place")
    code = found.code_of(broken)
    with pytest.raises(error, match=words) as caught:
        found.run(broken, code, "bisect-a-01")
    if isinstance(caught.value, CannotRun) and "exit code" in words:
        assert isinstance(caught.value.error, BadInput)
