"""Which answers follow from a recorded one without Hydra, and that they are the ones that Hydra gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.trainers import hydra
from mvp_helpers.trainers.hydra_memory import Memory

CONFIG = """
a: {number: 1, part: 1, text: x, none: null, list: [1], twice: "${b.base}", nested: {leaf: 1, other: 2}}
b: {base: 2, copy: "${a.nested}", choice: "${oc.select:a.far,7}", mixed: "x${a.part}"}
d: {again: "${b.base}", third: "${oc.select:d.again, 1}", high: 3, listed: ["${d.item}"], item: 5}
e: {beside: 4, twin: "${oc.select:.beside,null}", up: "${..d.high}"}
"""
SEEN = ["a.number=5", "a.text=word", "+c=1"]
"""The overrides of the recorded answer: a plain one and two others."""


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "toy.yaml").write_text(CONFIG)
    return tmp_path / "config"


@pytest.fixture
def memory(config_dir: Path) -> Memory:
    """A memory with the answer for ``SEEN``."""
    found = Memory(config_dir.parent / "cache", "content", record=True)
    hydra.compose(config_dir, "toy", SEEN, memory=found)
    return found


FOLLOWS = {
    "the same": [],
    "another value": ["a.number=6"],
    "a negative float": ["a.number=-1.5e-3"],
    "a boolean": ["a.number=True"],
    "a further key": ["a.none=0"],
    "a key whose value was an interpolation": ["a.twice=9"],
    "a key that others follow, one after the other": ["b.base=3"],
    "a key that follows and is given itself": ["b.base=3", "d.again=8"],
    "one that only the given follower could change": ["d.again=8"],
    "a key that one elsewhere follows by its relative path": ["d.high=9"],
    "a key that one beside it follows": ["e.beside=9"],
}


@pytest.mark.parametrize("changes", FOLLOWS.values(), ids=FOLLOWS)
def test_plain_values_need_no_hydra(changes: list[str], memory: Memory, config_dir: Path) -> None:
    overrides = hydra.merge(SEEN, changes)
    found = memory.find("toy", overrides)
    assert found == hydra.compose(config_dir, "toy", overrides)


ONLY_HYDRA = {
    "a key that is a part of another value": ["a.part=3"],
    "a key that an item of a list refers to": ["d.item=3"],
    "a part of a mapping that another value copies": ["a.nested.leaf=3"],
    "a text": ["a.text=other"],
    "a key of another kind": ["a.none=text"],
    "a list": ["a.list=1"],
    "a mapping": ["a.nested=1"],
    "a key that the config lacks": ["a.numbr=1"],
    "below a value": ["a.number.x=1"],
    "a key on the top": ["c=2"],
    "an addition": ["+a.new=1"],
    "not a number of Hydra's": ["a.number=007"],
}


@pytest.mark.parametrize("changes", ONLY_HYDRA.values(), ids=ONLY_HYDRA)
def test_anything_else_is_left_to_hydra(changes: list[str], memory: Memory) -> None:
    assert memory.find("toy", hydra.merge(SEEN, changes)) is None


def test_without_an_override_that_was_recorded_its_default_is_not_known(memory: Memory) -> None:
    assert memory.find("toy", SEEN[1:]) is None


def test_an_override_of_a_whole_mapping_is_not_taken_apart(memory: Memory, config_dir: Path) -> None:
    whole = [*SEEN, "a.nested={leaf:5}"]
    hydra.compose(config_dir, "toy", whole, memory=memory)
    assert memory.find("toy", [*SEEN, "a.nested.other=1", "a.nested={leaf:5}"]) is None


@pytest.mark.parametrize(
    ("recorded", "asked"),
    [
        (["a.number=5", "a.number=6"], ["a.number=6", "a.number=5"]),
        (["a.number=5", "a.number=6"], ["a.number=5", "a.number=6", "a.number=5"]),
        (["a.number=5", "a.number=${d.high}"], ["a.number=${d.high}", "a.number=5"]),
        (["a.nested.leaf=5", "a.nested={leaf:7}"], ["a.nested={leaf:7}", "a.nested.leaf=5"]),
    ],
)
def test_the_last_of_several_overrides_of_a_value_wins_as_in_hydra(
    recorded: list[str], asked: list[str], config_dir: Path
) -> None:
    memory = Memory(config_dir.parent / "cache", "content", record=True)
    first = hydra.compose(config_dir, "toy", recorded, memory=memory)
    config = hydra.compose(config_dir, "toy", asked, memory=memory)
    assert first != config and (config["a"]["number"] == 5 or config["a"]["nested"]["leaf"] == 5), config
    assert memory.find("toy", asked) == config


def test_a_recorded_answer_is_only_for_its_own_config(memory: Memory, config_dir: Path) -> None:
    assert memory.find("other", SEEN) is None
    assert Memory(memory.folder, "other content", record=True).find("toy", SEEN) is None
    with pytest.raises(BadInput, match=r"a\.numbr"):
        hydra.compose(config_dir, "toy", [*SEEN, "a.numbr=1"], memory=memory)


CHANGES = [
    "trainer.save_freq=7",
    "actor_rollout_ref.actor.optim.lr=3e-6",
    "data.train_batch_size=64",
    "trainer.critic_warmup=2",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.rollout.temperature=0.7",
    "actor_rollout_ref.rollout.n=3",
    "data.max_prompt_length=77",
    "actor_rollout_ref.actor.use_dynamic_bsz=true",
]
"""To most of the last five, other values of verl's config refer."""


def test_verls_own_config_varies_as_hydra_says(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("verl")
    assert spec and spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "trainer" / "config"
    memory = Memory(tmp_path, "verl", record=True)
    seen = ["trainer.logger=[console,file]", "trainer.save_freq=10", "+critic.model.override_config.attn_implementation=sdpa"]
    hydra.compose(folder, "ppo_trainer", seen, memory=memory)
    asked = hydra.merge(seen, CHANGES)
    varied: dict[str, Any] | None = memory.find("ppo_trainer", asked)
    assert varied == hydra.compose(folder, "ppo_trainer", asked)
