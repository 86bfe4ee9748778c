"""What a user asks for becomes one request, or one line that says what is wrong; a commit's code becomes a snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from histories import History
from truthful_job import change_plan, good_job, write_metrics

from mvp_helpers.base import git
from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.bisect import record as records
from mvp_helpers.bisect import request as requests
from mvp_helpers.bisect import show
from mvp_helpers.bisect.record import Request
from mvp_helpers.bisect.search import CannotRun, Search
from mvp_helpers.bisect.trials import JobTrials
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.gates import gates
from mvp_helpers.gates.gates import Gates
from mvp_helpers.prepare import snapshot
from mvp_helpers.verbs import bisection

SPEC = b'{"workload": "ppo", "code_path": "common/code/verl/current", "submission_id": "mine"}'
ABSOLUTE = """workload: ppo
gates:
  fast: {subject: throughput, expect: 'max(data["perf/time_per_step"]) < 9', why: it is slow}
"""


RELATIVE = (
    ABSOLUTE.replace("max(", "median(").replace("< 9", "<= 2 * baseline").replace("it is slow", "it is slow, hardware: true")
)


@pytest.fixture
def verl(history: History) -> History:
    """Three commits of something like verl: tags good and bad, and a branch beside them."""
    (history.path / "verl").mkdir()
    (history.path / "verl" / "__init__.py").write_text("")
    history.commit("ok")
    history.git("tag", "v1")
    history.commit("ok")
    history.commit("worse")
    history.git("tag", "v2")
    history.git("checkout", "--quiet", "-b", "aside", "v1")
    history.commit("ok")
    history.git("checkout", "--quiet", "main")
    return history


def made(cluster: Cluster, history: History, good: str = "v1", bad: str = "main", **options: object) -> tuple[Request, Gates]:
    return requests.make(cluster, good, bad, SPEC, "ppo.json", source=str(history.path), **options)  # type: ignore[arg-type]


def test_revisions_become_commits_and_the_same_request_has_the_same_name(cluster: Cluster, verl: History) -> None:
    request, found = made(cluster, verl)
    assert (request.kind, request.good, request.bad) == ("verl", verl.git("rev-parse", "v1"), verl.git("rev-parse", "v2"))
    assert request.name == made(cluster, verl, bad="v2")[0].name
    assert request.name != made(cluster, verl, chosen=["learning"])[0].name
    assert requests.good_runs(request, found) == 3
    assert requests.good_runs(*made(cluster, verl, gates_text=ABSOLUTE)) == 1


def test_a_snapshot_of_a_checkout_names_its_commit_and_repository(cluster: Cluster, shared: SharedRoot, verl: History) -> None:
    verl.git("checkout", "--quiet", "v1")
    taken = snapshot.snapshot(snapshot.Source(path=verl.path), shared, "old")
    assert taken.source["git"]["commit"]
    request, _ = requests.make(cluster, "common/code/verl/old", "main", SPEC, "ppo.json")
    assert (request.good, request.repository) == (verl.git("rev-parse", "v1"), str(verl.path))
    with pytest.raises(BadInput, match="snapshot common/code/verl/codeA was not taken of a git checkout"):
        requests.make(cluster, "common/code/verl/codeA", "main", SPEC, "ppo.json", source=str(verl.path))
    (verl.path / "verl" / "new.py").write_text("")
    snapshot.snapshot(snapshot.Source(path=verl.path), shared, "changed")
    with pytest.raises(BadInput, match=r"has changes that are in no commit, such as verl/new.py"):
        requests.make(cluster, "common/code/verl/changed", "main", SPEC, "ppo.json")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"good": "maim"}, r"has no tag, branch or commit 'maim' \(did you mean 'main'\?\)"),
        ({"good": "--all"}, "has no tag, branch or commit '--all'"),
        ({"good": "main", "bad": "v1"}, "is not an ancestor of the bad end .*, but the other way round"),
        ({"good": "aside"}, "is not an ancestor of the bad end"),
        ({"good": "main", "bad": "v2"}, "are the same commit"),
        ({"chosen": ["lerning"]}, r"workload 'ppo' has no gate 'lerning' \(did you mean 'learning'\?\)"),
        ({"gates_text": ABSOLUTE.replace("ppo", "sft")}, "the gates are of workload 'sft', the JobSpec of 'ppo'"),
        ({"gates_text": ABSOLUTE.replace("max(", "exec(")}, "--gates: gate 'fast'"),
        ({"baseline": "gone"}, "no baseline is named 'gone'"),
    ],
)
def test_what_is_wrong_with_a_request_is_one_line(
    cluster: Cluster, verl: History, options: dict[str, object], words: str
) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        made(cluster, verl, **options)  # type: ignore[arg-type]
    assert "\n" not in caught.value.what and caught.value.hint


def test_a_repository_is_needed_and_must_be_one(cluster: Cluster, verl: History, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="takes verl from a package, not from a git repository"):
        requests.make(cluster, "v1", "main", SPEC, "ppo.json")
    with pytest.raises(BadInput, match="is not a git repository"):
        requests.make(cluster, "v1", "main", SPEC, "ppo.json", source=str(tmp_path / "shared"))
    clone = tmp_path / "shallow"
    verl.git("clone", "--quiet", "--depth=1", f"file://{verl.path}", str(clone))
    with pytest.raises(BadInput, match="has no tag, branch or commit 'v1'"):
        requests.make(cluster, "v1", "main", SPEC, "ppo.json", source=str(clone))


def test_a_history_of_neither_verl_nor_this_project_is_refused(cluster: Cluster, history: History) -> None:
    history.commit("ok")
    history.git("tag", "v1")
    history.commit("ok")
    with pytest.raises(BadInput, match="is neither verl's nor this project's"):
        made(cluster, history)
    (history.path / "lib" / "mvp_helpers").mkdir(parents=True)
    (history.path / "lib" / "mvp_helpers" / "__main__.py").write_text("")
    history.commit("ok")
    assert made(cluster, history)[0].kind == "toolkit"


def trials(cluster: Cluster, history: History, place: Path, **options: object) -> JobTrials:
    request, found = made(cluster, history, **options)  # type: ignore[arg-type]
    return JobTrials(request, place, cluster, found, {}, lambda _: None)


def test_a_commit_becomes_a_snapshot_and_nothing_else_changes(
    cluster: Cluster, shared: SharedRoot, verl: History, tmp_path: Path
) -> None:
    before, current = verl.snapshot(), (shared.verl_code / "current").readlink()
    files = sorted(path.name for path in (shared.verl_code / ".sources").iterdir())
    first = trials(cluster, verl, tmp_path / "place").code_of(verl.git("rev-parse", "v1"))
    assert snapshot.check(shared.verl_code / first).source["git"]["commit"] == verl.git("rev-parse", "v1")
    assert (shared.verl_code / "current").readlink() == current
    assert sorted(path.name for path in (shared.verl_code / ".sources").iterdir()) == files
    assert verl.snapshot() == before
    assert not (tmp_path / "place" / "tree").exists()


def test_commits_with_the_same_verl_have_the_same_code(cluster: Cluster, verl: History, tmp_path: Path) -> None:
    found = trials(cluster, verl, tmp_path / "place")
    assert found.code_of(verl.git("rev-parse", "v1")) == found.code_of(verl.git("rev-parse", "v2"))
    (verl.path / "verl" / "new.py").write_text("")
    assert found.code_of(verl.commit("ok")) != found.code_of(verl.git("rev-parse", "v2"))


def test_a_commit_without_verl_or_with_a_link_out_of_it_cannot_run(cluster: Cluster, verl: History, tmp_path: Path) -> None:
    found = trials(cluster, verl, tmp_path / "place")
    (verl.path / "verl" / "out").symlink_to("/etc/passwd")
    with pytest.raises(CannotRun, match="no snapshot can be made: symlink"):
        found.code_of(verl.commit("ok"))
    verl.git("rm", "--quiet", "-r", "verl")
    with pytest.raises(CannotRun, match=r"the commit lacks verl/__init__\.py"):
        found.code_of(verl.commit("ok"))


def test_a_jobspec_that_does_not_fit_a_commit_cannot_run_and_nothing_is_submitted(
    cluster: Cluster, shared: SharedRoot, verl: History, tmp_path: Path
) -> None:
    found = trials(cluster, verl, tmp_path / "place")
    with pytest.raises(CannotRun, match=r"the JobSpec does not fit it: ppo\.json"):
        found.run(verl.git("rev-parse", "v1"), "verl-gone", "bisect-1-01-abc")
    assert not shared.job("bisect-1-01-abc").path.exists()


def test_a_bare_repository_is_exported_as_its_checkout_is(verl: History, tmp_path: Path) -> None:
    verl.git("clone", "--quiet", "--bare", str(verl.path), str(tmp_path / "bare"))
    git.export(tmp_path / "bare", git.commit_of(tmp_path / "bare", "v2"), tmp_path / "tree")
    names = verl.git("ls-files").splitlines()
    assert names and all((tmp_path / "tree" / name).read_bytes() == (verl.path / name).read_bytes() for name in names)
    assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["state", "verl"]


def test_a_dry_run_says_what_would_be_searched_and_writes_nothing(
    cluster: Cluster, shared: SharedRoot, verl: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MVP_CLUSTER_JSON", cluster.to_json())
    words = [
        "--good",
        "v1",
        "--bad",
        "main",
        "--source",
        str(verl.path),
        "--spec-name",
        "ppo.json",
        "--gate",
        "learning",
        "--dry-run",
    ]
    shown = CliRunner().invoke(bisection.bisect, words, input=SPEC, standalone_mode=False)
    assert shown.return_value == 0, shown.output
    assert f"commits of verl in {verl.path}: 2; steps after the two ends: about 1\n" in shown.output
    assert "gate learning: median(" in shown.output
    assert not shared.bisections.exists()


def test_the_outcome_shows_commit_difference_and_both_jobs_and_is_the_same_as_json(lab_of: Search) -> None:
    lab_of.complete()
    shown = show.result(lab_of, "/page.html")
    text = show.text(shown)
    first = shown["first_bad"]
    assert first and f"first bad commit: {first['commit']} worse 2 (a, " in text and "+worse 2" in text
    assert "comparison: /page.html" in text and f"job {shown['good']['jobs'][0]}: learning: is ok" in text
    assert json.loads(json.dumps(shown))["state"] == "found"
    assert "+worse 2" in Path(shown["diff"]).read_text()


@pytest.fixture
def lab_of(history: History, tmp_path: Path) -> Search:
    from histories import Lab

    commits = [history.commit(state) for state in ("ok", "ok", "worse", "worse")]
    return Lab(history, tmp_path / "state").search(commits[0], commits[-1])


def test_a_damaged_record_is_named(cluster: Cluster, shared: SharedRoot, verl: History) -> None:
    request, _ = made(cluster, verl)
    place = records.folder(shared, request)
    (place / "bisect.json").write_text('{"request": ')
    with pytest.raises(BadInput, match=r"cannot read .*/bisect.json"):
        records.read(place, request)


def test_the_shipped_gates_can_be_read_from_text() -> None:
    text = (gates.SHIPPED / "ppo.yaml").read_bytes()
    assert msgspec.to_builtins(gates.parse(text, "x")) == msgspec.to_builtins(gates.load("ppo"))


def test_three_runs_of_the_good_end_judge_a_job_whatever_is_known_of_its_hardware(
    cluster: Cluster, shared: SharedRoot, verl: History, tmp_path: Path
) -> None:
    found = trials(cluster, verl, tmp_path / "place", gates_text=RELATIVE)
    for name, seconds in {"a": 2.0, "b": 3.0, "c": 4.0, "slow": 6.1, "other": 5.9}.items():
        write_metrics(good_job(shared, name), [{"perf/time_per_step": seconds}] * 3)
    change_plan(shared.job("other"), processes_per_node=7)
    recorded = found.baseline(["a", "b", "c"])
    assert (recorded.gates["fast"].median, recorded.gates["fast"].spread) == (3.0, 1.0) and recorded.hardware["device"]
    assert [found.judge(job, recorded)[0].verdict for job in ("c", "slow", "other")] == ["Pass", "Fail", "Pass"]
