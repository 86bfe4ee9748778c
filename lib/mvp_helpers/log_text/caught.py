"""An exception that a program caught and printed without its class: ``print(f"Error in step {n}: {error}")``.

Python's own texts show the class. Pure.
"""

from __future__ import annotations

import re

_ANNOUNCED = re.compile(r"(?i)[^\w\s]{0,4} ?(?:error|exception|failed|failure)\b[^:]{0,120}: ")
"""What a handler prints before the text of the exception."""
_TEXTS = {
    "KeyError": r"(?P<quote>['\"])[^'\"]{1,80}(?P=quote)$",
    "AttributeError": r"(?:'[\w.]+' object|module '[\w.]+'|type object '\w+') has no attribute '",
    "NameError": r"name '\w+' is not defined",
    "TypeError": (
        r"unsupported operand type\(s\) for |'\w+' object is not (?:subscriptable|callable|iterable)"
        r"|[\w.]+\(\) (?:got an unexpected keyword argument|missing \d+ required|takes \d+ positional)"
    ),
    "ValueError": (
        r"Unknown format code '|Invalid format specifier|could not convert string to float: |invalid literal for int\(\)"
        r"|(?:too many|not enough) values to unpack"
    ),
    "IndexError": r"(?:list|tuple|string) index out of range$",
    "ZeroDivisionError": r"(?:float )?division by zero",
    "FileNotFoundError": r"\[Errno 2\] ",
    "PermissionError": r"\[Errno 13\] ",
}
"""How the texts of Python's own exceptions begin; without those of imports, as a program may do without a module."""
_TEXT = re.compile("|".join(f"(?P<{name}>{text})" for name, text in _TEXTS.items()))


def named(text: str, level: bool = False) -> str:
    """Return the exception of which a line prints the text, with its class; "" if the line prints none.

    ``level``: a logger calls the line an error, so that its whole text may be that of the exception.
    """
    announced = _ANNOUNCED.match(text)
    begins = [*([announced.end()] if announced else []), *([0] if level else [])]
    found = ((begin, match) for begin in begins if (match := _TEXT.match(text, begin)))
    return next((f"{name}: {text[begin:]}" for begin, match in found for name in _TEXTS if match[name] is not None), "")
