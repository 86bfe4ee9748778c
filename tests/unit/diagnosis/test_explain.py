"""Script 55: every signature has logs that trip it; the first cause in time wins; unknown is said, not guessed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.diagnosis import explain, log_lines, signatures
from mvp_helpers.diagnosis.explain import Explanation, Scan
from mvp_helpers.diagnosis.signatures import Signatures
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result

LOGS = Path(__file__).parents[1] / "logs"
SIGNATURES = signatures.load()
IDS = [rule.id for rule in SIGNATURES.rules]

ROOT = """Traceback (most recent call last):
  File "/opt/tool/main.py", line 10, in main
    work()
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/module.py", line 99, in forward
    raise strange
odd.StrangeError: nobody knows me
"""


def told(text: str, *, rules: Signatures = SIGNATURES) -> Explanation:
    return explain.conclude([Scan(rules, "x.log").read([text.encode()])], rules, {"log": "x.log"})


def examples(rule: str, kind: str) -> list[Path]:
    return sorted((LOGS / rule).glob(f"{kind}*.log"))


@pytest.mark.parametrize("rule", IDS)
def test_every_rule_is_tripped_by_its_examples_and_by_no_near_miss(rule: str) -> None:
    assert examples(rule, "positive"), f"{rule}: no log in tests/unit/logs/{rule} trips it"
    assert examples(rule, "near_miss"), f"{rule}: no near miss in tests/unit/logs/{rule}"
    for file in examples(rule, "positive"):
        found = explain.log(file)
        assert found.rule == rule, f"{file}: {found}"
        assert found.evidence and found.advice and found.next and found.where.startswith(str(file))
        assert "{" not in found.advice + found.next, f"a placeholder was not filled: {found.advice} / {found.next}"
    for file in examples(rule, "near_miss"):
        assert explain.log(file).rule != rule, f"{file}: {explain.log(file)}"


def test_there_are_no_examples_of_rules_that_are_gone() -> None:
    assert {folder.name for folder in LOGS.iterdir()} == set(IDS)


def test_a_rule_that_nothing_can_trip_is_seen() -> None:
    """The check above can fail: without its words a rule's own examples no longer trip it."""
    rules = [msgspec.structs.replace(rule, any=["no log says this"], exception="") for rule in SIGNATURES.rules]
    dead = msgspec.structs.replace(SIGNATURES, rules=rules)
    assert told(examples("disk-full", "positive")[0].read_text(), rules=dead).rule == ""


def test_the_first_cause_in_time_wins_over_a_later_one() -> None:
    full, nan = "cp: x: No space left on device\n", "step:1 - actor/grad_norm:nan\n"
    memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert told(full + memory).rule == "disk-full"
    assert told(memory + full).rule == "gpu-memory-at-start"
    assert told(nan + full).rule == "disk-full", "a remark is no cause where an error follows"


def test_an_effect_never_wins_over_its_cause_whatever_their_order() -> None:
    effect = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    cause = "OSError: [Errno 28] No space left on device\n"
    assert told(effect + "plain line\n" + cause).rule == "disk-full"
    assert told(ROOT + effect).evidence == "odd.StrangeError: nobody knows me"
    alone = told(effect)
    assert (alone.rule, alone.sure) == ("actor-died", "low")


def test_unknown_names_the_last_distinct_error_its_place_and_whose_code_raised() -> None:
    again = ROOT.replace("odd.StrangeError: nobody knows me", "odd.OtherError: second")
    found = told(ROOT + "text\n" + again + "text\n" + again)
    assert (found.verdict, found.rule, found.evidence, found.sure) == ("Unknown", "", "odd.OtherError: second", "low")
    assert (found.file, found.line, found.where) == ("/opt/tool/main.py", 10, "x.log:13"), "seen again is not another error"
    vllm = told(ROOT.replace("/opt/tool/main.py", "/opt/vllm/v1/engine.py"))
    assert (vllm.verdict, vllm.boundary) == ("Unknown", "rollout engine")


def test_a_chain_of_exceptions_is_explained_by_the_first() -> None:
    for words in (
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    ):
        chain = ROOT + f"\n{words}\n\n" + ROOT.replace("odd.StrangeError: nobody knows me", "RuntimeError: it did not work")
        assert told(chain).evidence == "odd.StrangeError: nobody knows me"
    second = ROOT.replace("odd.StrangeError: nobody knows me", "OSError: [Errno 28] No space left on device")
    assert told(ROOT + f"\n{words}\n\n" + second).rule == "disk-full", "a known exception explains more than an unknown one"


