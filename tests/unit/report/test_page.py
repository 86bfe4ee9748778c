"""The page of a job, as text: what it shows, that user text stays text, and what becomes of wrong input."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from truthful_job import change_json, change_result, good_job, seals_of, write_metrics

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.record import chain as chains
from mvp_helpers.record import job_folder
from mvp_helpers.record.chain import Attempt, Chain, Retry
from mvp_helpers.record.job_folder import Result
from mvp_helpers.record.wall_time import WallTime
from mvp_helpers.report import page
from mvp_helpers.report.charts import Limit
from mvp_helpers.report.facts import Run

Load = Callable[[JobFolder], Run]
Verb = Callable[..., tuple[int, str, str]]
EVIL = "<script>document.title='x'</script><img src=x onerror=alert(1)>&amp;"


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert found
    return dict(json.loads(found[1]))


def test_every_check_of_54_and_its_evidence_is_on_the_page(folder: JobFolder, load: Load) -> None:
    run = load(folder)
    text = page.of_jobs([run])
    assert len(run.checks) == 18
    for check in run.checks:
        assert f">{html.escape(check.name)}</th>" in text
        assert html.escape(check.reason) in text


def test_evidence_links_to_lines_that_are_on_the_page(folder: JobFolder, load: Load) -> None:
    text = page.of_jobs([load(folder)])
    targets = re.findall(r'href="#([^"]+)"', text)
    identities = re.findall(r' id="([^"]+)"', text)
    assert sorted(set(targets) - set(identities)) == []
    assert len(identities) == len(set(identities))
    assert any(target.startswith("r0-logs-driver-log-") for target in targets)


def test_the_values_are_those_of_the_metrics_file(folder: JobFolder, load: Load) -> None:
    drawn = data_of(page.of_jobs([load(folder)]))["runs"][0]["metrics"]["critic/score/mean"]
    written = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert drawn["v"] == [line["data"]["critic/score/mean"] for line in written]
    assert drawn["s"] == [1] * len(written)


def test_whatever_a_user_wrote_is_text(folder: JobFolder, load: Load) -> None:
    change_result(folder, state="FAILED", exit_code=1, reason=EVIL)
    folder.driver_log.write_text(f"{EVIL}\nTraceback (most recent call last):\nValueError: {EVIL}\n")
    folder.job_spec().write_text(json.dumps({"workload": EVIL}))
    write_metrics(folder, [{f"</script>{EVIL}": 1.0}, {f"</script>{EVIL}": 2.0}])
    text = page.of_jobs([load(folder)])
    assert "<img" not in text
    assert text.count("<script") == 2 and text.count("</script>") == 2
    assert html.escape(EVIL) in text


def test_control_and_bidi_characters_are_shown_escaped(folder: JobFolder, load: Load) -> None:
    folder.driver_log.write_text("a\x00b\u202ec\x1b[31mred\x1b[0m\n")
    text = page.of_jobs([load(folder)])
    assert "a\\x00b\\u202ecred" in text and "\x00" not in text and "\u202e" not in text


def test_provenance_is_in_words_and_complete(folder: JobFolder, load: Load) -> None:
    change_json(folder.provenance, "inputs", "model", "made_from", value={"source": "generated", "seed": 0})
    change_json(folder.provenance, "submitted_from", "user", value="ann")
    change_json(folder.provenance, "toolkit", value={"version": "1.1.0", "commit": "abc", "dirty": True})
    folder.packages.write_text(json.dumps({"cpu": "EPYC", "gpus": [], "packages": {"torch": "2.13.0"}}))
    text = page.of_jobs([load(folder)])
    for words in (
        "made from (source generated, seed 0)",
        "user ann",
        "1.1.0, commit abc, with uncommitted changes",
        ">image</th><td>none<",
        ">cpu</th><td>EPYC<",
        "Packages (1)",
    ):
        assert words in text, words


def test_the_colours_of_a_cited_log_line_are_left_out(folder: JobFolder, load: Load) -> None:
    log = folder.driver_log.read_text()
    folder.driver_log.write_text(log.replace("(TaskRunner pid=7)", "\x1b[36m(T pid=7)\x1b[0m"))  # as long
    text = page.of_jobs([load(folder)])
    assert "</a>: (T pid=7) step:1 " in text and "\\x1b" not in text


def test_the_policy_allows_the_pages_own_script_and_nothing_else(folder: JobFolder, load: Load) -> None:
    text = page.of_jobs([load(folder)])
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0])
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', text) == []


def test_ten_thousand_steps_of_a_hundred_metrics_fit_into_a_megabyte(folder: JobFolder, load: Load) -> None:
    """With a log as long as the page shows, and values that have all digits."""
    names = [f"some/rather/long/name/of/metric/{at}" for at in range(100)]
    write_metrics(folder, [{name: (step * 7919 % 9973) / 9973 + at for at, name in enumerate(names)} for step in range(10_000)])
    folder.driver_log.write_text("".join(f"{'x' * 300} line {at}\n" for at in range(1000)))
    text = page.of_jobs([load(folder)])
    assert len(text.encode()) < 1_000_000
    assert "the lowest and the highest value of each interval" in text


def test_of_equal_curves_of_a_kind_one_has_a_chart_of_its_own_and_each_that_has_a_limit(folder: JobFolder, load: Load) -> None:
    write_metrics(folder, [{"timing_s/step": step, "perf/time_per_step": step, "critic/score/mean": step} for step in (1.0, 2.0)])
    run, limit = load(folder), [Limit(None, 3.0, "gate step-time")]

    def drawn(**limits: list[Limit]) -> list[str]:
        return re.findall(r'<figure id="chart-\d+" data-metric="([^"]*)"', page.of_jobs([run], limits=limits))

    assert drawn() == ["critic/score/mean", "timing_s/step"]
    assert drawn(**{"perf/time_per_step": limit}) == ["critic/score/mean", "perf/time_per_step"]
    assert drawn(**{"perf/time_per_step": limit, "timing_s/step": limit})[1:] == ["timing_s/step", "perf/time_per_step"]
    assert "Limit 3: gate step-time." in page.of_jobs([run], limits={"timing_s/step": limit})


def test_a_gap_is_named_on_the_page(folder: JobFolder, load: Load) -> None:
    write_metrics(folder, [{"actor/grad_norm": value} for value in (1.0, None, 2.0)])
    text = page.of_jobs([load(folder)])
    assert "NaN or infinite at step 2 (1 of 3)." in text
    assert data_of(text)["runs"][0]["metrics"]["actor/grad_norm"]["v"] == [1, None, 2]


def test_one_step_makes_a_page(folder: JobFolder, load: Load) -> None:
    write_metrics(folder, [{"critic/score/mean": 0.5}])
    assert data_of(page.of_jobs([load(folder)]))["runs"][0]["metrics"]["critic/score/mean"] == {"s": [1], "v": [0.5]}


def test_the_page_of_a_failed_job_has_its_diagnosis(folder: JobFolder, load: Load) -> None:
    change_result(folder, state="FAILED", exit_code=1, reason="exit code 1")
    with folder.driver_log.open("a") as log:
        log.write("Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    text = page.of_jobs([load(folder)])
    assert "Diagnosis of ppo-a" in text and "gpu-memory" in text
    line = len(folder.driver_log.read_text().splitlines())
    assert f'href="#r0-logs-driver-log-{line}"' in text


def test_the_verb_writes_a_new_page_each_time_and_prints_its_path(folder: JobFolder, verb: Verb) -> None:
    paths = [Path(verb("report", folder.submission_id)[1].strip()) for _ in range(2)]
    assert len(set(paths)) == 2 and all(path.parent == folder.reports and path.is_file() for path in paths)


def test_the_seal_of_a_sealed_job_states_the_page(folder: JobFolder, verb: Verb) -> None:
    seals = seals_of(folder)
    seals.seal_now(folder)
    code, out, _ = verb("report", folder.submission_id)
    assert code == 0
    difference = seals.compare(seals.read(folder), folder)
    assert (difference.added, difference.changed, difference.missing) == ([], [], [])
    assert str(Path(out.strip()).relative_to(folder.path)) in seals.read(folder).statements[-1].contents.names


def test_a_job_without_metrics_has_a_page_that_says_so(shared: SharedRoot, load: Load) -> None:
    folder = job_folder.claim(shared, Result(submission_id="young", workload="ppo", state="CLAIMED"))
    assert "No metrics: no step was recorded." in page.of_jobs([load(folder)])


@pytest.mark.parametrize("name", ["gone", "../../etc", ".hidden"])
def test_an_unknown_id_is_one_line_and_exit_code_2(folder: JobFolder, verb: Verb, name: str) -> None:
    code, out, err = verb("report", folder.submission_id, name)
    assert (code, out) == (2, "")
    assert err.startswith("bad input: ") and len(err.splitlines()) == 2
    assert not folder.reports.exists()


def test_several_jobs_are_judged_together_and_by_the_definition_of_done(
    shared: SharedRoot, folder: JobFolder, verb: Verb
) -> None:
    others = [good_job(shared, name).submission_id for name in ("ppo-b", "ppo-c")]
    code, out, _ = verb("report", folder.submission_id, *others, "--definition-of-done")
    assert code == 0
    text = Path(out.strip()).read_text()
    assert "Definition of Done" in text
    assert "the same as in ppo-a, made before it was claimed" in text  # what only a second job can prove


def test_two_jobs_share_one_page(shared: SharedRoot, folder: JobFolder, load: Load) -> None:
    other = good_job(shared, "ppo-b")
    text = page.of_jobs([load(folder), load(other)])
    assert "The jobs of this page" in text and len(data_of(text)["runs"]) == 2


def test_hardware_time_and_samples_are_on_the_page_when_they_were_kept(folder: JobFolder, load: Load) -> None:
    host = {"host": "worker-0", "memory": {"total": 8 << 30, "used": 4 << 30}, "gpus": []}
    lines = [
        {"at": 10.0 * step, "step": step, **host, "job": {"processes": 2, "memory": step << 30, "cpu": 1.5}} for step in (1, 2)
    ]
    folder.resources.write_text("".join(json.dumps(line) + "\n" for line in lines))
    account = {"until": "2026-01-31T10:15:00Z", "total_s": 90.0, "seconds": {"queue": 9.0}, "percent": {"queue": 10.0}}
    change_result(folder, wall_time=msgspec.convert(account, WallTime))
    folder.rollouts.mkdir()
    answers = [{"input": "2+2?", "output": f"{EVIL} {score}", "gts": "4", "score": score, "step": 9} for score in (0.0, 0.5, 1.0)]
    (folder.rollouts / "9.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    folder.packages.write_text(json.dumps({"packages": {"torch": "2.13.0"}, "gpus": ["NVIDIA H200"]}))
    text = page.of_jobs([load(folder)])
    assert data_of(text)["runs"][0]["metrics"]["job memory (GiB), worker-0"] == {"s": [1, 1], "v": [1, 2]}
    assert "Where 1m30s of ppo-a went" in text and "Best: score 1" in text and "Worst: score 0" in text
    assert "NVIDIA H200" in text and ">torch</th>" in text
    assert text.count("<script") == 2 and "<img" not in text


def test_an_attempt_is_shown_with_its_whole_chain_on_one_clock(shared: SharedRoot, verb: Verb) -> None:
    began = {"ppo-a": "2026-01-31T10:00:00.000Z", "ppo-a.2": "2026-01-31T10:01:40.000Z"}
    for (name, moment), steps in zip(began.items(), ((1, 2, 3), (4, 5)), strict=True):
        folder = good_job(shared, name)
        lines = ({"step": step, "data": {"critic/score/mean": 0.5, "timing_s/step": 2.0}} for step in steps)
        folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
        folder.log_times.unlink()
        change_result(folder, started_at=moment)
    attempts = [
        Attempt(id="ppo-a", state="FAILED", cause="cluster", rule="node-died", why=EVIL, step=3),
        Attempt(id="ppo-a.2", state="SUCCEEDED", step=5),
    ]
    chains.write(shared, Chain(cluster="local", retry=Retry(on=["cluster"]), attempts=attempts, note="succeeded"))
    code, out, _ = verb("report", "ppo-a.2")
    assert code == 0 and Path(out.strip()).parent == shared.job("ppo-a.2").reports
    text = Path(out.strip()).read_text()
    assert "<h1>chain ppo-a</h1>" in text and "Attempts of chain ppo-a: succeeded" in text
    assert html.escape(EVIL) in text and "<img" not in text
    assert [run["time"] for run in data_of(text)["runs"]] == [
        {"s": [1, 2, 3], "t": [2, 4, 6]},
        {"s": [4, 5], "t": [102, 104]},
    ]
