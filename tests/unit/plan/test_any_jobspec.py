"""Whatever a JobSpec contains, it has a plan or is refused as bad input, within seconds and without a trace on the disk."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jobspec_grammar
import pytest
from hanging import cpu_seconds

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.job import submit
from mvp_helpers.plan import plan

pytestmark = pytest.mark.usefixtures("workloads")
CASES, BATCH = 10_000, 2_500
HANGS_S = 20
"""CPU time of one JobSpec, of which the slowest needs a twentieth."""


def answer(data: bytes, source: str, cluster: Cluster) -> str:
    """Return the message of a JobSpec that is refused, "" for one that has a plan. Any other exception is the test's failure."""
    try:
        with cpu_seconds(HANGS_S):
            the_plan, missing = submit.preview(data, source, cluster, {})
            plan.describe(the_plan, missing=missing)
    except BadInput as error:
        shown = error.show()
        assert len(shown.splitlines()) <= 2 and len(shown) < 10_000, shown
        return error.what
    return ""


def files_under(root: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in root.rglob("*"))


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    inner: Any = 1
    for _ in range(levels):
        inner = wrap(inner)
    return inner


SIZE = "must be a whole number from"
FORMS = "not valid YAML: a value does not match its type"
TOO_LARGE = "has more than 2000 values, or more than 20 levels"
YAML = "".join(f"{name}: {value}\n" for name, value in jobspec_grammar.VALID.items())
ALIASES = "\n".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))
MERGED = "\n".join(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}" for n in range(1, 9))
DOUBLED = ["+i0=xxxxxxxxxx", *(f"+i{n}='${{i{n - 1}}}${{i{n - 1}}}'" for n in range(1, 31))]

