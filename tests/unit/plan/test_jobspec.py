"""The JobSpec: what people may write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.project import PROJECT
from mvp_helpers.plan import jobspec
from mvp_helpers.trainers import hydra


def load(**fields: Any) -> jobspec.JobSpec:
    return jobspec.load(json.dumps({"workload": "ppo", **fields}).encode(), "job.json")


def test_json_and_yaml_say_the_same() -> None:
    yaml = b"workload: ppo\nsubmission_id: a1\ntrainer_overrides: {trainer.total_epochs: 2}\nenv_vars: {A: b}\n"
    assert jobspec.load(yaml, "job.yaml") == load(
        submission_id="a1", trainer_overrides={"trainer.total_epochs": 2}, env_vars={"A": "b"}
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1e-3", 0.001),
        ("-2E6", -2e6),
        ("1.5e6", 1.5e6),
        (".5e+1", 5.0),
        ("1_0e2", 1000.0),
        ("[1e-3, {a: 1e-4}, b]", [0.001, {"a": 0.0001}, "b"]),
        ("'1e-3'", "1e-3"),
        ("1e-3s", "1e-3s"),
        ("e3", "e3"),
        ("{1e3: x}", {"1e3": "x"}),
    ],
)
def test_an_override_with_an_exponent_is_a_number_as_in_json(written: str, read: Any) -> None:
    """YAML 1.1 takes 1e-3, without a dot, for a text: the trainer would compute with the letters."""
    spec = f"workload: ppo\ntrainer_overrides:\n  a.b: {written}\n  c: {{d: {written}}}\n".encode()
    assert jobspec.load(spec, "job.yaml").trainer_overrides == {"a.b": read, "c": {"d": read}}
    with_one_more = jobspec.load(jobspec.with_overrides(spec, "job.yaml", ["e=1e-3"]), "job.yaml")
    assert with_one_more.trainer_overrides == [*hydra.texts({"a.b": read, "c": {"d": read}}, ""), "e=1e-3"]


def test_a_name_with_the_form_of_an_exponent_stays_a_name() -> None:
    spec = b"workload: ppo\nsubmission_id: 12e5\nenv_vars: {LR: 1e-3}\ntrainer_overrides: &o {lr: 1e-3, again: {lr: 2e-3}}\n"
    read = jobspec.load(spec, "job.yaml")
    assert (read.submission_id, read.env_vars) == ("12e5", {"LR": "1e-3"})
    assert hydra.texts(read.trainer_overrides, "") == ["lr=0.001", "again.lr=0.002"]


def test_hydra_takes_both_forms_of_an_exponent_for_a_number() -> None:
    of_mapping = hydra.texts({"lr": 1e-6}, "")
    values = [override.value() for override in OverridesParser.create().parse_overrides([*of_mapping, "lr=1e-6"])]
    assert values == [1e-6, 1e-6]
    assert {type(value) for value in values} == {float}


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "x" * 64, "x" * 200, "-a", ".a", "a\n", "ü", "a$(id)", "a\0"])
def test_an_id_that_is_not_a_folder_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="not usable as a folder and job name"):
        load(submission_id=name)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "0", "x" * 63])
def test_a_usable_id_is_taken_as_it_is(name: str) -> None:
    assert load(submission_id=name).submission_id == name


def test_an_empty_id_is_none_and_ray_address_auto_is_this_cluster() -> None:
    spec = load(submission_id="", env_vars={"RAY_ADDRESS": "auto", "A": "b"})
    assert spec.submission_id is None and spec.env_vars == {"A": "b"}
    with pytest.raises(BadInput, match=r"env_vars\.RAY_ADDRESS is set by the toolkit"):
        load(env_vars={"RAY_ADDRESS": "10.0.0.1:6379"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workload": 3}, "'workload': expected 'str', got 'int'"),
        ({"modle": "x"}, "unknown field 'modle' (did you mean 'model'?)"),
        ({"resources": {"entrypoint_num_cpu": 1}}, "did you mean 'entrypoint_num_cpus'?"),
        (
            {"resources": {"entrypoint_num_cpus": -1}},
            "resources.entrypoint_num_cpus is -1, but an amount must be a number of at least 0",
        ),
        ({"ray": {"address": "127.0.0.1:8265"}}, "ray.address"),
        ({"trainer_overrides": "a=b"}, "trainer_overrides"),
        ({"env_vars": {"A": 1}}, "env_vars"),
        ({"env_vars": {"1A": "x"}}, "not a name for an environment variable"),
        ({"env_vars": {"A": "a\0b"}}, "NUL byte"),
        ({"env_vars": {"A": "x${HOME}"}}, "Ray would replace '${HOME}'"),
        ({"env_vars": {"A": "$HOME"}}, "Ray would replace '$HOME'"),
        ({"env_vars": {"RAY_ADDRESS": "x"}}, "is set by the toolkit"),
        ({"env_vars": {"MVP_X": "x"}}, "is set by the toolkit"),
        ({"env_vars": {"HF_TOKEN": "hf_0123456789"}}, "env_vars.HF_TOKEN looks like a secret"),
        ({"env_vars": {"wandb_api_key": "0123456789"}}, "env_vars.wandb_api_key looks like a secret"),
        ({"env_vars": {"AWS_SECRET_ACCESS_KEY": "0123456789"}}, "looks like a secret"),
        ({"env_vars": {"DB_PASSWORD": "0123456789"}}, "looks like a secret"),
        ({"secrets": "HF_TOKEN"}, "secrets"),
        ({"secrets": ["HF_TOKEN", "HF_TOKEN"]}, "duplicate name HF_TOKEN"),
        ({"secrets": ["A"], "env_vars": {"A": "b"}}, "A is in env_vars and in secrets"),
        ({"secrets": ["MVP_X"]}, "cannot be a secret"),
        ({"secrets": ["RAY_AUTH_TOKEN"]}, "cannot be a secret"),
        ({"secrets": ["LD_PRELOAD"]}, "cannot be a secret"),
        ({"secrets": ["PATH"]}, "cannot be a secret"),
    ],
)
def test_a_wrong_field_is_refused_with_a_clear_message(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        load(**fields)
    assert message in caught.value.what


@pytest.mark.parametrize("data", [b'{"workload": "a", "model": "\\ud800"}', b'{"workload": "a", "env_vars": {"A": "x\\uDFFFy"}}'])
def test_half_of_a_surrogate_pair_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match=r"job\.json: the escape \\u[0-9a-f]{4} is not a character"):
        jobspec.load(data, "job.json")
    assert jobspec.load(b'{"workload": "\\ud83d\\ude00"}', "job.json").workload == "\U0001f600"


def test_a_secrets_value_in_place_of_its_name_is_not_repeated() -> None:
    for wrong in ("TOKEN=hf_0123456789", "hf-0123456789"):
        with pytest.raises(BadInput, match=r"secrets\[1\] is not a name") as caught:
            load(secrets=["A", wrong])
        assert "0123456789" not in caught.value.show()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false and more"),
        ("MAX_TOKENS", "10000000"),
        ("MAX_TOKEN_LEN", "512"),
        ("TOKEN_FILE", "/private/token"),
    ],
)
def test_a_variable_that_only_sounds_like_a_secret_is_taken(name: str, value: str) -> None:
    assert load(env_vars={name: value}).env_vars == {name: value}


def test_an_empty_file_says_where_to_start() -> None:
    with pytest.raises(BadInput, match="is empty") as caught:
        jobspec.load(b"\n", "job.json")
    assert "templates/ppo.json" in caught.value.hint


def test_the_schema_in_the_tree_is_up_to_date() -> None:
    path = Path(PROJECT, "templates", "jobspec.schema.json")
    assert path.read_text() == jobspec.schema_json(), "run: make schema"


def test_the_template_users_start_from_is_valid() -> None:
    data = Path(PROJECT, "templates", "ppo.json").read_bytes()
    assert jobspec.load(data, "ppo.json").workload == "ppo"


@pytest.mark.parametrize("name", ["job.json", "job.yaml"])
@pytest.mark.parametrize("own", [{}, {"trainer": {"total_epochs": 1}, "x.y": "it's"}, ["trainer.total_epochs=1", "x.y='it\\'s'"]])
def test_overrides_are_added_to_those_of_the_jobspec(name: str, own: Any) -> None:
    data = json.dumps({"workload": "ppo", "env_vars": {"A": "ü"}, "trainer_overrides": own}).encode()
    changed = jobspec.with_overrides(data, name, ["trainer.total_epochs=2", "+new=[a, b]"])
    spec = jobspec.load(changed, name)
    texts = hydra.texts(own, "")
    assert spec.trainer_overrides == [*texts, "trainer.total_epochs=2", "+new=[a, b]"]
    assert (spec.workload, spec.env_vars) == ("ppo", {"A": "ü"})
    assert hydra.merge(texts, spec.trainer_overrides)[-2:] == ["trainer.total_epochs=2", "+new=[a, b]"]


def test_without_overrides_a_jobspec_keeps_its_bytes_and_a_wrong_one_is_refused() -> None:
    assert jobspec.with_overrides(b"workload:   ppo  # mine\n", "job.yaml", []) == b"workload:   ppo  # mine\n"
    with pytest.raises(BadInput, match="unknown field 'modle'"):
        jobspec.with_overrides(b'{"workload": "ppo", "modle": "x"}', "job.json", ["a=1"])
