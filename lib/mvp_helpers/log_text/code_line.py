"""What to look at in the line of code that raised an exception: the values that its message is about."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

MOST, LONGEST = 4, 60
"""So many values are named, each with this many characters."""
LONGEST_LINE = 1000
_MESSAGE = re.compile(r"(?:\w+\.)*(?P<name>\w+)(?:: (?P<says>.*))?", re.DOTALL)
_WITHOUT = re.compile(r"^'(?P<type>[\w.]+)' object has no attribute '(?P<name>\w+)'")
_USED = re.compile(
    r"^'(?P<type>[\w.]+)' object is not (?P<how>subscriptable|iterable|callable)"
    r"|^cannot unpack non-iterable (?P<unpacked>[\w.]+) object"
)
_SHAPES = re.compile(r"(?i)\b(?:sizes?|shapes?|dimensions?|\dD|dims?)\b")
_INDEXES = re.compile(r"indices must be|not subscriptable|unhashable|index")
_BLOCK = re.compile(r"(?:if|while|for|with|async|match)\b")
_UNFINISHED = re.compile(r"(?:\s*(?:[-+*/%|&^@<>=.]|\b(?:and|or|not|in|is|if|else)))+$")
"""What the next line of a statement goes on from."""
_OPTIONS = re.compile(r"(?:self\.)?(?:args|opts?|options|flags|FLAGS)\.(?P<name>\w+)")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod)
_SAYS_NOTHING = re.compile(r"self|cls|_|args|kwargs|(?:\w+\.)*device|(?:torch|np|numpy|sys|os|tf|nn|F)\b.*|[A-Z].*")
"""Values of which an error is hardly ever about."""
_UNPACKED = re.compile(
    r"(?:too many|not enough) values to unpack \(expected (?:at least )?(?P<expected>\d+)(?:, got (?P<got>\d+))?\)"
)
_WHY_UNPACKED = "its return statements (other versions of it, a branch that ends early), or the names before the ="
_KNOWN_CLASSES = re.compile(r"DataFrame|Series|Tensor|ndarray|Axes\w*|Figure|Sequential|DataLoader|Graph")
"""Classes of packages, which nobody looks for in their own code."""
_BUILT_IN = re.compile(r"(?:zip|enumerate|reversed|map|filter|sorted|range|tqdm|chain|list|tuple|set|dict)\(")
"""Calls that return what can be gone through, or raise because of their arguments."""
NEAR = 4
"""An exception so many calls below a line may still be about the values that the line passes on."""


def shows(error: str, code: str, below: int = 0) -> str:
    """Return what to look at in ``code``, the line that raised ``error`` (``Class: message``); "" if it does not show that.

    ``below``: how many calls deeper the error was raised, 0 if in that line itself.
    """
    try:
        return _shows(error, code, below)
    except RecursionError:  # code that is nested too deeply to be written again
        return ""


def _shows(error: str, code: str, below: int) -> str:
    message, tree = _MESSAGE.match(error), _parsed(code)
    if message is None or tree is None:
        return ""
    name, says, statement = message["name"], (message["says"] or "").strip(), tree.body[0]
    says = "" if says == code.strip() else says  # an exception without a message is quoted with its code
    if isinstance(statement, ast.Raise):
        return _of_raise(statement, says) if _closed(code.strip()) == code.strip() else ""
    if isinstance(statement, ast.Assert):
        return _of_assert(statement)
    if name == "KeyError":
        return _of_key(tree, says, below)
    if name == "IndexError":
        return _of_index(tree) if not below and re.search(r"out of (?:range|bounds)", says) else ""
    if name == "ZeroDivisionError":
        return _of_zero(tree) if not below and says.endswith(("by zero", "modulo")) else ""
    if not below and (found := _WITHOUT.match(says)):
        owner = _owner(tree, found["name"])
        return f"{_is_a(owner, found['type'])}{_lacks(owner, found['type'])}" if owner else ""
    if not below and (used := _USED.match(says)) and (owner := _used(tree, used["how"] or "iterable")):
        return _is_a(owner, used["type"] or used["unpacked"])
    if not below and (count := _UNPACKED.match(says)) and (value := _unpacked(tree)):
        return f"{value} gives {count['got'] or 'more'} values where {count['expected']} are taken: {_WHY_UNPACKED}"
    if not says:
        return ""
    values = _values(tree, indexed=not below and bool(_INDEXES.search(says)))
    if not values or below > NEAR:
        return ""
    if _SHAPES.search(says):
        values = [text for text in values if not _OPTIONS.fullmatch(text)]  # which have none
        if not values:
            return ""
        shapes = "shapes" if len(values) > 1 else "shape"
        return f"the {shapes} of {_and(values)} just before that line, beside what the message expects"
    if "None" in says:
        return _print(values, "what is None there, and what should have set it")
    which = "which of them" if len(values) > 1 else "what in it"
    return _print(values, f"{which} is not as the message expects, and what sets it")


def _parsed(code: str) -> ast.Module | None:
    """Return the tree of a line of code, which may begin a block, or be a part of a longer statement; None if it is not code."""
    line = re.sub(r"^el(?=if\b)", "", code.strip()[:LONGEST_LINE])
    line = f"{line} pass" if _BLOCK.match(line) and line.endswith(":") else line
    line = _UNFINISHED.sub("", line)
    closed = _closed(line)
    for text in (line, closed, f"_({_closed(line, inner=True)})", f"{{{_closed(line.rstrip(','))}}}"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about escapes in a program that is not ours
                tree = ast.parse(text)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        if tree.body:
            return tree
    return None


def _closed(line: str, inner: bool = False) -> str:
    """Return the line with its open brackets closed; if ``inner``, without those that only a line before it can have opened."""
    opened: list[str] = []
    kept = []
    for character in line:
        if character in _CLOSING:
            opened.append(_CLOSING[character])
        elif character in _CLOSING.values():
            if not opened and inner:
                break
            if opened:
                opened.pop()
        kept.append(character)
    return "".join(kept) + "".join(reversed(opened))


def _of_raise(statement: ast.Raise, says: str) -> str:
    """Return where the values in the message come from, by the f-string that made it."""
    made = next((node for node in ast.walk(statement) if isinstance(node, ast.JoinedStr)), None)
    if made is None:
        return ""
    shape = "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else "(.+?)" for part in made.values)
    match = re.fullmatch(shape, says, re.DOTALL)
    longest = re.fullmatch(shape.replace("(.+?)", "(.+)"), says, re.DOTALL)
    if match is None or longest is None or match.groups() != longest.groups():  # a value may contain what separates it
        return ""
    names = [_short(ast.unparse(part.value)) for part in made.values if isinstance(part, ast.FormattedValue)]
    values = [f"{name} ({_short(text)})" for name, text in zip(names, match.groups(), strict=True) if name != text]
    return f"what gives {_and(list(dict.fromkeys(values))[:MOST])} that value" if values else ""


def _of_assert(statement: ast.Assert) -> str:
    """Return which values made the condition false."""
    test = statement.test
    if isinstance(test, ast.Constant) and not test.value:
        return "the line ends the program on purpose wherever it is reached: what leads there, or remove it"
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and ast.unparse(test.comparators[0]) == "None":
        text = ast.unparse(test.left)
        option = _OPTIONS.fullmatch(text)
        named = f": set the option --{option['name'].replace('_', '-')}" if option else ", and what sets it"
        return f"{_short(text)} is None there{named}"
    values = _values(ast.Module([ast.Expr(test)], []))
    return _print(values, "the condition is false for them; then what sets them") if values else ""


def _of_key(tree: ast.Module, key: str, below: int) -> str:
    """Return the mapping without the key; of a key in a variable only if that line itself looks it up."""
    if key.startswith(("'pop ", '"pop ', "'popitem")):  # a set or mapping is empty
        return ""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)]
    exact = [node for node in found if isinstance(node.slice, ast.Constant) and repr(node.slice.value) == key]
    variable = [node for node in found if not isinstance(node.slice, (ast.Constant, ast.Slice, ast.Tuple))]
    chosen = exact or ([] if below else variable)
    if len({ast.unparse(node) for node in chosen}) != 1 or _bound(tree) & _names(chosen[0]):
        return ""
    mapping, index = (_short(ast.unparse(part)) for part in (chosen[0].value, chosen[0].slice))
    named = _short(key) if exact else f"{_short(key)} ({index})"
    if re.fullmatch(r"-?\d+", key):
        first = [f"type({mapping})", f"list({mapping})[:5]"]
        return _print(first, f"it has no key {named}, as where a list became a mapping")
    if "regist" in mapping.lower():
        known = f"what is registered there (print(list({mapping})))"
        return f"{known}: one of these for the option that names {_short(key)}, or the import of the module that registers it"
    return _print([f"list({mapping})"], f"the key {named} is not in it; then what makes {mapping}, or another name for the key")


def _of_index(tree: ast.Module) -> str:
    found = {
        (ast.unparse(node.value), ast.unparse(node.slice))
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and not isinstance(node.slice, ast.Slice | ast.Tuple)
        and not _is_key(node.slice)
        and not (isinstance(node.value, ast.Attribute) and node.value.attr == "shape")
        and not _bound(tree) & _names(node)
    }
    if not found or len(found) > 2:
        return ""
    pairs = ((f"len({_short(value)})", "" if index.lstrip("-").isdigit() else _short(index)) for value, index in sorted(found))
    lengths = [text for pair in pairs for text in pair if text]
    return _print(lengths, "what left it that short, or made the index that large")


def _of_zero(tree: ast.Module) -> str:
    divided = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, _DIVISIONS)]
    if any(isinstance(node.left, ast.Constant | ast.JoinedStr) and isinstance(node.op, ast.Mod) for node in divided):
        return ""  # a text that is formatted
    divisors = _texts(node.right for node in divided if not isinstance(node.right, ast.Constant))
    return f"{divisors[0]} is 0 there: what sets it" if len(divisors) == 1 else ""


def _is_key(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str)


def _owner(tree: ast.Module, name: str) -> str:
    """Return the one expression whose attribute ``name`` the line reads; "" if it shows none."""
    owners = _texts(node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == name)
    of_module = owners and (_SAYS_NOTHING.fullmatch(owners[0]) or owners[0].startswith("super(")) and owners[0] != "self"
    return owners[0] if len(owners) == 1 and not of_module else ""


def _used(tree: ast.Module, how: str) -> str:
    """Return the one expression that the line subscripts, calls, or goes through; "" if it shows none, or several."""
    nodes: Iterator[ast.expr]
    if how == "subscriptable":
        nodes = (node.value for node in ast.walk(tree) if isinstance(node, ast.Subscript))
    elif how == "callable":
        nodes = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    else:
        nodes = (each for node in ast.walk(tree) if (each := _gone_through(node)))
    found = [node for node in nodes if not _BUILT_IN.match(ast.unparse(node))]
    texts = _texts(iter(found))
    return texts[0] if len(texts) == 1 and not _bound(tree) & _names(found[0]) else ""


def _unpacked(tree: ast.Module) -> str:
    """Return the call whose values the line gives to several names; "" if it has none."""
    assigned = (
        node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List)
    )
    called = [node.value for node in assigned if isinstance(node.value, ast.Call)]
    text = _short(ast.unparse(called[0])) if len(called) == 1 else ""
    return "" if _BUILT_IN.match(text) else text


def _gone_through(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.For | ast.comprehension):
        return node.iter
    unpacked = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List)
    return node.value if unpacked and isinstance(node, ast.Assign) else None


def _is_a(owner: str, kind: str) -> str:
    if owner == "self":
        return f"where {kind} sets that attribute (grep the file of its class): later, in another branch, or by another name"
    if re.match(rf"{re.escape(kind)}\(", owner):
        return f"{owner} makes a {kind} there: without that call, or a conversion of it to what is needed after it"
    if kind != "NoneType" and owner.endswith(")"):
        return f"{owner} returned a value of the type {kind} there: what it returns (its docstring, another version of it)"
    if kind != "NoneType":
        return f"{owner} is of the type {kind} there: what made it"
    if owner.endswith(")"):
        return f"{owner} returned None there: what it did not find"
    return f"{owner} is None there: the assignment or option that should have set it"


def _lacks(owner: str, kind: str) -> str:
    """Return where to look for an attribute that an object of the class ``kind`` lacks."""
    if kind == "NoneType" or owner == "self" or owner.endswith(")"):
        return ""
    if not kind[0].isupper():
        return ", or another attribute of that type"
    if _KNOWN_CLASSES.fullmatch(kind):
        return ", and the version of its package (pip show): since when, or until when, its documentation has that name"
    return f", and its class (grep -rn 'class {kind}', or pip show its package): another name, a version without it, or never set"


def _values(tree: ast.Module, indexed: bool = False) -> list[str]:
    """Return the values that the line works on: what it passes, compares or indexes, without what it calls.

    If ``indexed``, an index of the line failed: what it was an index of, and the index itself, can be printed, but not the two.
    """
    called = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Call) for part in ast.walk(node.func)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript)]
    names = [node for node in names if not (indexed and isinstance(node, ast.Subscript))]
    inner = {id(node.value) for node in names if isinstance(node, ast.Attribute | ast.Subscript)}
    bound = _bound(tree)
    of_data = (
        node for node in names if isinstance(node.ctx, ast.Load) and id(node) not in called | inner and not bound & _names(node)
    )
    return [text for text in _texts(of_data) if not _SAYS_NOTHING.fullmatch(text)][:MOST]


def _bound(tree: ast.AST) -> set[str]:
    """Return the names that exist only within the line, as those of a comprehension or a lambda."""
    targets = [node.target for node in ast.walk(tree) if isinstance(node, ast.comprehension | ast.For | ast.NamedExpr)]
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return arguments | {name for target in targets for name in _names(target)}


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _print(values: list[str], why: str) -> str:
    return f"print({', '.join(values)}) just before that line: {why}"


def _texts(nodes: Iterator[ast.expr]) -> list[str]:
    return list(dict.fromkeys(_short(ast.unparse(node)) for node in nodes))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _and(texts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
