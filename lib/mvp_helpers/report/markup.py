"""HTML from plain values: every text is escaped unless it is markup already, so what a user wrote is never markup."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from ..base.terminal import inert

_VOID = frozenset({"meta", "input", "br"})


class Html(str):
    """Text that is markup."""


def escaped(text: object) -> Html:
    """Return any text as markup that shows it: colours left out, control characters as ``\\x1b``."""
    return text if isinstance(text, Html) else Html(html.escape(inert(str(text))))


def tag(name: str, /, *inside: object, **attributes: object) -> Html:
    """Return one element. ``aria_label`` is the attribute aria-label, ``class_`` class; None and False leave one out."""
    given = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False)
    return Html(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{join(inside)}</{name}>")


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(value)}"'


def join(parts: Iterable[object]) -> Html:
    """Return the parts one after another; None is left out."""
    return Html("".join(escaped(part) for part in parts if part is not None))


def table(
    caption: str,
    titles: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    number_columns: Sequence[int] = (),
    kind: Literal["stacked", "wide"] | None = None,
) -> Html:
    """Return a table whose rows are named by their first cell; a region of its own, so that the keyboard can scroll it.

    ``stacked``: the last cell of a row has sentences; on a narrow page it is below the others. ``wide``: many long numbers.
    """
    head = tag(
        "tr", *(tag("th", title, scope="col", class_="n" if at in number_columns else None) for at, title in enumerate(titles))
    )
    body = [tag("tr", *(_cell(at, cell, "n" if at in number_columns else None) for at, cell in enumerate(row))) for row in rows]
    inner = tag(
        "table",
        tag("caption", caption),
        tag("thead", head) if any(titles) else None,
        tag("tbody", *body),
        class_=kind,
    )
    return tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _cell(at: int, cell: object, kind: str | None) -> Html:
    return tag("th", cell, scope="row", class_=kind) if at == 0 else tag("td", cell, class_=kind)


def data(name: str, value: Any) -> Html:
    """Return plain values for the page's script, as JSON that cannot end its element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Html(f'<script type="application/json" id="{name}">{text}</script>')
