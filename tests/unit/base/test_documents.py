"""JSON and YAML that people wrote: every mistake is named with its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mvp_helpers.base import documents
from mvp_helpers.base.documents import convert, parse
from mvp_helpers.base.errors import BadInput


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    depth: int = 0


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    inner: Inner = Inner()
    items: list[Inner] = []


@pytest.mark.parametrize(
    ("data", "source", "message"),
    [
        (b'{"a": 1,}', "x.json", "x.json, line 1, column 9: not valid JSON"),
        (b'{\n "a": tru\n}', "x.json", "x.json, line 2, column 7"),
        (b'{"a": 1, "a": 2}', "x.json", "duplicate key 'a'"),
        (b"[1]", "x.json", "must contain a mapping of fields, not a list"),
        (b"\xff\xfe{", "x.json", "is not UTF-8 text"),
        (b"[" * 100_000, "x.json", "x.json"),
        (b"a: [1\nb: 2\n", "x.yaml", "x.yaml, line 2, column 2: not valid YAML"),
        (b"a: 1\na: 2\n", "x.yaml", "x.yaml, line 2, column 1: not valid YAML: duplicate key 'a'"),
        (b"\t- x", "x.yaml", "not valid YAML"),
        (b"", "x.yaml", "not nothing"),
        (b"? [a]\n: 1\n", "x.yaml", "x.yaml"),
        (b"a: !!python/object:os.system x\n", "x.yaml", "x.yaml, line 1, column 4: not valid YAML"),
        (b"a: &x [*x]\nb: 1\n", "x.yaml", None),
    ],
)
def test_a_syntax_mistake_is_named_with_line_and_column(data: bytes, source: str, message: str | None) -> None:
    if message is None:
        parse(data, source)
        return
    with pytest.raises(BadInput) as caught:
        parse(data, source)
    assert message in caught.value.what


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert parse(b"\xef\xbb\xbf" + b'{"a": 1}', "x.json") == {"a": 1}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"nam": "x"}, "x: unknown field 'nam' (did you mean 'name'?)"),
        ({"name": "x", "inner": {"dept": 1}}, "x: unknown field 'dept' in 'inner' (did you mean 'depth'?)"),
        ({"name": "x", "items": [{"dept": 1}]}, "did you mean 'depth'?"),
        ({"inner": {}}, "x: the field 'name' is missing"),
        ({"name": 3}, "x: 'name': expected 'str', got 'int'"),
        ({"name": "x", "items": [{"depth": "1"}]}, "x: 'items[0].depth': expected 'int', got 'str'"),
    ],
)
def test_a_wrong_field_is_named_with_the_nearest_right_one(document: object, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        convert(document, Outer, "x")
    assert message in caught.value.what


def test_the_key_on_is_a_name_although_yaml_takes_the_word_for_true() -> None:
    assert parse(b"retry: {on: [host], off: yes}\n", "job.yaml") == {"retry": {"on": ["host"], "off": True}}


def test_threads_may_read_a_type_for_the_first_time_at_once() -> None:
    code = (
        "import sys, threading, msgspec\n"
        "from mvp_helpers.base import documents\n"
        "sys.setswitchinterval(1e-6)\n"
        "for _ in range(300):\n"
        "    inner = msgspec.defstruct('Inner', [('x', int, 0), ('y', dict[str, float], {})], module=__name__)\n"
        "    middle = msgspec.defstruct('Middle', [('a', inner | None, None), ('b', list[inner], [])])\n"
        "    outer = msgspec.defstruct('Outer', [('c', middle | None, None), ('d', list[middle], [])])\n"
        "    begin = threading.Barrier(8)\n"
        "    def read():\n"
        "        begin.wait()\n"
        "        documents.convert({'c': {'a': {'x': 1}}, 'd': [{'b': [{'y': {'z': 1.0}}]}]}, outer, 'a test')\n"
        "    threads = [threading.Thread(target=read) for _ in range(8)]\n"
        "    [thread.start() for thread in threads]\n"
        "    [thread.join() for thread in threads]\n"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": str(Path(documents.__file__).parents[2])}, check=False
        ).returncode
        == 0
    )
