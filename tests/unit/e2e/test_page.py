"""The page of an end-to-end run: what it shows of runs that passed, failed and were blocked, from the folder alone."""

from __future__ import annotations

import html
import json
import os
import pwd
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import e2e_checkouts as fixtures
import msgspec
import pytest
from browser import Browser, program

from mvp_helpers import cli
from mvp_helpers.base.paths import E2eRun
from mvp_helpers.base.project import PROJECT
from mvp_helpers.base.verdict import Check, Evidence
from mvp_helpers.diagnosis.views import Triage
from mvp_helpers.e2e import page, summary
from mvp_helpers.e2e.execute import Outcome
from mvp_helpers.e2e.step import Step
from mvp_helpers.e2e.summary import Summary

if TYPE_CHECKING:
    from conftest import World

EVIL = "<script>document.title='taken over'</script><img src=x onerror=\"document.title='taken over'\">"
OF_A_DESKTOP = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")
LIMITED = 'max(data["train/loss"]) < 1.05'
AT_A_STEP = 'data["train/gen_kl_error"]["2"] < 0.003'


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert found
    return dict(json.loads(found[1]))


def broken_links(text: str) -> set[str]:
    return set(re.findall(r'href="#([^"]+)"', text)) - set(re.findall(r' id="([^"]+)"', text))


@pytest.fixture
def run(tmp_path: Path) -> E2eRun:
    """A run of NeMo-RL that failed by an assertion, whose log has markup wherever a program can write."""
    folder = E2eRun(tmp_path / "runs" / "nemo-rl-1")
    place = folder.next_try("level-0-smoke")
    place.mkdir(parents=True)
    folder.request.write_text('{"description": "nemo-rl", "levels": [0]}')
    log = place / "wrapper.log"
    log.write_text("".join(f"line {at}\n" for at in range(1, 400)) + f"AssertionError: {EVIL}\n")
    series = {"train/loss": {"1": 1.0, "2": 1.5, "3": float("nan")}, "train/gen_kl_error": {"1": 0.001, "2": 0.002, "3": 0.001}}
    series["timing/train/total_step_time"] = {"1": 2.0, "2": 3.0, "3": 5.0}
    (place / "metrics-1.json").write_text(json.dumps(series))
    (place / "command.sh").write_text(f"# {EVIL}\nbash tests/functional/grpo_megatron.sh\n")
    own = Evidence(str(log), 400, f"AssertionError: {EVIL}")
    criteria = [
        Check("every step was trained", "Pass", "3 steps", [Evidence(str(log), 200, "line 200")]),
        Check(f"metric: {LIMITED}", "Fail", f"{LIMITED} (is 1.5)"),
        Check(f"metric: {AT_A_STEP}", "Pass", f"{AT_A_STEP} (is 0.002)"),
        Check("metric: all_finite(data[\"train/loss\"])", "Fail", "train/loss is nan at step 3"),
        Check("no exception", "Fail", EVIL, [own]),
    ]  # fmt: skip
    step = Step(name="level-0-smoke", title="smoke", verdict="Fail", reason=f"not met: {EVIL}", log=str(log), criteria=criteria)
    step.triage = Triage(log=str(log), verdict="Fail", boundary="bridge", line=400, evidence=f"AssertionError: {EVIL}")
    step.outcome, step.seconds, step.began = Outcome(ended="exit", exit_code=1, seconds=9.0), 10.0, "2026-01-31T10:15:00.000Z"
    early = Step(
        name="imports", title="imports", verdict="Pass", reason="from the checkout", seconds=1.0, where="gpu-1, python 3.12"
    )
    found = Summary(
        result="Fail",
        sentence=f"level-0-smoke: {EVIL}",
        coverage="Level 0 (smoke)",
        model="Qwen/Qwen2.5-0.5B",
        deliverables=[Check("NeMo-RL run", "Fail", "level-0-smoke failed", [own])],
        evidence=[("Bridge repo", "0123abcd (main), clean"), ("Command", "bash x.sh"), ("Key lines", EVIL)],
        limitations=["save/resume not run"],
        follow_ups=["needed rerun after a fix"],
        run=str(folder.path),
        steps=[msgspec.to_builtins(early), msgspec.to_builtins(step)],
    )
    folder.summary("json").write_bytes(summary.as_json(found))
    return folder