EVER_FAILED: dict[str, tuple[dict[str, Any] | str, str]] = {
    "epochs of x": ({"trainer_overrides": {"trainer.total_epochs": "x"}}, f"trainer.total_epochs {SIZE}"),
    "no epoch": ({"trainer_overrides": {"trainer.total_epochs": 0}}, f"trainer.total_epochs {SIZE}"),
    "batch of abc": ({"trainer_overrides": {"data.train_batch_size": "abc"}}, f"data.train_batch_size {SIZE}"),
    "batch of 0": ({"trainer_overrides": {"data.train_batch_size": 0}}, f"data.train_batch_size {SIZE}"),
    "batch of -8": ({"trainer_overrides": {"data.train_batch_size": -8}}, f"data.train_batch_size {SIZE}"),
    "mini batch of abc": ({"trainer_overrides": {"actor.mini_batch_size": "abc"}}, f"actor.mini_batch_size {SIZE}"),
    "save frequency NaN": ("trainer_overrides: {trainer.save_freq: .nan}", f"trainer.save_freq {SIZE}"),
    "save frequency 0": ({"trainer_overrides": {"trainer.save_freq": 0}}, "trainer.save_freq must not be 0"),
    "save frequency of the environment": (
        {"trainer_overrides": {"trainer.save_freq": "${oc.env:HOME}"}},
        f"trainer.save_freq {SIZE}",
    ),
    "save frequency through another key": (
        {"trainer_overrides": ["+x=abc", "trainer.save_freq=${x}"]},
        f"trainer.save_freq {SIZE}",
    ),
    "no node": ({"trainer_overrides": {"trainer.nnodes": 0}}, f"trainer.nnodes {SIZE}"),
    "nodes of two": ({"trainer_overrides": {"trainer.nnodes": "two"}}, f"trainer.nnodes {SIZE}"),
    "a list of nodes": ({"trainer_overrides": {"trainer.nnodes": [1]}}, f"trainer.nnodes {SIZE}"),
    "more nodes than there are": ({"trainer_overrides": {"trainer.nnodes": 10**9}}, f"trainer.nnodes {SIZE}"),
    "negative steps": ({"trainer_overrides": {"trainer.total_training_steps": -3}}, f"trainer.total_training_steps {SIZE}"),
    "a step and a half": ({"trainer_overrides": {"trainer.total_training_steps": 1.5}}, f"trainer.total_training_steps {SIZE}"),
    "steps of 400 digits": (
        {"trainer_overrides": {"trainer.total_training_steps": 10**400}},
        "a number with 401 digits is too large",
    ),
    "a stop of 400 digits": ({"stop_wait_s": 10**400}, "stop_wait_s: a number with 401 digits is too large"),
    "a stop of 6000 digits": (f"stop_wait_s: {'1' * 6000}", "a number with 6000 digits is too large"),
    "a stop after a year": ({"stop_wait_s": 31_536_000}, "'stop_wait_s': expected 'int' <= 604800"),
    "aliases that multiply": (f"trainer_overrides:\n  a0: &a0 [x]\n{ALIASES}", TOO_LARGE),
    "merged aliases that multiply": (f"m0: &m0 {{x: 1}}\n{MERGED}", TOO_LARGE),
    "an alias of itself": ("trainer_overrides: &a {b: *a}", "the alias *a contains itself or is unknown"),
    "20,000 brackets": (f"trainer_overrides: {'[' * 20_000}", TOO_LARGE),
    "20,000 lists in a line": (f"trainer_overrides:\n  {'- ' * 20_000}", TOO_LARGE),
    "400 mappings": ({"trainer_overrides": nested(400, lambda inner: {"a": inner})}, TOO_LARGE),
    "400 lists": ({"trainer_overrides": {"+a": nested(400, lambda inner: [inner])}}, TOO_LARGE),
    "400 lists as a text": ({"trainer_overrides": [f"+a={'[' * 400}{']' * 400}"]}, "more than 20 levels"),
    "a key of 400 parts": ({"trainer_overrides": [f"+{'.'.join('a' * 400)}=1"]}, "has a long key"),
    "a list of 5000 numbers": ({"trainer_overrides": [f"+a=[{','.join('1' * 5000)}]"]}, "5000 overrides and items of lists"),
    "interpolations that double": ({"trainer_overrides": DOUBLED}, "lead to more than 1000 values"),
    "an endless file": (f"model: {'x' * 300_000}", "has more than 256 KiB"),
    "an impossible date": ("trainer_overrides: {trainer.project_name: 2026-99-99}", FORMS),
    "a tag that does not fit": ("trainer_overrides: {a: !!int x}", FORMS),
    "a number as a key": ("trainer_overrides: {trainer: {1: 2}}", "trainer_overrides.trainer: the key 1 is not a string"),
    "a date as a key": ("env_vars: {2026-01-01: x}", "env_vars: the key datetime.date(2026, 1, 1) is not a string"),
    "a long name of a model": ({"model": "m" * 5000}, "model has 5000 characters"),
    "a long part of a path": ({"model": "a/" + "m" * 300}, "model contains a name of more than 255 bytes"),
    "a long module": ({"reward_fn_path": f"{'m' * 300}:f"}, "reward_fn_path contains a name of more than 255 bytes"),
    "an id with a line break": ({"resume_from": "a\n"}, "resume_from 'a\\n' is not a job's id"),
    "resources NaN": ("resources: {entrypoint_num_cpus: .nan}", "is nan, but an amount must be a number of at least 0"),
    "infinite resources": ("resources: {entrypoint_num_cpus: .inf}", "is inf, but an amount must be a number of at least 0"),
    "resources of 400 digits": ({"resources": {"entrypoint_num_cpus": 10**400}}, "a number with 401 digits is too large"),
    "one and a half CPUs": ({"resources": {"entrypoint_num_cpus": 1.5}}, "must be a whole number when it is above 1"),
    "an unknown resource": (
        {"resources": {"entrypoint_resources": {"worker_nod": 1}}},
        "offers 'worker_nod' (did you mean 'worker_node'?)",
    ),
    "more of a resource than there is": (
        {"resources": {"entrypoint_resources": {"worker_node": 1e6}}},
        "but a worker offers 100",
    ),
    "a variable of 200 kB": ({"env_vars": {"A": "x" * 200_000}}, "at most 130048 can be passed"),
    "a name of 300 letters": ({"env_vars": {"A" * 300: "x"}}, "is not a name for an environment variable"),
    "Hydra's mode": ({"trainer_overrides": ["hydra.mode=MULTIRUN"]}, "'hydra.mode' keeps the job in its own folder"),
    "Hydra's sweep": ({"trainer_overrides": {"hydra.sweep.dir": "/tmp/x"}}, "'hydra.sweep.dir' keeps the job in its own folder"),
    "Hydra's records": (
        {"trainer_overrides": {"hydra": {"output_subdir": "/tmp"}}},
        "'hydra.output_subdir' keeps the job in its own",
    ),
    "Hydra's callbacks": (
        {"trainer_overrides": ["+hydra.callbacks.x._target_=os.system"]},
        "'hydra.callbacks.x._target_' keeps the job",
    ),
    "a package of Hydra": ({"trainer_overrides": ["+a@hydra.run=b"]}, "'a@hydra.run' keeps the job in its own folder"),
    "an option of Hydra": ({"trainer_overrides": ["--multirun=1"]}, "'--multirun=1' is not key=value"),
    "an option of Hydra as a key": ({"trainer_overrides": {"--config-dir": "/tmp"}}, "'--config-dir' is not a config key"),
    **{
        name: ({"env_vars": {name: "/tmp/mine"}}, f"env_vars.{name} is set by the toolkit")
        for name in (
            "LD_PRELOAD",
            "LD_AUDIT",
            "PYTHONHOME",
            "PATH",
            "RAY_AUTH_MODE",
            "RAY_AUTH_TOKEN_PATH",
            "RAY_JOB_HEADERS",
            "BASH_ENV",
        )
    },
}


@pytest.mark.parametrize("name", EVER_FAILED)
def test_a_jobspec_that_hung_or_crashed_once_is_refused_in_one_line(cluster: Cluster, shared: SharedRoot, name: str) -> None:
    given, message = EVER_FAILED[name]
    before = files_under(shared.root)
    if isinstance(given, str):
        assert message in answer((YAML + given).encode(), "job.yaml", cluster)
    else:
        assert message in answer(json.dumps(jobspec_grammar.VALID | given).encode(), "job.json", cluster)
    assert files_under(shared.root) == before


@pytest.mark.parametrize("batch", [0, *(pytest.param(batch, marks=pytest.mark.nightly) for batch in range(1, CASES // BATCH))])
def test_a_random_jobspec_has_a_plan_or_is_refused(cluster: Cluster, shared: SharedRoot, batch: int) -> None:
    before = files_under(shared.root)
    answers = []
    for case in range(batch * BATCH, (batch + 1) * BATCH):
        data, source = jobspec_grammar.jobspec(random.Random(case))
        try:
            answers.append(answer(data, source, cluster))
        except BaseException as error:
            error.add_note(f"case {case}, {source}: {data[:2000]!r}")
            raise
    assert files_under(shared.root) == before
    assert BATCH // 10 < answers.count("") < BATCH * 9 // 10, "the grammar no longer makes both kinds"