def test_exceptions_of_other_processes_are_found_inside_rays_own() -> None:
    text = """Traceback (most recent call last):
  File "/opt/tool/main.py", line 10, in main
    ray.get(x)
ray.exceptions.RayTaskError(KeyError): ray::TaskRunner.run() (pid=1, ip=10.0.0.1)
  File "/opt/tool/runner.py", line 20, in run
    ray.get(y)
ray.exceptions.RayTaskError(KeyError): ray::WorkerDict.init_model() (pid=2, ip=10.0.0.2)
  File "/opt/tool/worker.py", line 30, in init_model
    table[name]
KeyError: 'odd'
"""
    found = told(text)
    assert (found.evidence, found.file, found.line) == ("KeyError: 'odd'", "/opt/tool/worker.py", 30)
    created = """Traceback (most recent call last):
  File "/opt/tool/main.py", line 10, in main
    ray.get(x)
ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, ray::A.__init__() (pid=1)
           ^^^^^^^^^
  File "/opt/tool/actor.py", line 40, in __init__
    raise ValueError("mine")
ValueError: mine
(A pid=1) Exception raised in creation task: The actor died because of an error raised in its creation task, ray::A.__init__()
(A pid=1)   File "/opt/tool/actor.py", line 40, in __init__
(A pid=1)     raise ValueError("mine")
(A pid=1) ValueError: mine
"""
    found = told(created)
    assert (found.evidence, found.file, found.line, found.where) == ("ValueError: mine", "/opt/tool/actor.py", 40, "x.log:8")


def test_tracebacks_of_several_processes_are_told_apart_through_colours_and_prefixes() -> None:
    def said(source: str, text: str) -> list[str]:
        return [f"\x1b[36m({source}, ip=10.0.0.1)\x1b[0m {line}\n" for line in text.splitlines()]

    other = ROOT.replace("odd.StrangeError: nobody knows me", "OSError: [Errno 28] No space left on device")
    mixed = [line for pair in zip(said("A pid=1", ROOT), said("B pid=2", other), strict=True) for line in pair]
    found = told("".join(mixed))
    assert (found.rule, found.file, found.line, found.where) == ("disk-full", "/opt/tool/main.py", 10, "x.log:12")


@pytest.mark.parametrize(
    "prefix",
    [
        "(WorkerDict pid=1, ip=10.0.0.1) ",
        "(vLLMHttpServer pid=5) (EngineCore_DP0 pid=6) ERROR 01-31 10:00:00 [core.py:845] ",
        "[rank3]: ",
        "12: ",
        "2026-01-31T10:00:00.123Z ",
        "(MegatronPolicyWorker[rank=0] pid=2) ",
        "(pid=77) ",
    ],
)
def test_a_traceback_is_understood_behind_every_usual_prefix(prefix: str) -> None:
    found = told("".join(f"{prefix}{line}\n" for line in ROOT.splitlines()))
    assert (found.evidence, found.file, found.line) == ("odd.StrangeError: nobody knows me", "/opt/tool/main.py", 10)


def test_a_traceback_behind_a_progress_bar_and_one_cut_off_are_understood() -> None:
    assert told("Training Progress:  25%|##  | 1/4 [00:14<00:42]" + ROOT).evidence == "odd.StrangeError: nobody knows me"
    cut = told("".join(ROOT.splitlines(keepends=True)[:3]))
    assert (cut.verdict, cut.file, cut.line) == ("Unknown", "/opt/tool/main.py", 10)


def test_pytests_errors_get_their_place() -> None:
    found = told("E       odd.StrangeError: nobody knows me\n\ntests/test_provider.py:12: StrangeError\n")
    assert (found.evidence, found.file, found.line) == ("odd.StrangeError: nobody knows me", "tests/test_provider.py", 12)


def test_what_a_run_outlived_is_no_cause() -> None:
    steps = "".join(f"step:{step} - actor/loss:0.1\n" for step in (1, 2, 3))
    full = "OSError: [Errno 28] No space left on device\n"
    assert told(full + steps).rule == ""
    assert told(steps + full).rule == "disk-full"
    late = told(full + steps + full)
    assert (late.where, late.step) == ("x.log:5", 3), "the one it did not outlive"
    assert told(ROOT + steps).evidence == "no error was found"
    assert told(ROOT + "step:1 - actor/loss:0.1\n").evidence == "no error was found", "a step shows that all was built"
    assert told(steps + ROOT + "step:4 - actor/loss:0.1\n").verdict == "Unknown", "one step may have been on its way"


def test_the_phase_decides_between_blocked_and_fail() -> None:
    error = 'Traceback (most recent call last):\n  File "/opt/x.py", line 1, in y\n    z\nNotImplementedError: both at once\n'
    assert told(error).verdict == "Blocked"
    assert told("Qwen2ForCausalLM contains 1.5B parameters\n" + error).verdict == "Fail"


