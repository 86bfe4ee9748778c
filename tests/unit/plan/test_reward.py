"""A reward function that verl cannot load or call is found before anything trains: in its source, or by a call. verl is real."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mvp_helpers.base import processes
from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.job import precheck
from mvp_helpers.plan import plan, planning, reward, reward_trial
from mvp_helpers.plan.plan import Plan
from mvp_helpers.plan.reward import RewardFunction

GOOD = "def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n    return 1.0\n"


@pytest.fixture
def code(shared: SharedRoot) -> Path:
    """``user/code/``"""
    shared.user_code.mkdir(parents=True)
    return shared.user_code


def plan_with(cluster: Cluster, given: str, **fields: Any) -> Plan:
    document = {"workload": "toy", "code_path": "common/code/verl/current", "model": "common/models/tiny"}
    document |= {"dataset": "datasets/gsm8k", "reward_fn_path": given, **fields}
    return planning.make(json.dumps(document).encode(), "job.json", cluster)


def refused(cluster: Cluster, given: str, **fields: Any) -> str:
    with pytest.raises(BadInput) as caught:
        plan_with(cluster, given, **fields)
    return caught.value.what


# -- where it is found -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("workloads")
def test_a_file_is_wired_and_its_folder_of_code_is_on_the_path(cluster: Cluster, code: Path) -> None:
    (code / "r.py").write_text(GOOD + GOOD.replace("compute_score", "other"))
    for given, name in [("user/code/r.py", "compute_score"), ("${SHARED_ROOT}/user/code/r.py:other", "other")]:
        made = plan_with(cluster, given)
        assert f"reward.path={code}/r.py" in made.overrides and f"reward.name={name}" in made.overrides
        assert made.env_vars["PYTHONPATH"] == f"{made.code_path}:{PROJECT}/lib:{code}"


@pytest.mark.usefixtures("workloads")
def test_a_module_under_user_code_is_wired_as_a_module(cluster: Cluster, code: Path) -> None:
    (code / "pkg" / "inner").mkdir(parents=True)
    (code / "pkg" / "score.py").write_text(GOOD)
    (code / "pkg" / "inner" / "__init__.py").write_text(GOOD)
    for module, file in [("pkg.score", "pkg/score.py"), ("pkg.inner", "pkg/inner/__init__.py")]:
        made = plan_with(cluster, f"{module}:compute_score")
        assert made.reward is not None and made.reward.file == str(code / file)
        assert f"reward.path=pkg://{module}" in " ".join(made.overrides).replace("'", "")


@pytest.mark.usefixtures("workloads")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("user/code/none.py", "reward_fn_path does not exist: {code}/none.py"),
        ("/etc/hosts.py", "does not exist: /etc/hosts.py"),
        ("user/code", "is not a Python file"),
        ("user/code/data.txt", "is not a Python file"),
        ("user/code/r.py:", "'' is not a function's name"),
        ("user/code/r.py:a.b", "'a.b' is not a function's name"),
        ("r", "neither a file nor module:function"),
        ("no.such:f", "no module 'no.such': {code}/no/such.py does not exist"),
        ("../outside.py", "outside the shared root"),
    ],
)
def test_a_place_without_a_function_is_refused(cluster: Cluster, code: Path, given: str, message: str) -> None:
    (code / "data.txt").write_text("")
    (code.parent.parent.parent / "outside.py").write_text(GOOD)
    assert message.format(code=code) in refused(cluster, given)


@pytest.mark.usefixtures("workloads")
def test_a_second_reward_function_or_one_for_a_workload_without_rewards_is_refused(cluster: Cluster, code: Path) -> None:
    (code / "r.py").write_text(GOOD)
    overrides = {"reward.path": "/x.py"}
    assert "reward_fn_path already sets 'reward.path'" in refused(cluster, "user/code/r.py", trainer_overrides=overrides)
    assert "workload 'echo' takes no reward function" in refused(cluster, "user/code/r.py", workload="echo")


def test_the_option_that_the_snapshots_config_has_is_used(
    cluster: Cluster, code: Path, shared: SharedRoot, workloads: Path
) -> None:
    (code / "r.py").write_text(GOOD)
    toy = (workloads / "toy.yaml").read_text()
    newer = '["reward.newer.path={reward_path}", "reward.newer.name={reward_name}"]'
    older = '["reward.path={reward_file}", "reward.name={reward_name}"]'
    both = re.sub(r"reward: \[\[.*", f"reward: [{newer}, {older}]", toy)
    assert both != toy
    (workloads / "toy.yaml").write_text(both)
    made = plan_with(cluster, "r:compute_score")
    assert f"reward.path={code}/r.py" in made.overrides and not any("newer" in text for text in made.overrides)
    (workloads / "toy.yaml").write_text(re.sub(r"reward: \[\[.*", f"reward: [{newer}]", toy))
    assert "finds no option for it in the config of this code snapshot" in refused(cluster, "user/code/r.py")


@pytest.mark.usefixtures("workloads")
def test_further_arguments_and_the_caller_come_from_the_config(cluster: Cluster, code: Path) -> None:
    (code / "r.py").write_text("def compute_score(data_source, solution_str, ground_truth, extra_info): return 1.0\n")
    assert plan_with(cluster, "user/code/r.py").reward == RewardFunction(
        path=f"{code}/r.py", file=f"{code}/r.py", name="compute_score"
    )
    more = ["+reward.reward_kwargs.bonus=2"]
    assert "unexpected keyword argument 'bonus'" in refused(cluster, "user/code/r.py", trainer_overrides=more)
    batch = plan_with(cluster, "user/code/r.py", trainer_overrides=[*more, "+reward_model.reward_manager=batch"]).reward
    assert batch is not None and (batch.kwargs, batch.one_by_one) == ({"bonus": 2}, False)


# -- checks of its source, without running it ------------------------------------------------------------------------------------


def function(code: Path, source: str, name: str = "compute_score", **fields: Any) -> RewardFunction:
    file = code / "r.py"
    file.write_text(source)
    return RewardFunction(path=str(file), file=str(file), name=name, **fields)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def compute_score(\n", "r.py:1: SyntaxError: '(' was never closed"),
        ("x = 1\n  y = 2\n", "r.py:2: IndentationError: unexpected indent"),
        ("a\0b", "null bytes"),
        ("", "has no function 'compute_score'"),
        ("def compute_scores(): pass\n", "has no function 'compute_score' (did you mean 'compute_scores'?)"),
        ("def f():\n    def compute_score(): pass\n", "has no function 'compute_score'"),
        ("\ndef compute_score(solution, truth): pass\n", "r.py:2: compute_score(solution, truth) cannot take verl's call"),
        ("def compute_score(data_source, solution_str, ground_truth): pass\n", "unexpected keyword argument 'extra_info'"),
        ("async def compute_score(solution_str, **kw): pass\ncompute_score.x = 1\ndef g(a): pass\n", ""),
        ("async def compute_score(solution): pass\n", "r.py:1: compute_score(solution) cannot take verl's call"),
        ("def compute_score(d, /, *, solution_str, ground_truth, extra_info, data_source): pass\n", "missing a required"),
        ("def compute_score(*, data_source, solution_str, ground_truth, extra_info, mine): pass\n", "'mine'"),
        ("def compute_score(data_source, solution_str, ground_truth, extra_info, mine=1): pass\n", ""),
        ("def compute_score(*args): pass\n", "unexpected keyword argument"),
        ("def compute_score(**kwargs): pass\n", ""),
        ("compute_score = lambda: 1\n", ""),  # only the trial can show it
        ("from somewhere import *\n", ""),
        ("from somewhere import compute_score\n", ""),
        ("import somewhere as compute_score\n", ""),
        ("globals()['compute_score'] = 1\n", ""),
        ("def __getattr__(name): pass\n", ""),
        ("def f():\n    global compute_score\n    compute_score = 1\n", ""),
        ("@wrap\ndef compute_score(a): pass\n", ""),
        ("if A:\n    def compute_score(a): pass\nelse:\n    def compute_score(b): pass\n", ""),
        ("try:\n    import x\nexcept ImportError:\n    pass\nwith a as compute_score: pass\n", ""),
        ("x = '\\d'\n" + GOOD, ""),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_source_is_checked_without_running_it(code: Path, source: str, message: str) -> None:
    asked = function(code, source)
    if not message:
        reward.check_source(asked, "job.json")
        return
    with pytest.raises(BadInput) as caught:
        reward.check_source(asked, "job.json")
    assert message in caught.value.what and caught.value.what.startswith(f"job.json: reward_fn_path: {code}/r.py")


def test_a_source_is_never_run_at_submission(code: Path) -> None:
    reward.check_source(function(code, f"open({str(code / 'ran')!r}, 'w')\n" + GOOD), "job.json")
    assert not (code / "ran").exists()


@pytest.mark.usefixtures("workloads")
def test_a_wrong_signature_is_refused_before_anything_is_claimed(cluster: Cluster, code: Path, shared: SharedRoot) -> None:
    (code / "r.py").write_text("def compute_score(answer): return 1.0\n")
    assert f"{code}/r.py:1: compute_score(answer) cannot take verl's call" in refused(cluster, "user/code/r.py")
    assert not shared.jobs.exists()


# -- checks by a call ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def train_file(tmp_path: Path) -> str:
    import pyarrow
    from pyarrow import parquet

    rows = [
        {"data_source": "math", "reward_model": {"ground_truth": str(n)}, "extra_info": {"question": f"q{n}"}} for n in (42, 7)
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    return str(tmp_path / "train.parquet")


CALLED = "    assert (data_source, ground_truth, extra_info['question']) == ('math', '42', 'q42'), 'not the first row'\n"


@pytest.mark.parametrize(
    ("source", "score"),
    [
        (GOOD, 1.0),
        (GOOD.replace("    return 1.0\n", CALLED + "    return {'score': 0.5, 'acc': True}\n"), 0.5),
        ("async " + GOOD.replace("    return 1.0\n", CALLED + "    return 0.25\n"), 0.25),
        (GOOD.replace("1.0", "True"), 1.0),
        (GOOD.replace("1.0", "__import__('numpy').float32(0.5)"), 0.5),
        (GOOD.replace("1.0", "__import__('torch').tensor(0.5)"), 0.5),
    ],
)
def test_a_good_function_is_called_once_on_the_first_row(code: Path, train_file: str, source: str, score: float) -> None:
    assert reward_trial.examine(function(code, source), train_file, code) == reward_trial.Trial(score=score)


def test_it_is_called_in_a_thread_as_verl_does(code: Path, train_file: str) -> None:
    body = "    import signal\n    signal.signal(signal.SIGALRM, signal.SIG_DFL)\n    return 1.0\n"
    trial = reward_trial.examine(function(code, GOOD.replace("    return 1.0\n", body)), train_file, code)
    assert trial.problem.startswith("ValueError: signal only works in main thread") and trial.at == f"{code}/r.py:3"


@pytest.mark.parametrize(
    ("source", "problem", "line"),
    [
        ("import os\nimport no_such_module\n" + GOOD, "ModuleNotFoundError: No module named 'no_such_module'", "r.py:2"),
        ("import helper_of_r\n" + GOOD, "ZeroDivisionError: division by zero", "helper_of_r.py:2"),
        ("import broken_helper_of_r\n" + GOOD, "SyntaxError: ", "broken_helper_of_r.py:1"),
        ("import sys\nsys.exit(0)\n" + GOOD, "SystemExit: 0", "r.py:2"),
        ("from os import *\n", "AttributeError: Object not found in module", "r.py"),
        ("compute_score = lambda answer: 1.0\n", "TypeError: <lambda>() got an unexpected keyword argument", "r.py:1"),
        ("compute_score = 3\n", "TypeError: 'int' object is not callable", "r.py:1"),
        (GOOD.replace("return", "return undefined +"), "NameError: name 'undefined' is not defined", "r.py:2"),
        (GOOD.replace("    return 1.0", "    pass"), "returned None (NoneType), which is not a number", "r.py:1"),
        (GOOD.replace("1.0", "'1.0'"), "returned '1.0' (str), which is not a number", "r.py:1"),
        (GOOD.replace("1.0", "[1.0]"), "returned [1.0] (list), which is not a number", "r.py:1"),
        (GOOD.replace("1.0", "float('nan')"), "returned nan", "r.py:1"),
        (GOOD.replace("1.0", "{'acc': 1.0}"), "returned a dictionary without 'score': its keys are acc", "r.py:1"),
        (GOOD.replace("1.0", "{'score': None}"), "returned as 'score' None (NoneType), which is not a number", "r.py:1"),
        (GOOD.replace("return", "yield"), "(generator), which is not a number", "r.py:1"),
        (
            "async def later(**kw): return 1.0\ndef compute_score(**kw): return later(**kw)\n",
            "returned a coroutine: verl awaits only functions defined with async def",
            "r.py:2",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_function_that_cannot_be_used_is_reported_with_the_users_line(
    code: Path, train_file: str, monkeypatch: pytest.MonkeyPatch, source: str, problem: str, line: str
) -> None:
    (code / "helper_of_r.py").write_text("x = 0\ny = 1 / x\n")
    (code / "broken_helper_of_r.py").write_text("def f(:\n")
    monkeypatch.syspath_prepend(code)
    trial = reward_trial.examine(function(code, source), train_file, code)
    assert problem in trial.problem and trial.at == f"{code}/{line}" and trial.score is None


def test_a_module_is_loaded_as_one_with_its_neighbours(code: Path, train_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (code / "pkg_of_mine").mkdir()
    (code / "pkg_of_mine" / "score.py").write_text("from .table import SCORE\n" + GOOD.replace("1.0", "SCORE"))
    (code / "pkg_of_mine" / "table.py").write_text("SCORE = 0.75\n")
    monkeypatch.syspath_prepend(code)
    asked = RewardFunction(
        path="pkg://pkg_of_mine.score", file=str(code / "pkg_of_mine" / "score.py"), name="compute_score", kwargs={"bonus": 1}
    )
    assert reward_trial.examine(asked, train_file, code).score == 0.75
    hidden = msgspec.structs.replace(asked, path="pkg://json", name="loads")
    assert "the module 'json' comes from " in reward_trial.examine(hidden, train_file, code).problem


def test_further_arguments_of_the_config_arrive(code: Path, train_file: str) -> None:
    asked = function(code, GOOD.replace("1.0", "kwargs['bonus']"), kwargs={"bonus": 3})
    assert reward_trial.examine(asked, train_file, code).score == 3.0


def test_a_function_that_its_manager_calls_differently_is_only_loaded(code: Path, train_file: str) -> None:
    batch = function(
        code, "def compute_score(data_sources, solution_strs, ground_truths, extra_infos): 1 / 0\n", one_by_one=False
    )
    reward.check_source(batch, "job.json")
    assert reward_trial.examine(batch, train_file, code) == reward_trial.Trial()


def test_data_without_a_ground_truth_is_reported(code: Path, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"data_source": ["x"]}), tmp_path / "bad.parquet")
    trial = reward_trial.examine(function(code, GOOD), str(tmp_path / "bad.parquet"), code)
    assert trial.problem == f"cannot be called: {tmp_path}/bad.parquet lacks data_source or reward_model.ground_truth"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("    import time\n    time.sleep(600)\n", "was not loaded and called once within 4 s"),
        ("    import os\n    os.abort()\n", "was killed by SIGABRT"),
    ],
)
def test_a_call_that_hangs_or_crashes_is_reported_with_its_line(
    code: Path, train_file: str, monkeypatch: pytest.MonkeyPatch, body: str, problem: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{PROJECT}/lib:{code}")
    asked = function(code, GOOD.replace("    return 1.0\n", body))
    assert reward_trial.try_out(asked, train_file, code, limit_s=4) == reward_trial.Trial(problem=problem, at=f"{code}/r.py:3")


def test_processes_that_a_function_starts_end_with_its_trial(
    code: Path, train_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{PROJECT}/lib:{code}")
    start = f"    import subprocess\n    open({str(code / 'pid')!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\n"
    asked = function(code, GOOD.replace("    return 1.0\n", start + "    return 1.0\n"))
    assert reward_trial.try_out(asked, train_file, code).score == 1.0
    wait_until(lambda: processes.start_time(int((code / "pid").read_text())) is None)


def test_a_trial_ends_with_a_precheck_that_is_killed(code: Path, train_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{PROJECT}/lib:{code}")
    pid = code / "pid"
    asked = function(code, f"import os, time\nopen({str(pid)!r}, 'w').write(f'{{os.getpid()}} ')\ntime.sleep(600)\n" + GOOD)
    call = "from pathlib import Path; from mvp_helpers.plan import reward, reward_trial; "
    call += f"reward_trial.try_out(reward.{asked!r}, {train_file!r}, Path({str(code)!r}))"
    parent = subprocess.Popen([sys.executable, "-c", call])
    wait_until(lambda: pid.exists() and pid.read_text().endswith(" "))
    parent.kill()
    parent.wait()
    wait_until(lambda: processes.start_time(int(pid.read_text())) is None)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


def test_the_precheck_reports_the_problem_of_the_reward_function(
    code: Path, train_file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from toys import plan_of

    monkeypatch.setenv("PYTHONPATH", f"{PROJECT}/lib:{code}")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mvp_marker.py").write_text("MARKER = None\n")
    asked = function(code, "import no_such_module\n" + GOOD)
    the_plan = msgspec.structs.replace(
        plan_of("job1", code.parent.parent), reward=asked, data_files={"train": train_file}, imports=["json"], code_path="/"
    )
    folder = the_plan.folder
    folder.config.mkdir(parents=True)
    folder.resolved.write_text(plan.to_yaml(the_plan))
    assert precheck.main(folder) == 3
    problem = f"reward function compute_score: {code}/r.py:1: ModuleNotFoundError: No module named 'no_such_module'"
    report = json.loads(folder.precheck.read_text())
    assert problem in report["problems"] and report["reward"]["at"] == f"{code}/r.py:1"
    assert f"MVP_PRECHECK_PROBLEM={problem}" in capfd.readouterr().out


# -- the example -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("5+3 = <<5+3=8>>8 apples.\n#### 8", 1.0),
        ("#### 1,008", 0.0),
        ("#### 9\n#### 8", 1.0),
        ("8", 0.0),
        ("", 0.0),
        ("#### 8.", 1.0),
        ("#### 81", 0.0),
    ],
)
def test_the_example_gives_a_point_for_the_right_number_and_nothing_else(answer: str, score: float) -> None:
    file = PROJECT / "templates" / "rewards" / "right_number.py"
    asked = RewardFunction(path=str(file), file=str(file), name="compute_score")
    reward.check_source(asked, "job.json")
    given = reward_trial.load(asked)(data_source="openai/gsm8k", solution_str=answer, ground_truth="8", extra_info={})
    assert given["score"] == score and reward_trial.score_of(given) == score


@pytest.mark.usefixtures("workloads")
def test_the_provenance_has_the_hash_of_the_reward_function(cluster: Cluster, code: Path) -> None:
    from mvp_helpers.job import provenance

    (code / "r.py").write_text(GOOD)
    facts = provenance.collect(plan_with(cluster, "user/code/r.py"), cluster, [], "2.60")
    assert facts["reward_fn"] == {"path": f"{code}/r.py", "sha256": hashlib.sha256(GOOD.encode()).hexdigest()}
