"""Parse JSON and YAML that people write, with errors that name the place of a mistake; read back what programs wrote.

A job can write anything into its folder. Whatever is in a file that is read back, ``Damaged`` is the only error beside OSError.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from . import files
from .errors import BadInput, did_you_mean

T = TypeVar("T")
_LEARNING = threading.Lock()
_LEARNED: set[type] = set()

MOST_BYTES = 256 << 20
"""Size of a file that is read back as a whole; the largest that we write, Ray's table of 10,000 actors, has a tenth."""
MOST_YAML_BYTES = 16 << 20
MOST_LEVELS = 100
"""Levels of nested lists and mappings in it: deeper ones cannot be written again."""
INTEGERS = range(-(1 << 63), 1 << 64)
"""Integers in it: those that fit into 64 bits."""

_SPELLED = re.compile(
    r"(?i)\s*(?:[\w.]+\()?\s*(?:(?P<number>[+-]?(?:nan|inf(?:inity)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))|none|null)\s*\)?\s*"
)
_LEVEL = {"SequenceStartEvent": 1, "MappingStartEvent": 1, "SequenceEndEvent": -1, "MappingEndEvent": -1}


class Damaged(ValueError):
    """A file does not have the form in which it was written; the text says why."""


def read_json(path: Path) -> Any:
    """Return the plain data in a JSON file. Raises OSError and Damaged."""
    return from_json(files.read(path, MOST_BYTES))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the mappings in the list in a JSON file. Raises OSError and Damaged."""
    rows = read_json(path)
    if not isinstance(rows, list):
        raise Damaged("not a list")
    return [row for row in rows if isinstance(row, dict)]


def read_yaml(path: Path) -> Any:
    """Return the plain data in a YAML file. Raises OSError and Damaged."""
    import yaml

    data, loader = files.read(path, MOST_YAML_BYTES), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # First without building anything: a C stack that is too deep ends the process.
        levels = itertools.accumulate(_LEVEL.get(type(event).__name__, 0) for event in yaml.parse(data, loader))
        if any(level > MOST_LEVELS for level in levels):
            raise Damaged("nested too deeply")
        return yaml.load(data, loader)
    except Damaged:
        raise
    except Exception as error:  # for a scalar that does not fit its tag PyYAML raises whatever its constructor does
        problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else None
        raise Damaged(f"not YAML: {problem or type(error).__name__}") from None


def from_json(data: bytes) -> Any:
    """Return the plain data in JSON that a program wrote, which can be written again as JSON. Raises Damaged.

    Numbers may be NaN or infinite: Python's own writer makes such.
    """
    try:
        value = _JSON.decode(data.decode())
        # Only text can be too deep, or contain half of a character: looking for that first is much cheaper than looking at all.
        if data.count(b"[") + data.count(b"{") > MOST_LEVELS and _levels(value) > MOST_LEVELS:
            raise Damaged("nested too deeply")
        if b"\\ud" in data or b"\\uD" in data:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise Damaged("nested too deeply") from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise Damaged(f"not text: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise Damaged(f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    return value


def learned(kind: type[T]) -> type[T]:
    """Return ``kind``, which msgspec knows then: two threads that use a type for the first time at once crash it (0.22.0)."""
    with _LEARNING:
        if kind not in _LEARNED:
            msgspec.json.Decoder(kind)
            _LEARNED.add(kind)
    return kind


def read_as(path: Path, kind: type[T]) -> T:
    """Return a JSON file as a ``kind`` (a msgspec.Struct), whose numbers are finite. Raises OSError and Damaged."""
    data = files.read(path, MOST_BYTES)
    from_json(data)  # it can be written again, too
    try:
        return msgspec.json.decode(data, type=learned(kind))
    except (ValueError, RecursionError) as error:
        raise Damaged(str(error)) from None


def _integer(text: str) -> int:
    if len(text) > 20 or int(text) not in INTEGERS:
        raise Damaged(f"an integer of {len(text)} digits")
    return int(text)


_JSON = json.JSONDecoder(parse_int=_integer)


def _levels(value: Any) -> int:
    """Return how deeply plain data is nested; a level at a time, so that no depth is too much."""
    level, inside = 0, [value]
    while inside:
        level += 1
        inside = [
            item
            for holder in inside
            for item in (holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ())
            if isinstance(item, (dict, list))
        ]
    return level


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How large a document may be that this machine must survive, whoever wrote it."""

    size: int
    """Bytes."""
    values: int
    """Keys and values, each alias of YAML counted as often as it is used."""
    depth: int
    """Mappings and lists within each other."""
    number: int
    """The largest absolute value of a whole number."""


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"duplicate key '{key}'")
        mapping[key] = value
    return mapping


