"""Logs of programs that train nothing: their own report of the end passes, and with one lie or doubt it never does."""

from __future__ import annotations

from pathlib import Path

import pytest
from triaging import triaged

from mvp_helpers.diagnosis import finished

EVALUATION = (
    "model: /models/small, 120 questions\n"
    "answered 60 of 120\n"
    "answered 120 of 120\n"
    "accuracy 0.425, errors: 0\n"
    "Results saved to results/arithmetic.json\n"
)
BENCHMARK = (
    "engine ready after 12 s\n"
    "concurrency 2: 310 tokens/s\n"
    "concurrency 8: 940 tokens/s\n"
    "Benchmark finished at Tue Nov 3 10:12:01 2026\n"
)
CONVERSION = "reading 4 shards\nwriting layers\nCONVERT_EXIT_CODE=0\n"
BATCH = (
    "Sender: LSF System <root@n7>\nSubject: Job 812: <convert> in cluster <lab> Done\n\nSuccessfully completed.\n\n"
    "The output (if any) follows:\n\n4 files converted\n"
)
CONDOR = (
    "001 (12.000.000) Job executing on host: n7\n005 (12.000.000) Job terminated.\n\t(1) Normal termination (return value 0)\n"
)
CONDOR = (
    "001 (12.000.000) Job executing on host: n7\n005 (12.000.000) Job terminated.\n\t(1) Normal termination (return value 0)\n"
)
HEALTHY = {
    "evaluation": EVALUATION,
    "benchmark": BENCHMARK,
    "conversion": CONVERSION,
    "batch": BATCH,
    "condor": CONDOR,
    "alone": "counting words\nall done!\n",
    "of a part of the data": "Generating train split\nfetched (HTTP/1.1 404 Not Found), taking the other\n" + EVALUATION,
    "in Chinese": "读取 4 个文件\n统计摘要已保存: out/summary.json\n",
}
LIES = {
    "an error": lambda log: "ERROR: question 7 has no answer\n" + log,
    "an error in a sentence": lambda log: "the judge failed twice\n" + log,
    "an error in another language": lambda log: "评测失败: 7\n" + log,
    "a traceback": lambda log: 'Traceback (most recent call last):\n  File "x.py", line 3, in ask\nKeyError: 7\n' + log,
    "a number that is none": lambda log: "mean length: nan\n" + log,
    "a training": lambda log: "training for 3 rounds\n" + log,
    "a loss": lambda log: "loss 0.31\n" + log,
    "memory": lambda log: "out of memory, taking the smaller batch\n" + log,
    "an exit status": lambda log: log + "exit status: 1\n",
    "killed": lambda log: log + "Killed\n",
    "more work": lambda log: log + "".join(f"reading part {part}\n" for part in range(5)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_the_end_of_work_passes_and_is_named(tmp_path: Path, name: str) -> None:
    found = triaged(tmp_path, HEALTHY[name])
    assert found.verdict == "Pass" and found.evidence in HEALTHY[name] and "no training" in found.advice


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", HEALTHY)
def test_no_lie_passes(tmp_path: Path, name: str, lie: str) -> None:
    if lie == "more work" and name == "batch":
        return  # LSF's report precedes the output
    assert triaged(tmp_path, LIES[lie](HEALTHY[name])).verdict != "Pass"


@pytest.mark.parametrize(
    "log",
    [
        "scoring 5 tasks\n" + "".join(f"Results saved to results/{task}.json\n" for task in ("add", "sort")),
        "loading\nDownload complete\n",
        "checking the data\nwill run the evaluation when the build is done\n",
        "3 / 5 runs finished\n",
        "Subject: Job 811: <convert> in cluster <lab> Exited\n" + BATCH,
        "waiting\nstarting the evaluation of results that were saved\n",
        "nothing more\n",
        "WARNING: the run is done\n",
    ],
)
def test_words_about_a_part_or_a_plan_are_no_end(tmp_path: Path, log: str) -> None:
    assert triaged(tmp_path, log).verdict != "Pass"


def test_a_long_log_is_not_judged_by_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert triaged(tmp_path, "answered\n" * 3 + EVALUATION).verdict == "Pass"
    monkeypatch.setattr(finished, "LONGEST", 60)
    assert triaged(tmp_path, EVALUATION).verdict == "Unknown"