def test_a_run_of_verl_ends_with_a_page_of_its_criteria_command_and_limitations(
    world: World, quick: None, no_tests: None
) -> None:
    procedure = world.procedure(world.request("0"))
    found = procedure.run()
    text = procedure.folder.summary("html").read_text()
    smoke = next(step for step in procedure.steps if step.name == "level-0-smoke")
    for check in [*smoke.criteria, *found.deliverables]:
        assert f">{html.escape(check.name)}</th>" in text
        assert html.escape(check.reason) in text
    for limitation in found.limitations:
        assert html.escape(limitation) in text
    assert broken_links(text) == set()
    assert re.search(r'href="#r0-steps-level-0-smoke-try-1-wrapper-log-\d+"', text), "evidence is linked to the log's lines"
    assert html.escape((Path(smoke.log).parent / "command.sh").read_text().splitlines()[-1]) in text
    drawn = data_of(text)["runs"][0]
    assert drawn["name"] == "level-0-smoke" and "actor/pg_loss" in drawn["metrics"]


def test_a_run_of_nemo_rl_ends_with_a_page_that_has_its_assertions_as_limits(world: World, quick: None, no_tests: None) -> None:
    shutil.copy(fixtures.NEMO_RL / "uv", world.root / "bin" / "uv")
    procedure = world.procedure(world.request("0", description="nemo-rl"))
    assert procedure.run().result == "Pass"
    text = procedure.folder.summary("html").read_text()
    found = data_of(text)
    assert found["limits"]["train/probs_ratio_clamped_min"][0]["low"] == 0.79
    assert found["runs"][0]["metrics"]["train/loss"]["v"] and broken_links(text) == set()


def test_a_blocked_run_has_a_page_that_says_why(world: World, quick: None, no_tests: None) -> None:
    shutil.rmtree(world.bridge / "3rdparty/Megatron-LM")
    (world.bridge / "3rdparty/Megatron-LM").mkdir()
    procedure = world.procedure(world.request("0"))
    procedure.run()
    text = procedure.folder.summary("html").read_text()
    assert "No metrics: no step was recorded." in text and "git submodule update --init --recursive" in text
    assert broken_links(text) == set()


def test_limits_are_those_of_the_assertions_and_gaps_are_named(run: E2eRun) -> None:
    text = page.of_run(run)
    found = data_of(text)
    assert found["limits"] == {
        "train/loss": [{"low": None, "high": 1.05, "text": f"assertion {LIMITED}"}],
        "train/gen_kl_error": [{"low": None, "high": 0.003, "text": f"assertion {AT_A_STEP}"}],
    }
    assert found["runs"][0]["metrics"]["train/loss"]["v"] == [1, 1.5, None]
    assert "NaN or infinite at step 3 (1 of 3)." in text
    assert found["runs"][0]["time"] == {"s": [1, 2, 3], "t": [2, 5, 10]}


def test_the_diagnosis_and_every_verdict_link_to_the_lines_that_prove_them(run: E2eRun) -> None:
    text = page.of_run(run)
    assert text.count('href="#r0-steps-level-0-smoke-try-1-wrapper-log-400"') == 3, "deliverable, criterion and diagnosis"
    assert ">line 200<" in text and ">line 100<" not in text, "cited lines and the ends of the log"
    assert broken_links(text) == set()


def test_what_a_program_wrote_is_text(run: E2eRun) -> None:
    text = page.of_run(run)
    assert "<img" not in text and text.count("<script") == 2 and html.escape(EVIL) in text


def test_a_folder_that_was_moved_has_the_same_page(run: E2eRun, tmp_path: Path) -> None:
    before = page.of_run(run)
    moved = E2eRun(Path(shutil.move(run.path, tmp_path / "nemo-rl-1")))
    strip = re.compile(r"Made at \S+")
    assert strip.sub("", page.of_run(moved)) == strip.sub("", before)