def parse(data: bytes, source: str, limits: Limits | None = None, *, exponents: str = "") -> dict[str, Any]:
    """Return the mapping in JSON bytes (when ``source`` ends in .json) or YAML bytes.

    ``exponents``: the field in which ``1e-3`` is a number, as in JSON; elsewhere YAML needs a dot and a sign (``1.0e-3``).

    Raises:
        BadInput: not UTF-8, a syntax error (with line and column), a repeated key, not a mapping, or beyond ``limits``.
    """
    if limits and len(data) > limits.size:
        raise BadInput(f"{source} has more than {limits.size >> 10} KiB", hint="start from templates/ppo.json")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{source} is not UTF-8 text (byte {error.start})") from None
    try:
        document = _parse(text, source, limits, exponents)
    except RecursionError:
        raise BadInput(f"{source}: nested too deeply") from None
    if not isinstance(document, dict):
        raise BadInput(f"{source} must contain a mapping of fields, not {_kind(document)}")
    if limits:
        _check_values(document, source, limits)
    return document


def _check_values(document: dict[str, Any], source: str, limits: Limits) -> None:
    """Raise BadInput for a document beyond ``limits``, a key that is not a text, or a value that JSON does not have.

    ``_check_yaml`` has bounded what aliases repeat, so that this walk ends.
    """
    waiting: list[tuple[str, Any, int]] = [("", document, 0)]
    seen = 0
    while waiting:
        path, value, depth = waiting.pop()
        seen += 1
        if seen > limits.values or depth > limits.depth:
            raise _too_large(source, limits)
        if isinstance(value, dict):
            if wrong := [key for key in value if not isinstance(key, str)]:
                raise BadInput(f"{source}: {path or 'the document'}: the key {wrong[0]!r} is not a string", hint="quote it")
            waiting += [(f"{path}.{key}".lstrip("."), inner, depth + 1) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{at}]", inner, depth + 1) for at, inner in enumerate(value)]
        elif isinstance(value, int) and abs(value) > limits.number:
            raise BadInput(f"{source}: {path}: a number with {len(str(abs(value)))} digits is too large")
        elif isinstance(value, bytes | set):
            raise BadInput(
                f"{source}: {path}: a YAML {type(value).__name__} is not allowed here", hint="write a string or a list"
            )


def _too_large(source: str, limits: Limits) -> BadInput:
    return BadInput(
        f"{source} has more than {limits.values} values, or more than {limits.depth} levels of mappings and lists",
        hint="write fewer; each YAML alias (*name) counts with everything that it repeats",
    )


def _parse(text: str, source: str, limits: Limits | None, exponents: str) -> Any:
    if not source.endswith(".json"):
        return _parse_yaml(text, source, limits, exponents)
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        raise BadInput(f"{source}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}") from None
    except ValueError as error:
        raise BadInput(f"{source}: {error}") from None


def _check_yaml(text: str, source: str, limits: Limits) -> None:
    """Raise BadInput for YAML beyond ``limits``, from its events alone.

    PyYAML's C loader crashes the process for some ten thousand levels, and copies what merged aliases (``<<: *a``) repeat.
    """
    import yaml

    known: dict[str, tuple[int, int]] = {}
    opened: list[tuple[str | None, int, int]] = [(None, 0, 0)]
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, 1, 1))
            name, values, levels = None, 0, 0
        elif isinstance(event, yaml.CollectionEndEvent):
            name, values, levels = opened.pop()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in known:
                raise BadInput(f"{source}: the alias *{event.anchor} contains itself or is unknown")
            name, (values, levels) = None, known[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            name, values, levels = event.anchor, 1, 0
            if event.implicit[0] and _LONG_NUMBER.fullmatch(event.value):  # base 60 takes quadratic time
                raise BadInput(f"{source}: a number with {len(event.value)} digits is too large")
        else:
            continue
        if name:
            known[name] = (values, levels)
        outer, values_before, levels_before = opened[-1]
        opened[-1] = (outer, values_before + values, max(levels_before, levels + 1))
        if opened[-1][1] > limits.values or len(opened) + levels > limits.depth + 2:
            raise _too_large(source, limits)


_LONG_NUMBER = re.compile(r"[-+0-9_:.]{300,}")
_EXPONENT = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)[eE][-+]?[0-9]+")


def _read_exponents(node: Any, seen: set[int]) -> None:
    """Make numbers of the unquoted texts ``1e-3``, ``1.5e6`` under a YAML node."""
    if id(node) in seen:  # an alias
        return
    seen.add(id(node))
    if isinstance(node.value, list):
        for child in node.value:
            _read_exponents(child[1] if isinstance(child, tuple) else child, seen)  # the key of a mapping is a name
    elif node.tag == "tag:yaml.org,2002:str" and not node.style and _EXPONENT.fullmatch(node.value):
        node.tag = "tag:yaml.org,2002:float"


