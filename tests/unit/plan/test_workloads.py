"""Workload files are data; a new one needs no Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.base import documents
from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.project import PROJECT
from mvp_helpers.plan import compose, resolve
from mvp_helpers.plan.workloads import adapted, load


@pytest.mark.parametrize("file", sorted((PROJECT / "templates" / "workloads").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_workload_in_the_tree_is_valid_and_keeps_to_its_folder(file: Path) -> None:
    loaded = load(file.stem)
    if loaded.hydra:
        assert "trainer.default_local_dir={checkpoints}" in loaded.forced
        assert "trainer.resume_mode=disable" in loaded.forced
        with pytest.raises(BadInput, match=r"'trainer\.default_hdfs_dir' keeps the job in its own folder"):
            compose._check_forced(loaded, ["+trainer.default_hdfs_dir=/elsewhere"], "x.json")


@pytest.mark.parametrize("name", ["ppo", "grpo", "sft"])
def test_nccls_flight_recorder_is_pointed_into_the_job_folder_on_gpus(name: str) -> None:
    variables = load(name).devices["cuda"].env_vars
    assert variables["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    for variable in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"):
        assert variables[variable] == "{job_folder}/debug/nccl_trace_rank_"


def test_a_folder_of_ones_own_comes_before_the_toolkits(workloads: Path) -> None:
    (workloads / "ppo.yaml").write_text("entry: {command: [mine]}\n")
    assert load("ppo").entry.command == ["mine"]
    assert load("echo").name == "echo"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entry: {}\n", "needs either a module or a command"),
        ("entry: {module: a, command: [b]}\n", "needs either a module or a command"),
        ("entry: {modul: a}\n", "did you mean 'module'"),
        ("overrides: []\n", "needs either a module or a command"),
        ("entry: {module: a}\nbatch_rules: [{product: []}]\n", "batch_rules"),
    ],
)
def test_a_mistake_in_a_workload_file_is_named(workloads: Path, text: str, message: str) -> None:
    (workloads / "bad.yaml").write_text(text)
    with pytest.raises(BadInput, match=message):
        load("bad")


BASE = """
entry: {module: base.main}
hydra: {config_dir: c, config_name: n}
imports: [verl]
data: {train: train.parquet, val: test.parquet}
env_vars: {A: base, B: base}
overrides: [+new.key=1, kept=1, changed=1]
defaults: {save: 10}
forced: [dir=x]
reward: [[reward.path=p]]
batch_rules: [{product: [batch], divisible_by: [world_size]}]
devices:
  cpu: {env_vars: {C: base}, overrides: [lr=1, batch=8]}
"""

OWN = """
extends: base
data: {val: mine.parquet}
env_vars: {B: own}
overrides: [changed=2, new.key=2, more=3]
defaults: {epochs: 1}
forced: [mode=disable]
batch_rules: [{product: [group], at_least: [two]}]
devices:
  cpu: {env_vars: {D: own}, overrides: [lr=2]}
  cuda: {overrides: [batch=64]}
"""


def test_a_workload_that_extends_another_contains_only_the_differences(workloads: Path) -> None:
    (workloads / "base.yaml").write_text(BASE)
    (workloads / "own.yaml").write_text(OWN)
    own, base = load("own"), load("base")
    assert own.name == "own"
    assert (own.entry, own.hydra, own.imports, own.reward) == (base.entry, base.hydra, base.imports, base.reward)
    assert own.data == {"train": "train.parquet", "val": "mine.parquet"}
    assert own.env_vars == {"A": "base", "B": "own"}
    assert own.overrides == ["kept=1", "changed=2", "+new.key=2", "more=3"]
    assert own.defaults == {"save": 10, "epochs": 1}
    assert own.forced == ["dir=x", "mode=disable"]
    assert [rule.product for rule in own.batch_rules] == [["batch"], ["group"]]
    assert own.devices["cpu"].env_vars == {"C": "base", "D": "own"}
    assert own.devices["cpu"].overrides == ["batch=8", "lr=2"]
    assert own.devices["cuda"].overrides == ["batch=64"]


def test_a_workload_can_extend_one_that_extends(workloads: Path) -> None:
    (workloads / "base.yaml").write_text(BASE)
    (workloads / "own.yaml").write_text(OWN)
    (workloads / "third.yaml").write_text("extends: own\nentry: {command: [run]}\n")
    third = load("third")
    assert third.entry.command == ["run"] and third.entry.module is None
    assert third.overrides == load("own").overrides


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: self\n", "'self' extends itself: self -> self"),
        ("extends: ehco\n", "unknown workload 'ehco' (extended by 'self') (did you mean 'echo'?)"),
        ("extends: echo\nentry: {module: a, command: [b]}\n", "needs either a module or a command"),
    ],
)
def test_a_workload_that_cannot_be_extended_is_named(workloads: Path, text: str, message: str) -> None:
    (workloads / "self.yaml").write_text(text)
    with pytest.raises(BadInput) as caught:
        load("self")
    assert message in caught.value.what


@pytest.mark.parametrize("spec", ["ppo", "grpo", "sft"])
def test_a_yaml_jobspec_equals_its_json_twin(spec: str) -> None:
    json_file, yaml_file = (PROJECT / "templates" / f"{spec}{ending}" for ending in (".json", ".yaml"))
    assert documents.parse(yaml_file.read_bytes(), yaml_file.name) == documents.parse(json_file.read_bytes(), json_file.name)


def test_grpo_is_ppos_entry_with_another_estimator_groups_and_no_critic_rule_in_force() -> None:
    ppo, grpo = load("ppo"), load("grpo")
    assert (grpo.entry, grpo.hydra) == (ppo.entry, ppo.hydra)
    assert "algorithm.adv_estimator=grpo" in grpo.overrides and "algorithm.adv_estimator=gae" not in grpo.overrides
    assert "actor_rollout_ref.rollout.n=4" in grpo.overrides
    assert all(rule.only_if == {"algorithm.adv_estimator": "gae"} for rule in grpo.batch_rules if "critic" in rule.product[0])


def test_settings_change_where_a_package_is_not_installed_and_say_so() -> None:
    settings = load("grpo").devices["cuda"]
    there = adapted(settings, lambda package: True)
    assert "actor_rollout_ref.rollout.name=vllm" in there.overrides and not there.without
    missing = adapted(settings, lambda package: package != "vllm")
    assert "actor_rollout_ref.rollout.name=hf" in missing.overrides
    assert "actor_rollout_ref.rollout.name=vllm" not in missing.overrides
    assert "actor_rollout_ref.rollout.n=8" in missing.overrides, "grpo's own stays"
    assert missing.env_vars["VERL_USE_EXTERNAL_MODULES"] == "verl_hf.plugin,mvp_verl.hook"
    assert [change.note for change in missing.without.values()] == [settings.without["vllm"].note]


def test_the_packages_of_a_machine_without_torch_say_nothing_about_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = {"torch"}
    monkeypatch.setattr(resolve.importlib.util, "find_spec", lambda name: name if name in packages else None)
    assert not resolve.installed("vllm")
    packages.add("vllm")
    assert resolve.installed("vllm")
    packages.clear()
    assert resolve.installed("vllm"), "a launching machine that trains nothing"
