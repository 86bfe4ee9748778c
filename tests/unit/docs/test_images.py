"""The pictures of the README: made by the script, small, and described for those who do not see them."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ElementTree
from types import ModuleType

import pytest

from mvp_helpers.base.project import PROJECT

README = (PROJECT / "README.md").read_text()
MOST_BYTES = 200_000
WIDE_LETTER = 6.6
"""Pixels of a letter of 12 pixels, in a wide font."""


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_images", PROJECT / "docs" / "images" / "make.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_of_a_jobspecs_way_is_what_the_script_makes(make: ModuleType) -> None:
    assert make.WAY.read_text() == make.way(), "run make images"
    drawn = ElementTree.fromstring(make.way())
    assert drawn.findtext("{*}title") == make.ALT
    assert {each.tag.partition("}")[2] for each in drawn.iter()} == {"svg", "title", "style", "rect", "text", "path"}


def test_every_text_of_the_picture_is_inside_of_its_box(make: ModuleType) -> None:
    room = [float(drawn.get("width", 0)) - 20 for drawn in ElementTree.fromstring(make.way()) if drawn.get("class") == "box"]
    texts = [text for boxes in make.LANES.values() for box in boxes for text in box]
    assert len(room) * 2 == len(texts)
    assert [text for text in texts if len(text) * WIDE_LETTER > min(room)] == []


def test_the_readme_shows_every_picture_with_a_description(make: ModuleType) -> None:
    shown = dict(re.findall(r"!\[([^\]]{30,})\]\((docs/images/[^)]+)\)", README))
    files = {file.name for file in make.HERE.iterdir() if file.suffix in (".svg", ".png")}
    assert {path.rpartition("/")[2] for path in shown.values()} == files == {"jobspec.svg", "report.png"}


def test_the_screenshot_is_a_small_png(make: ModuleType) -> None:
    data = make.SCREENSHOT.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) < MOST_BYTES
