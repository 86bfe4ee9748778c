"""Hydra overrides: values arrive byte for byte, the config checks them, and an accepted set is recorded."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from toys import TRAINER_CONFIG

from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.trainers import hydra
from mvp_helpers.trainers.hydra_memory import Memory


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "toy.yaml").write_text(TRAINER_CONFIG)
    return folder


def compose(config_dir: Path, *texts: str, content: str = "content", record: bool = True) -> dict[str, Any]:
    memory = Memory(config_dir.parent / "cache", content, record=record)
    return hydra.compose(config_dir, "toy", list(texts), origin="job.json: trainer_overrides", memory=memory)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trainer.devicee=cpu", "does not accept 'trainer.devicee=cpu' (did you mean 'trainer.device'?)"),
        ("total_epochs=1", "(did you mean 'trainer.total_epochs'?)"),
        ("trainer.save_frq=1", "(did you mean 'trainer.save_freq'?)"),
        ("+trainer.device=cpu", "An item is already at 'trainer.device'"),
        ("~nothing", "does not exist"),
        ("trainer.device=[", "does not accept 'trainer.device=['"),
        ("trainer.device=${no.such}", "Interpolation key 'no.such' not found"),
        ("zzz.qqq=1", "does not accept 'zzz.qqq=1'"),
    ],
)
def test_an_override_the_config_does_not_know_is_named_with_the_nearest_key(config_dir: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        compose(config_dir, "data.train_batch_size=4", text)
    assert message in caught.value.what
    assert "train_batch_size=4" not in caught.value.what, "a good override was blamed"


def test_all_mistakes_are_reported_at_once_on_one_line(config_dir: Path) -> None:
    with pytest.raises(BadInput) as caught:
        compose(config_dir, "trainer.a=1", "trainer.b=2", "=")
    assert caught.value.what.count("does not accept") == 3 and "\n" not in caught.value.what
    assert caught.value.what.startswith("job.json: trainer_overrides: the toy config does not accept '")


def test_the_composed_config_comes_back_with_interpolations_resolved(config_dir: Path) -> None:
    config = compose(config_dir, "trainer.total_epochs=3", "+x=${trainer.total_epochs}", "hydra.run.dir=/nowhere")
    assert config["trainer"]["total_epochs"] == config["x"] == 3


def test_an_override_that_is_given_again_wins_where_it_is_given_last(config_dir: Path) -> None:
    zero, three = "trainer.total_epochs=0", "trainer.total_epochs=3"
    assert compose(config_dir, zero, three, zero)["trainer"]["total_epochs"] == 0
    with pytest.raises(BadInput, match="An item is already at 'x'") as caught:
        compose(config_dir, "+x=1", zero, "+x=1")
    assert caught.value.what.count("does not accept") == 1, "a second addition is refused, and named once"


def test_values_of_this_environment_are_in_no_config(config_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "s3cr3t")
    config = compose(config_dir, "+x=${oc.env:CANARY}", "+y=${oc.env:CANARY,5}", "+z='pre-${oc.env:NOT_SET_HERE}'")
    assert (config["x"], config["y"], config["z"]) == ("${oc.env:CANARY}", 5, "pre-${oc.env:NOT_SET_HERE}")
    assert all("s3cr3t" not in file.read_text() for file in (config_dir.parent / "cache").iterdir())


def test_an_accepted_set_is_recorded_and_composed_only_once(config_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compose(config_dir, "trainer.total_epochs=3")
    monkeypatch.setattr(subprocess, "run", lambda *_a, **_k: pytest.fail("Hydra was asked again"))
    assert compose(config_dir, "trainer.total_epochs=3") == first


def test_another_set_or_another_snapshot_is_composed_again(config_dir: Path) -> None:
    compose(config_dir, "trainer.total_epochs=3")
    assert compose(config_dir, "trainer.total_epochs=4")["trainer"]["total_epochs"] == 4
    (config_dir / "toy.yaml").write_text("trainer: {other: 1}\n")
    with pytest.raises(BadInput):
        compose(config_dir, "trainer.total_epochs=3", content="other content")


def test_a_refused_set_and_a_dry_run_leave_nothing_behind(config_dir: Path) -> None:
    compose(config_dir, "trainer.total_epochs=3", record=False)
    with pytest.raises(BadInput):
        compose(config_dir, "trainer.nope=3")
    assert not (config_dir.parent / "cache").exists()


def test_a_damaged_record_is_ignored(config_dir: Path) -> None:
    first = compose(config_dir, "trainer.total_epochs=3")
    for recorded in (config_dir.parent / "cache").iterdir():
        recorded.write_text("{")
    assert compose(config_dir, "trainer.total_epochs=3") == first


def test_a_config_that_does_not_compose_at_all_is_not_the_users_fault(config_dir: Path) -> None:
    (config_dir / "toy.yaml").write_text("defaults: [missing_group]\n")
    with pytest.raises(Blocked, match="does not compose"):
        compose(config_dir, "x=1")


def test_a_snapshot_without_the_config_is_named(config_dir: Path) -> None:
    with pytest.raises(BadInput, match="has no config"):
        hydra.compose(config_dir, "absent", [])


@pytest.mark.parametrize(
    ("layers", "merged"),
    [
        ([["a=1", "b=2"], ["a=3"]], ["b=2", "a=3"]),
        ([["+a=1"], ["a=2"]], ["+a=2"]),
        ([["++a=1"], ["a=2"]], ["++a=2"]),
        ([["a=1"], ["++a=2"]], ["++a=2"]),
        ([["a=1"], ["~a"]], ["~a"]),
        ([["a=1"], ["b=x=y"]], ["a=1", "b=x=y"]),
    ],
)
def test_the_later_of_two_layers_wins_and_an_addition_stays_one(layers: list[list[str]], merged: list[str]) -> None:
    assert hydra.merge(*layers) == merged


@pytest.mark.parametrize("text", ["noequals", "=x", "a b=c", ""])
def test_a_listed_override_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not key=value"):
        hydra.texts([text], "job.json")


def test_nested_and_dotted_mappings_are_the_same_overrides() -> None:
    nested = {"trainer": {"total_epochs": 1, "logger": ["console", "file"]}, "data.seed": None}
    assert hydra.texts(nested, "x") == ["trainer.total_epochs=1", "trainer.logger=[console,file]", "data.seed=null"]


def test_an_override_that_contains_itself_is_refused() -> None:
    overrides: dict[str, Any] = {}
    overrides["a"] = overrides
    with pytest.raises(BadInput, match=r"job\.yaml: trainer_overrides contains itself"):
        hydra.texts(overrides, "job.yaml: trainer_overrides")


VALUES: list[Any] = [
    *(
        "plain",
        "it's",
        "back\\slash",
        "end\\",
        "x\\'y",
        "new\nline",
        "trailing\\\n",
        "üñí 漢字",
        "$(rm -rf /)",
        "`id`",
        '"q"',
        "a,b",
    ),
    *(
        "{x}",
        "[1]",
        "1e5",
        "12",
        "true",
        "null",
        "",
        " lead",
        "trail ",
        "a=b",
        "tab\t",
        "\\\\'",
        "'",
        "a: b",
        "#x",
        "!y",
        "*",
        "(",
        "a;b",
    ),
    *(1, -2, 0.5, True, False, None, ["a'b", 1, None], ["x,y", []]),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_of_a_mapping_arrives_in_hydra_byte_for_byte(value: Any) -> None:
    (text,) = hydra.texts({"key": value}, "x")
    parsed = OverridesParser.create().parse_override(text).value()

    def plain(found: Any) -> Any:
        return [plain(item) for item in found] if isinstance(found, list) else getattr(found, "text", found)

    assert plain(parsed) == value


@pytest.mark.parametrize(
    ("key", "value"), [("a.b", 1), ("a", {"b": 1, "c": None}), ("a.c", None), ("a.x", None), ("a.b.x", None), ("", None)]
)
def test_a_value_is_selected_by_its_dotted_key(key: str, value: Any) -> None:
    assert hydra.select({"a": {"b": 1, "c": None}}, key) == value


def test_a_sketch_holds_what_the_overrides_themselves_say() -> None:
    texts = ["a.b=1", "+a.c=[x,y]", "++a.d='it\\'s'", "e=", "~f", "a.b.g=2", "h={", "i=1e-6", "j=true"]
    sketch = hydra.sketch(texts)
    assert (sketch["a"]["b"], sketch["a"]["c"], sketch["e"], sketch["h"], sketch["j"]) == (1, ["x", "y"], None, "{", True)
    assert "f" not in sketch