def test_leftovers_after_success_are_noise_and_a_clean_end_is_a_pass() -> None:
    done = "Training Progress: 100%|####| 2/2 [00:14<00:00]\n"
    leftover = "resource_tracker: There appear to be 3 leaked shared_memory objects to clean up at shutdown\n"
    assert (told(done + leftover).verdict, told(done).verdict) == ("Noise", "Pass")
    assert told(leftover + ROOT).verdict == "Unknown", "noise wins over nothing"
    assert told("nothing to see\n").verdict == "Unknown"


def test_an_error_is_found_wherever_the_log_is_cut_into_pieces() -> None:
    text = ("x" * 80 + "\n").encode() * 50 + ROOT.encode() + b"last line without an end"
    whole = explain.conclude([Scan(SIGNATURES, "x").read([text])], SIGNATURES, {})
    assert whole.where == "x:56"
    for size in (1, 7, 100, 1000):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert explain.conclude([Scan(SIGNATURES, "x").read(pieces)], SIGNATURES, {}) == whole


def test_a_line_without_end_is_read_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "CHUNK", 1000)
    pieces = [b"y" * 700] * 10 + [b"\n", ROOT.encode()]
    assert explain.conclude([Scan(SIGNATURES, "x").read(pieces)], SIGNATURES, {}).where == "x:7"


def test_what_cannot_be_explained_is_refused_with_one_message(tmp_path: Path) -> None:
    for content, message in (
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"abc\0def", "is no text"),
        (b"\x1f\x8b\x08abc", "is no text"),
    ):
        file = tmp_path / "x.log"
        file.write_bytes(content)
        with pytest.raises(BadInput, match=message):
            explain.log(file)
    with pytest.raises(BadInput, match="cannot read"):
        explain.log(tmp_path / "none")
    with pytest.raises(BadInput, match="is a folder"):
        explain.log(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "disk-full"}, "stands twice"),
        ({"any": [], "exception": ""}, "needs 'any' or 'exception'"),
        ({"regex": "("}, "is not a regular expression"),
        ({"frames": "x", "exception": ""}, "only exceptions have frames"),
        ({"phase": ["nowhere"]}, "invalid enum value 'nowhere'"),
    ],
)
def test_a_mistake_in_the_signatures_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    content = msgspec.to_builtins(SIGNATURES)
    rule = next(dict(rule) for rule in content["rules"] if rule["id"] == "read-only")
    content["rules"] = [*(r for r in content["rules"] if r["id"] != "read-only"), rule | change]
    file = tmp_path / "signatures.yaml"
    file.write_text(json.dumps(content))
    with pytest.raises(BadInput, match=message):
        signatures.load(file)


def test_levels_tell_errors_from_remarks() -> None:
    cases = {
        "2026-01-31 10:00:00,100 INFO worker.py:9 -- Connecting": "INFO",
        "[2026-01-31 10:00:00,100 E 12 34] (raylet) node_manager.cc:30: gone": "ERROR",
        "[rank0]:[W1120 10:00:00.1 ProcessGroupNCCL.cpp:1] leak": "WARNING",
        "WARNING:megatron.bridge: no": "WARNING",
        "ERROR 01-31 10:00:00 [core.py:8] gone": "ERROR",
        "plain": "",
    }
    assert {text: log_lines.clean(text.encode(), 1).level for text in cases} == cases
    assert log_lines.clean(b"x.py:1: UserWarning: ModuleNotFoundError: No module named 'y'", 1).quiet


# -- jobs


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return job_folder.claim(SharedRoot(tmp_path), Result(submission_id="job1", workload="ppo", state="CLAIMED"))


def ended(state: job_folder.State = "FAILED", reason: str = "the trainer ended with exit code 1") -> Result:
    return Result(
        submission_id="job1",
        workload="ppo",
        state=state,
        reason=reason,
        started_at="2026-01-31T10:00:00.000Z",
        ended_at="2026-01-31T10:05:00.000Z",
    )


def bundle(folder: JobFolder, **files: object) -> None:
    place = folder.debug / "20260131T100500.000Z-failed"
    place.mkdir()
    for name, content in files.items():
        (place / f"{name}.json").write_text(json.dumps(content))


DIED_AT_MS = 1_769_853_720_000
"""2026-01-31T10:02:00Z."""


def test_a_job_that_succeeded_or_was_stopped_has_nothing_to_explain(folder: JobFolder) -> None:
    folder.driver_log.write_text(ROOT)
    assert explain.job(folder, ended("SUCCEEDED", "")).verdict == "Pass"
    assert explain.job(folder, ended("STOPPED", "stopped on request")).verdict == "Skipped"


