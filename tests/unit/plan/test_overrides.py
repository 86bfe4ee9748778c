"""Overrides are checked by the snapshot's own Hydra config, and an accepted set is remembered."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from toys import TRAINER_CONFIG

from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.plan import overrides


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "toy.yaml").write_text(TRAINER_CONFIG)
    return folder


def compose(config_dir: Path, *texts: str, remember: bool = True) -> dict[str, object]:
    return overrides.compose(config_dir, "toy", list(texts), "content", config_dir.parent / "cache", remember)


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


def test_all_mistakes_show_at_once(config_dir: Path) -> None:
    with pytest.raises(BadInput) as caught:
        compose(config_dir, "trainer.a=1", "trainer.b=2", "=")
    assert caught.value.what.count("does not accept") == 3


def test_the_composed_config_comes_back_with_interpolations_resolved(config_dir: Path) -> None:
    config = compose(config_dir, "trainer.total_epochs=3", "+x=${trainer.total_epochs}", "hydra.run.dir=/nowhere")
    assert config["trainer"]["total_epochs"] == config["x"] == 3  # type: ignore[index]


def test_what_the_environment_here_holds_gets_into_no_config(config_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "s3cr3t")
    config = compose(config_dir, "+x=${oc.env:CANARY}", "+y=${oc.env:CANARY,5}", "+z='pre-${oc.env:NOT_SET_HERE}'")
    assert (config["x"], config["y"], config["z"]) == ("${oc.env:CANARY}", 5, "pre-${oc.env:NOT_SET_HERE}")
    assert all("s3cr3t" not in file.read_text() for file in (config_dir.parent / "cache").iterdir())


def test_an_accepted_set_is_remembered_and_asked_only_once(config_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compose(config_dir, "trainer.total_epochs=3")
    monkeypatch.setattr(subprocess, "run", lambda *_a, **_k: pytest.fail("Hydra was asked again"))
    assert compose(config_dir, "trainer.total_epochs=3") == first


def test_another_set_or_another_snapshot_is_asked_anew(config_dir: Path) -> None:
    compose(config_dir, "trainer.total_epochs=3")
    assert compose(config_dir, "trainer.total_epochs=4")["trainer"]["total_epochs"] == 4  # type: ignore[index]
    (config_dir / "toy.yaml").write_text("trainer: {other: 1}\n")
    with pytest.raises(BadInput):
        overrides.compose(config_dir, "toy", ["trainer.total_epochs=3"], "other content", config_dir.parent / "cache")


def test_a_refused_set_and_a_dry_run_leave_nothing_behind(config_dir: Path) -> None:
    compose(config_dir, "trainer.total_epochs=3", remember=False)
    with pytest.raises(BadInput):
        compose(config_dir, "trainer.nope=3")
    assert not (config_dir.parent / "cache").exists()


def test_a_damaged_memory_is_asked_anew(config_dir: Path) -> None:
    first = compose(config_dir, "trainer.total_epochs=3")
    (remembered,) = (config_dir.parent / "cache").iterdir()
    remembered.write_text("{")
    assert compose(config_dir, "trainer.total_epochs=3") == first


def test_a_config_that_does_not_compose_at_all_is_not_the_users_fault(config_dir: Path) -> None:
    (config_dir / "toy.yaml").write_text("defaults: [missing_group]\n")
    with pytest.raises(Blocked, match="does not compose"):
        compose(config_dir, "x=1")


def test_a_snapshot_without_the_config_is_named(config_dir: Path) -> None:
    with pytest.raises(BadInput, match="has no config"):
        overrides.compose(config_dir, "absent", [], "content", config_dir.parent / "cache")


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
def test_of_two_layers_the_later_wins_and_an_addition_stays_one(layers: list[list[str]], merged: list[str]) -> None:
    assert overrides.merge(*layers) == merged
