"""Secrets: where values come from, where they go, and that whatever is printed is masked."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runners import job, python, run
from toys import plan_of

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.mask import Mask, forms
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.job import job_secrets
from mvp_helpers.plan import plan, planning
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result

CANARY = 's3cr3t/"canary"\\ü+1'


def own_file(shared: SharedRoot, name: str, value: bytes, mode: int = 0o600) -> Path:
    path = shared.user_secrets / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value)
    path.chmod(mode)
    return path


@pytest.fixture
def asking(replace: Callable[..., Any], shared: SharedRoot) -> plan.Plan:
    """A plan that names the secret TOKEN."""
    asking: plan.Plan = replace(plan_of("job1", shared.root), secrets=["TOKEN"])
    return asking


def test_a_value_comes_from_the_submitters_environment_first(asking: plan.Plan, shared: SharedRoot) -> None:
    own_file(shared, "TOKEN", b"from-the-file", mode=0o644)
    assert job_secrets.collect(asking, {"TOKEN": "from-the-environment", "OTHER": "12345678"}) == {
        "TOKEN": "from-the-environment"
    }


def test_otherwise_it_comes_from_the_users_file_without_its_last_line_end(asking: plan.Plan, shared: SharedRoot) -> None:
    own_file(shared, "TOKEN", b"two\nlines of it\n")
    assert job_secrets.collect(asking, {}) == {"TOKEN": "two\nlines of it"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o601])
def test_a_file_that_others_can_reach_is_refused(asking: plan.Plan, shared: SharedRoot, mode: int) -> None:
    path = own_file(shared, "TOKEN", CANARY.encode(), mode)
    with pytest.raises(BadInput, match=f"mode 0{mode:o}") as caught:
        job_secrets.collect(asking, {})
    assert caught.value.hint == f"chmod 600 {path}"


def test_a_missing_secret_is_named_with_both_places(asking: plan.Plan, shared: SharedRoot) -> None:
    with pytest.raises(BadInput) as caught:
        job_secrets.collect(asking, {})
    assert caught.value.what == f"job.json: secret TOKEN is neither in the environment nor in {shared.user_secrets}/TOKEN"


@pytest.mark.parametrize(
    ("value", "problem"), [("", "fewer than 8 bytes"), ("sh0rt!!", "fewer than 8 bytes"), ("long-enough\0x", "NUL byte")]
)
def test_a_value_that_cannot_be_masked_or_stored_is_refused_and_not_shown(asking: plan.Plan, value: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as caught:
        job_secrets.collect(asking, {"TOKEN": value})
    assert not value or value not in caught.value.show()


def test_a_file_that_is_not_text_is_refused(asking: plan.Plan, shared: SharedRoot) -> None:
    own_file(shared, "TOKEN", b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe")
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        job_secrets.collect(asking, {})


@pytest.mark.parametrize("place", ["spec", "argv", "env_vars"])
def test_a_value_that_is_part_of_the_plan_is_refused(asking: plan.Plan, replace: Callable[..., Any], place: str) -> None:
    changes = {"argv": {"argv": ["train", f"key={CANARY}"]}, "env_vars": {"env_vars": {"A": CANARY}}}
    spec = json.dumps({"workload": "echo", "trainer_overrides": [f"a={CANARY}"]}).encode() if place == "spec" else b""
    with pytest.raises(BadInput, match="the value of secret TOKEN is in the JobSpec") as caught:
        job_secrets.collect(replace(asking, **changes.get(place, {})), {"TOKEN": CANARY}, spec)
    assert CANARY not in caught.value.show()


def test_what_ray_gets_names_the_file_and_never_a_value(cluster: Cluster, workloads: Path) -> None:
    made = planning.make(b'{"workload": "echo", "submission_id": "job1", "secrets": ["TOKEN"]}', "job.json", cluster)
    runtime_env = made.runtime_env()
    assert runtime_env["env_vars"]["MVP_SECRETS_FILE"] == f"{cluster.shared_root}/user/secrets/.jobs/job1"
    assert runtime_env["worker_process_setup_hook"] == "mvp_helpers.worker_setup.of_job"
    assert "TOKEN" not in json.dumps(runtime_env)
    without = planning.make(b'{"workload": "echo"}', "job.json", cluster).runtime_env()
    assert without["worker_process_setup_hook"] == runtime_env["worker_process_setup_hook"]
    assert "MVP_SECRETS_FILE" not in without["env_vars"]


def test_values_travel_to_the_head_before_the_spec_and_only_those_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = b'{"workload": "echo",\n "secrets": ["TOKEN", "ELSEWHERE"]}'
    monkeypatch.setenv("TOKEN", CANARY)
    monkeypatch.setenv("UNRELATED", "never sent")
    packed = job_secrets.pack(spec, "job.json")
    monkeypatch.delenv("TOKEN")
    assert job_secrets.unpack(packed, True) == ({"TOKEN": CANARY}, spec)
    assert b"never sent" not in packed


def test_a_spec_with_a_mistake_reaches_the_head_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = b'{"workload": "echo", "secrets": ["TOKEN"'
    assert job_secrets.unpack(job_secrets.pack(broken, "job.json"), True) == ({}, broken)
    assert job_secrets.unpack(broken, False) == (os.environ, broken)


def test_stored_values_are_readable_by_the_owner_only_and_removed_when_the_job_ends(tmp_path: Path) -> None:
    result = Result(submission_id="job1", workload="echo", state="CLAIMED")
    folder = job_folder.claim(SharedRoot(tmp_path), result)
    old = os.umask(0)
    try:
        job_secrets.keep(folder.shared, folder.secrets, {"TOKEN": CANARY})
    finally:
        os.umask(old)
    assert folder.secrets.stat().st_mode & 0o777 == 0o600
    assert folder.secrets.parent.stat().st_mode & 0o777 == 0o700
    result.state = "RUNNING"
    job_folder.write(folder, result)
    assert job_secrets.read(folder.secrets) == {"TOKEN": CANARY}
    result.state = "FAILED"
    job_folder.write(folder, result)
    assert not folder.secrets.exists() and job_secrets.read(folder.secrets) == {}


@pytest.mark.parametrize(
    "show",
    [str, json.dumps, repr, lambda v: json.dumps(v, ensure_ascii=False), lambda v: __import__("urllib.parse").parse.quote(v, "")],
    ids=["plain", "json", "repr", "json with unicode", "url"],
)
def test_a_value_is_masked_in_the_forms_programs_print(show: Callable[[str], str]) -> None:
    shown = show(CANARY)
    masked = Mask([CANARY]).text(f"a {shown} b")
    assert masked.startswith("a ") and masked.endswith(" b") and "***" in masked
    assert "s3cr3t" not in masked and "canary" not in masked


def test_each_line_of_a_value_is_masked_since_ray_prefixes_every_line() -> None:
    assert (
        Mask(["first line\nsecond line"]).text("(A pid=1) first line\n(A pid=1) second line\n")
        == "(A pid=1) ***\n(A pid=1) ***\n"
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_is_masked_wherever_its_chunks_end(seed: int) -> None:
    dice = random.Random(seed)
    # One begins with another, one ends as another begins, one repeats itself.
    values = ["abcdefgh", "abcdefghijkl", "xxxxxabcd", "aaaaaaaab"]
    text = "".join(dice.choice([*values, "a", "abc", "x", "\n", " and ", "aaaa"]) for _ in range(60)).encode()
    cuts = sorted(dice.sample(range(len(text)), min(len(text), dice.randrange(1, 80))))
    chunks = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    masked = b"".join(Mask(values).stream(chunks))
    assert not [value for value in values if value.encode() in masked]
    # Only values are masked: the rest of the text is unchanged, in the same order.
    assert b"\n".join(masked.split()).count(b"and") == text.count(b"and")


def test_only_a_possible_beginning_of_a_value_is_kept_back() -> None:
    assert list(Mask(["abcdefgh"]).stream([b"50% done", b" abcd", b"xyz abc", b"defgh!"])) == [
        b"50% done",
        b" ",
        b"abcdxyz ",
        b"***!",
    ]
    assert list(Mask(["abcdefgh"]).stream([b"the end: abcde"])) == [b"the end: ", b"abcde"]
    assert list(Mask([]).stream([b"abc", b"def"])) == [b"abc", b"def"]


def test_the_trainer_gets_the_values_and_no_kept_file_shows_them(tmp_path: Path) -> None:
    letters = "import os\nfor letter in os.environ['TOKEN']: print(letter, end='', flush=True)\nprint(flush=True)\n"
    folder = job(tmp_path, python(letters + "raise ValueError('refused: ' + os.environ['TOKEN'])"), secrets=["TOKEN"])
    job_secrets.keep(folder.shared, folder.secrets, {"TOKEN": CANARY})
    code, out, result = run(folder)
    assert (code, result.state) == (1, "FAILED")
    assert result.reason == "the trainer ended with exit code 1: ValueError: refused: ***"
    log = folder.driver_log.read_text()
    assert log == out and log.startswith("***\nTraceback") and log.endswith("ValueError: refused: ***\n")
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in kept if any(form in path.read_bytes() for form in forms(CANARY))]


def test_a_job_whose_values_are_missing_is_blocked_before_it_trains(tmp_path: Path) -> None:
    folder = job(tmp_path, ["touch", "trained"], secrets=["TOKEN"])
    code, _, result = run(folder)
    assert (code, result.state) == (3, "BLOCKED")
    assert result.reason == f"the values of the secrets TOKEN are not in {folder.secrets} on this host"
    assert not (folder.path / "trained").exists()


def test_an_import_error_that_quotes_a_value_is_masked_in_the_precheck(tmp_path: Path) -> None:
    module = tmp_path / "quoting.py"
    module.write_text("import os\nraise RuntimeError('token ' + os.environ['TOKEN'])")
    path = f"{PROJECT / 'lib'}:{tmp_path}"
    folder = job(tmp_path, ["true"], secrets=["TOKEN"], imports=["quoting"], env_vars={"PYTHONPATH": path})
    job_secrets.keep(folder.shared, folder.secrets, {"TOKEN": CANARY})
    _, out, result = run(folder)
    assert result.state == "BLOCKED" and "cannot import quoting: RuntimeError: token ***" in result.reason
    assert "s3cr3t" not in folder.precheck.read_text() + out
