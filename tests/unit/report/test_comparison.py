"""Two jobs: what differs, whether they are bit-equal, and which metrics are outside what repeated runs vary."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from truthful_job import change_json, change_result, good_job, write_metrics

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.report import comparison, page, same_steps
from mvp_helpers.report.comparison import Comparison
from mvp_helpers.report.facts import Run

Load = Callable[[JobFolder], Run]
Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def other(shared: SharedRoot) -> JobFolder:
    """A job of the same JobSpec."""
    return good_job(shared, "ppo-b")


@pytest.fixture
def compare(folder: JobFolder, other: JobFolder, load: Load) -> Callable[[], Comparison]:
    return lambda: comparison.compare(load(folder), load(other))


def test_two_runs_of_one_spec_have_no_difference_and_it_is_said_what_was_compared(compare: Callable[[], Comparison]) -> None:
    made = compare()
    assert [each for each in made.found.differences] == []
    assert made.sentence().startswith("No difference was found; compared: JobSpec (")
    assert {"JobSpec", "plan", "code", "data and model", "hosts", "versions"} <= made.found.compared.keys()
    assert "resolved config" in made.found.not_compared and "packages" in made.found.not_compared


def write_config(folder: JobFolder, lr: float) -> None:
    config = {"actor": {"optim": {"lr": lr, "warmup": 0}}, "trainer": {"default_local_dir": str(folder.checkpoints)}}
    (folder.logs / "hydra" / ".hydra" / "config.yaml").write_text(yaml.safe_dump(config))


def write_packages(folder: JobFolder, version: str) -> None:
    folder.packages.write_text(json.dumps({"packages": {"torch": version, "ray": "2.60.0"}}))


DOCTORED: dict[str, tuple[Callable[[JobFolder], Any], Callable[[JobFolder], Any]]] = {
    "JobSpec": (
        lambda a: a.job_spec().write_text('{"workload": "ppo", "model": "x"}'),
        lambda b: b.job_spec().write_text('{"workload": "ppo", "model": "y"}'),
    ),
    "resolved config": (lambda a: write_config(a, 1e-6), lambda b: write_config(b, 1e-5)),
    "plan": (lambda a: None, lambda b: b.resolved.write_text(b.resolved.read_text().replace("save_freq: 10", "save_freq: 11"))),
    "code": (lambda a: None, lambda b: change_json(b.provenance, "code", "content", value="f" * 64)),
    "data and model": (lambda a: None, lambda b: change_json(b.provenance, "inputs", "model", "identity", value="other")),
    "hosts": (lambda a: None, lambda b: change_json(b.provenance, "hosts", 1, "ip", value="10.0.0.9")),
    "image": (lambda a: None, lambda b: change_json(b.provenance, "image", value="img:2")),
    "versions": (lambda a: None, lambda b: change_json(b.provenance, "ray", value="2.61.0")),
    "reward function": (lambda a: None, lambda b: change_json(b.provenance, "reward_fn", value={"path": "r.py", "sha256": "1"})),
    "packages": (lambda a: write_packages(a, "2.13.0"), lambda b: write_packages(b, "2.14.0")),
}


@pytest.mark.parametrize("subject", DOCTORED)
def test_exactly_what_differs_is_named(
    subject: str, folder: JobFolder, other: JobFolder, compare: Callable[[], Comparison]
) -> None:
    for change, job in zip(DOCTORED[subject], (folder, other), strict=True):
        change(job)
    differing = compare().found.differences
    assert {each.subject for each in differing} == {subject}, differing
    assert len(differing) <= 2


def test_code_snapshots_differ_by_file_and_line(
    shared: SharedRoot, folder: JobFolder, other: JobFolder, compare: Callable[[], Comparison]
) -> None:
    for job, name, text in ((folder, "codeA", "x = 1\n"), (other, "codeB", "x = 2\n")):
        place = shared.verl_code / name
        (place / "verl").mkdir(parents=True)
        (place / "verl" / "core.py").write_text(text)
        files = {"verl/core.py": {"sha256": text, "size": 6, "mtime_ns": 0}}
        (place / "mvp_manifest.json").write_text(json.dumps({"code_id": name, "content": name, "source": {}, "files": files}))
        job.resolved.write_text(
            job.resolved.read_text().replace("code_path: " + str(shared.verl_code / "codeA"), f"code_path: {place}")
        )
    made = compare()
    assert ("code files", "verl/core.py") in [(each.subject, each.name) for each in made.found.differences]
    assert made.found.code_diff == ["--- A/verl/core.py", "+++ B/verl/core.py", "@@ -1 +1 @@", "-x = 1", "+x = 2"]


def rows(*values: float | None, time: float = 1.0) -> list[dict[str, Any]]:
    return [{"actor/loss": value, "timing_s/step": time * at, "perf/throughput": time} for at, value in enumerate(values)]


def equality(tmp_path: Path, folder: JobFolder, other: JobFolder) -> same_steps.Equality:
    return same_steps.compare(folder.metrics, other.metrics)


def test_runs_that_differ_only_in_their_times_are_bit_equal(tmp_path: Path, folder: JobFolder, other: JobFolder) -> None:
    write_metrics(folder, rows(0.5, None, 0.25, time=1.0))
    write_metrics(other, rows(0.5, None, 0.25, time=2.0))
    found = equality(tmp_path, folder, other)
    assert (found.equal, found.steps, found.values) == (True, 3, 3)


def test_the_first_step_and_metric_with_another_bit_are_named(tmp_path: Path, folder: JobFolder, other: JobFolder) -> None:
    write_metrics(folder, rows(0.5, 0.1, 0.25))
    write_metrics(other, rows(0.5, 0.1 + 2**-56, 0.75))
    found = equality(tmp_path, folder, other)
    assert (found.equal, found.step, found.metric, found.a) == (False, 2, "actor/loss", 0.1)
    assert found.in_words().startswith("Not bit-equal: from step 2 on, actor/loss (0.1 in A, 0.1000")
    assert found.in_words().endswith(" in B) differs, times, throughput and memory aside.")
    write_metrics(other, [{**row, "b": None, "c": 1.0} for row in rows(0.5, None, 0.25)])
    words = equality(tmp_path, folder, other).in_words()
    assert "from step 1 on, b (missing in A, not finite in B) and 1 more metric differ, " in words


def test_steps_that_only_one_run_has_are_told(tmp_path: Path, folder: JobFolder, other: JobFolder) -> None:
    write_metrics(folder, rows(0.5, 0.1, 0.25))
    write_metrics(other, rows(0.5))
    assert equality(tmp_path, folder, other).in_words().endswith("2 more steps in A.")


def test_a_metric_outside_of_what_repeated_runs_vary_is_marked(shared: SharedRoot, folder: JobFolder, load: Load) -> None:
    for name, last in (("ppo-r1", 0.48), ("ppo-r2", 0.52), ("ppo-older", 0.1), ("ppo-b", 0.9)):
        write_metrics(good_job(shared, name), [{"critic/score/mean": last}] * 5)
    write_metrics(folder, [{"critic/score/mean": 0.5}] * 5)
    change_json(shared.job("ppo-older").provenance, "toolkit", value={"version": "1.0.0", "commit": "b" * 40})
    other = shared.job("ppo-b")
    made = comparison.compare(load(folder), load(other))
    [row] = made.rows
    assert sorted(made.repeats) == ["ppo-r1", "ppo-r2"]
    assert (row.low, row.high, row.outside) == (0.48, 0.52, True)
    assert made.repeatability().startswith("In 1 of 1 metrics B is outside of the range of A and 2 repeated runs of it;")
    assert made.repeatability().endswith("an equal run is so in 2 of 4 metrics that vary.")
    write_metrics(other, [{"critic/score/mean": 0.51}] * 5)
    assert comparison.compare(load(folder), load(other)).rows[0].outside is False


def test_without_a_repeated_run_nothing_is_inside_or_outside(compare: Callable[[], Comparison], other: JobFolder) -> None:
    change_json(other.job_spec(), "workload", value="ppo")
    assert compare().rows[0].outside is None and compare().repeatability().startswith("No repeated run of A was found")


def test_two_workloads_or_no_metrics_are_one_line_and_exit_code_2(folder: JobFolder, other: JobFolder, verb: Verb) -> None:
    change_result(other, workload="sft")
    code, out, err = verb("report", "ppo-a", "ppo-b")
    assert (code, out) == (2, "") and "'ppo-a' is a job of 'ppo', 'ppo-b' of 'sft'" in err
    change_result(other, workload="ppo")
    other.metrics.unlink()
    code, out, err = verb("report", "ppo-a", "ppo-b")
    assert (code, out) == (2, "") and "job 'ppo-b' has no metrics to compare" in err
    assert not folder.reports.exists()


def test_json_has_the_whole_comparison_and_the_page(folder: JobFolder, other: JobFolder, verb: Verb) -> None:
    code, out, err = verb("report", "ppo-a", "ppo-b", "--json")
    answer = json.loads(out)
    assert code == 0 and Path(answer["page"]).is_file()
    assert answer["differences"] == [] and answer["equality"]["equal"] is True
    assert "No difference was found" in err and "Bit-equal: " in err
    code, _, err = verb("report", "ppo-a", "--json")
    assert code == 2 and "expected exactly 2 job ids, got 1" in err


def test_the_page_shows_the_comparison(folder: JobFolder, other: JobFolder, load: Load) -> None:
    change_json(other.provenance, "ray", value="<b>2.61</b>")
    runs = [load(folder), load(other)]
    text = page.of_jobs(runs, compared=comparison.compare(*runs))
    assert text.index("What differs before any metric") < text.index('id="chart-0"') < text.index("Median of the last 5 values")
    assert "What differs before any metric" in text and "&lt;b&gt;2.61&lt;/b&gt;" in text
    assert "━━ A: ppo-a" in text and "╌╌ B: ppo-b" in text, "what A and B are is beside the curves"


def test_a_job_is_not_compared_with_itself(folder: JobFolder, load: Load) -> None:
    run = load(folder)
    with pytest.raises(BadInput, match="compared with itself"):
        comparison.check([run, run])