def test_a_jobs_log_explains_it(folder: JobFolder) -> None:
    folder.driver_log.write_text("cp: x: No space left on device\n")
    found = explain.job(folder, ended())
    assert (found.verdict, found.rule, found.where) == ("Blocked", "disk-full", "logs/driver.log:1")


def test_a_dead_node_in_a_bundle_explains_what_the_log_shows_only_the_effect_of(folder: JobFolder) -> None:
    folder.driver_log.write_text("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n")
    node = {"node_ip": "10.0.0.9", "state": "DEAD", "state_message": "health check failed", "end_time_ms": DIED_AT_MS}
    bundle(folder, nodes=[node, node | {"state": "ALIVE"}])
    found = explain.job(folder, ended())
    assert (found.rule, found.whose) == ("node-died", "environment")
    assert "10.0.0.9" in found.evidence and found.where.endswith("-failed/nodes.json:1")


def test_a_node_that_died_long_before_the_job_explains_nothing(folder: JobFolder) -> None:
    node = {"node_ip": "10.0.0.9", "state": "DEAD", "state_message": "health check failed", "end_time_ms": DIED_AT_MS - 7_200_000}
    bundle(folder, nodes=[node])
    assert explain.job(folder, ended()).rule == ""


def test_only_this_jobs_actors_count(folder: JobFolder) -> None:
    oom = {"oom_context": {"error_message": "Task was killed due to the node running low on memory."}}
    actors = [{"job_id": "02000000", "death_cause": oom}]
    bundle(folder, job=[{"job_id": "01000000"}], actors=actors)
    assert explain.job(folder, ended()).rule == ""
    (folder.debug / "20260131T100500.000Z-failed" / "job.json").write_text(json.dumps([{"job_id": "02000000"}]))
    assert explain.job(folder, ended()).rule == "node-memory"


def test_a_workers_own_log_in_a_bundle_explains_what_the_driver_only_saw_ending(folder: JobFolder) -> None:
    folder.driver_log.write_text("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n")
    bundle(folder)
    logs = folder.debug / "20260131T100500.000Z-failed" / "hosts" / "worker-0" / "ray-logs"
    logs.mkdir(parents=True)
    (logs / "worker-1-2-3.err").write_text(ROOT)
    (logs / "monitor.log").write_text("OSError: [Errno 98] Address already in use\n")  # of the node, not of the job
    found = explain.job(folder, ended())
    assert (found.evidence, found.where.partition("/hosts/")[2]) == (
        "odd.StrangeError: nobody knows me",
        "worker-0/ray-logs/worker-1-2-3.err:6",
    )


def test_a_blocked_job_explains_itself(folder: JobFolder) -> None:
    problem = "driver: cannot import verl: ModuleNotFoundError: No module named 'codetiming'"
    folder.precheck.write_text(json.dumps({"problems": [problem]}))
    found = explain.job(folder, ended("BLOCKED", problem))
    assert (found.verdict, found.rule) == ("Blocked", "missing-module") and "codetiming" in found.advice
    folder.precheck.write_text(json.dumps({"problems": ["no alive Ray node offers worker_node"]}))
    found = explain.job(folder, ended("BLOCKED", "no alive Ray node offers worker_node"))
    assert (found.verdict, found.evidence) == ("Blocked", "no alive Ray node offers worker_node")


def test_the_reason_alone_explains_a_job_without_any_log(folder: JobFolder) -> None:
    killed = explain.job(folder, ended(reason="the trainer was killed by SIGKILL"))
    assert (killed.rule, killed.where) == ("trainer-killed", "result.json:1") and "job1" in killed.next
    gone = explain.job(folder, ended(reason="the Ray cluster that ran it is gone"))
    assert gone.rule == "cluster-gone"
    silent = explain.job(folder, ended(reason="the trainer ended with exit code 7"))
    assert (silent.verdict, silent.evidence) == ("Unknown", "the trainer ended with exit code 7")


def test_a_log_that_ends_well_does_not_excuse_a_failed_job(folder: JobFolder) -> None:
    folder.driver_log.write_text("Training Progress: 100%|####| 2/2 [00:14<00:00]\n")
    found = explain.job(folder, ended(reason="the trainer ended with exit code 9"))
    assert (found.verdict, found.evidence) == ("Unknown", "the trainer ended with exit code 9")


def test_damaged_evidence_is_passed_over(folder: JobFolder) -> None:
    folder.driver_log.write_text(ROOT)
    place = folder.debug / "20260131T100500.000Z-failed"
    place.mkdir()
    for name in ("nodes", "actors", "job"):
        (place / f"{name}.json").write_text('[{"cut')
    assert explain.job(folder, ended()).evidence == "odd.StrangeError: nobody knows me"