def test_the_verb_writes_the_page_of_a_run_by_its_name_or_folder(run: E2eRun, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in ([run.path.name, "--runs-dir", str(run.path.parent)], [str(run.path)]):
        run.summary("html").unlink(missing_ok=True)
        assert cli.main(["e2e-report", *argv]) == 0
        assert capsys.readouterr().out.strip() == str(run.summary("html")) and run.summary("html").is_file()


@pytest.mark.parametrize("damage", ["gone", "{", '{"evidence": {}}', "[]", '{"evidence": []}'])
def test_a_run_without_a_whole_summary_is_one_line_and_exit_code_2(
    run: E2eRun, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run.summary("json").unlink()
    if damage != "gone":
        run.summary("json").write_text(damage)
    assert cli.main(["e2e-report", str(run.path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("bad input: ") and len(err.splitlines()) <= 2
    assert not run.summary("html").exists()


@pytest.mark.skipif(not program(), reason="Chromium is not installed (tests/lab/install.sh installs it)")
def test_a_browser_draws_the_page_and_runs_nothing_of_a_programs(run: E2eRun, tmp_path: Path) -> None:
    written = page.write(run)
    with Browser(tmp_path / "browser") as browser:
        for width, theme in ((1440, "light"), (390, "dark")):
            browser.open(written, width, theme)
            assert browser.problems() == [] and browser.requests() == [written.as_uri()]
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert "taken over" not in browser.run("document.title")
        loss = "document.querySelector('figure[data-metric=\"train/loss\"]')"
        assert browser.run(f"{loss}.querySelectorAll('line.limit').length") == 1
        assert browser.run(f"[...{loss}.querySelectorAll('text.tick')].at(-1).textContent") == "step 3", "a gap at the end"
        assert "assertion max(" in browser.run(f"{loss}.querySelector('.note').textContent")


# 56_report.sh --open


def opened(run: E2eRun, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script as a person does who has these variables; a browser of theirs is in ``tmp_path``."""
    known = {name: value for name, value in os.environ.items() if name not in OF_A_DESKTOP}
    path = f"{tmp_path}:{os.environ['PATH']}"
    argv = [str(PROJECT / "scripts" / "56_report.sh"), str(run.path), "--open"]
    return subprocess.run(argv, env={**known, "PATH": path, **environment}, capture_output=True, text=True, check=False)


def script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("mybrowser", {"BROWSER": "gone:mybrowser"}),
        ("mybrowser", {"BROWSER": "mybrowser --new %s", "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22"}),
        ("xdg-open", {"DISPLAY": ":0"}),
    ],
)
def test_open_shows_the_page_in_the_persons_browser(run: E2eRun, tmp_path: Path, name: str, environment: dict[str, str]) -> None:
    script(tmp_path / name, f'printf "%s\\n" "$@" >{tmp_path}/new && mv {tmp_path}/new {tmp_path}/shown')
    script(tmp_path / "xdg-settings", "exit 1")  # no browser was chosen on this desktop
    done = opened(run, tmp_path, **environment)
    assert (done.returncode, done.stdout.strip()) == (0, str(run.summary("html"))), done.stderr
    deadline = time.monotonic() + 30
    while not (tmp_path / "shown").is_file() and time.monotonic() < deadline:
        time.sleep(0.05)  # a browser outlives the script that starts it
    assert (tmp_path / "shown").read_text().splitlines()[-1] == run.summary("html").as_uri()


def test_open_without_a_browser_says_how_to_get_the_page(run: E2eRun, tmp_path: Path) -> None:
    done = opened(run, tmp_path, SSH_CONNECTION="10.0.0.1 50000 10.0.0.2 2222")
    assert (done.returncode, done.stdout.strip()) == (3, str(run.summary("html")))
    assert "in this ssh session" in done.stderr
    assert f"scp -P 2222 {pwd.getpwuid(os.getuid()).pw_name}@10.0.0.2:{run.summary('html')} ." in done.stderr
    script(tmp_path / "mybrowser", "exit 4")
    done = opened(run, tmp_path, BROWSER="mybrowser")
    assert done.returncode == 3 and "no browser to open" in done.stderr