def _parse_yaml(text: str, source: str, limits: Limits | None, exponents: str) -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Refuse repeated keys, which PyYAML's own loader silently overwrites; take the key ``on`` for a name, not for true."""

        def get_single_node(self) -> Any:
            document = super().get_single_node()
            for key, value in document.value if isinstance(document, yaml.MappingNode) else ():
                if key.value == exponents:
                    _read_exponents(value, set())
            return document

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key_node, _ in node.value:
                key = str(key_node.value)
                if key in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"duplicate key '{key}'", key_node.start_mark)
                seen.add(key)
                if key_node.tag == "tag:yaml.org,2002:bool":
                    key_node.tag = "tag:yaml.org,2002:str"
            return super().construct_mapping(node, deep)

    try:
        if limits:
            _check_yaml(text, source, limits)
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BadInput(f"{source}{where}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{source}: not valid YAML: {' '.join(str(error).split())}") from None
    except _WRONG_SCALAR as error:
        raise BadInput(f"{source}: not valid YAML: a value does not match its type: {error}") from None


_WRONG_SCALAR = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What PyYAML raises for a scalar that only looks like a date (``2026-99-99``), or contradicts its tag (``!!int x``)."""


def _kind(value: Any) -> str:
    return {"NoneType": "nothing", "list": "a list", "str": "a text", "int": "a number"}.get(
        type(value).__name__, type(value).__name__
    )


def convert(document: Any, kind: type[T], source: str) -> T:
    """Return ``document`` as a ``kind`` (a msgspec.Struct).

    Raises:
        BadInput: names the field, the expected type, and the nearest known field for an unknown one.
    """
    try:
        return msgspec.convert(document, learned(kind))
    except msgspec.ValidationError as error:
        raise BadInput(f"{source}: {_explain(str(error), kind)}") from None


def _explain(message: str, kind: Any) -> str:
    what, _, where = message.partition(" - at `")
    path = where.rstrip("`").removeprefix("$.").removeprefix("$")
    if unknown := re.search(r"unknown field `(.+)`", what):
        inside = f" in '{path}'" if path else ""
        return f"unknown field '{unknown[1]}'{inside}{did_you_mean(unknown[1], _fields_at(kind, path))}"
    if missing := re.search(r"missing required field `(.+)`", what):
        return f"the field '{f'{path}.' if path else ''}{missing[1]}' is missing"
    if wrong := re.search(r"[Ii]nvalid enum value '(.*)'", what):
        choices = _choices_at(kind, path)
        return f"{path!r}: '{wrong[1]}' is not one of {', '.join(choices)}{did_you_mean(wrong[1], choices)}"
    return f"{f'{path!r}: ' if path else ''}{what[0].lower()}{what[1:]}".replace("`", "'")


def _choices_at(kind: Any, path: str) -> list[str]:
    """Return the values that the field at ``path`` (``stall.on_stall`` or ``retry.on[0]``) may have."""
    kinds = _alternatives(msgspec.inspect.type_info(kind))
    for part in re.findall(r"[A-Za-z_]+|\[", path):
        if part == "[":
            inner = [kind.item_type for kind in kinds if isinstance(kind, msgspec.inspect.ListType)]
        else:
            inner = [field.type for kind in kinds for field in getattr(kind, "fields", ()) if field.encode_name == part]
        kinds = [kind for each in inner for kind in _alternatives(each)]
    return [str(value) for kind in kinds for value in getattr(kind, "values", ())]


def _alternatives(kind: Any) -> list[Any]:
    """Return the types that ``kind`` allows, without its constraints."""
    if isinstance(kind, msgspec.inspect.Metadata):
        return _alternatives(kind.type)
    return list(kind.types) if isinstance(kind, msgspec.inspect.UnionType) else [kind]


def _fields_at(kind: Any, path: str) -> list[str]:
    """Return the field names of the struct found by walking ``path`` (``ray`` or ``hosts[0]``) from ``kind``."""
    for name in re.findall(r"[A-Za-z_]+", path):
        kind = next((field.type for field in msgspec.structs.fields(kind) if field.encode_name == name), None)
        while kind is not None and not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            structs = [part for part in getattr(kind, "__args__", ()) if part is not type(None)]
            kind = structs[0] if structs else None
        if kind is None:
            return []
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def as_number(value: Any) -> float | None:
    """Return a metric's value as a number; NaN for null (so verl writes it), None for a text, a list or true.

    A number may be spelled: "NaN", "-Infinity", "tensor(0.5)", "None".
    """
    if isinstance(value, str):
        spelled = _SPELLED.fullmatch(value)
        return float(spelled["number"] or "nan") if spelled else None
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer of more than 308 digits
        return math.inf
