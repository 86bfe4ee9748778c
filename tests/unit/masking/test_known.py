"""Masks that outlive the values: hashes find a value in every form, and do not contain it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from mvp_helpers.base.mask import Mask
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.masking import known

CANARY = 's3cr3t/"canary"\\ü+1'


@pytest.fixture
def shared(tmp_path: Path) -> SharedRoot:
    return SharedRoot(tmp_path)


@pytest.mark.parametrize("show", [str, json.dumps, repr], ids=["plain", "json", "repr"])
def test_a_value_is_masked_in_each_form_when_nobody_knows_it_any_more(shared: SharedRoot, show: type[str]) -> None:
    known.remember(shared, [CANARY, "first line\nsecond line"])
    masked = known.mask(shared).text(f"a {show(CANARY)} b first line, second line c")
    assert masked in ("a *** b ***, *** c", 'a "***" b ***, *** c', "a '***' b ***, *** c")


def test_what_is_kept_is_the_owners_alone_and_has_no_value_in_it(shared: SharedRoot) -> None:
    known.remember(shared, [CANARY])
    (file,) = shared.masks.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and shared.masks.stat().st_mode & 0o777 == 0o700
    assert "canary" not in file.read_text() and "3cr3t" not in file.read_text()


def test_a_value_is_kept_once_however_many_jobs_have_it(shared: SharedRoot) -> None:
    for values in ([CANARY], [CANARY], [CANARY, "another-value"], ["another-value"], []):
        known.remember(shared, values)
    assert len(list(shared.masks.iterdir())) == 2
    assert known.mask(shared).text(f"{CANARY}another-value") == "******"


@pytest.mark.parametrize("seed", range(10))
def test_hashes_mask_what_the_values_would(shared: SharedRoot, seed: int) -> None:
    dice = random.Random(seed)
    values = ["abcdefgh", "abcdefghijkl", "xxxxxxxxx", "zyabcdefghzy"]
    text = "".join(dice.choice([*values, "a", "abc", "x", "\n", " and ", "zyab"]) for _ in range(80))
    known.remember(shared, values)
    masked = known.mask(shared).text(text)
    assert not [value for value in values if value in masked]
    assert masked.count("and") == text.count("and") and len(masked) >= len(Mask(values).text(text)) - 3 * text.count("zyab")


def test_damaged_masks_cost_only_themselves(shared: SharedRoot) -> None:
    known.remember(shared, [CANARY])
    (shared.masks / "damaged.json").write_text("{")
    assert known.mask(shared).text(CANARY) == "***"
