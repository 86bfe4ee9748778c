"""Whether a log says little more than warnings, which healthy runs print, too."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..log_text import log_lines

_WARNS = re.compile(r"\b\w*Warning: \S")
_SERIOUS = re.compile(
    r"(?i)\b(?:fail\w*|errors?|exceptions?|nan|inf|not finite|corrupt\w*|cannot|unable|tim(?:ed |e)out|lost|died|killed|refused|"
    r"skipping (?:this |the )?(?:update|step)|denied|insufficient|evicted|terminat\w*|abort\w*|hang\w*|stuck|mismatch\w*|"
    r"not (?:be )?(?:found|available|scheduled))\b"
)
"""What a harmless warning does not say."""
_POSSIBLE = re.compile(r"(?i)\b(?:will|would|may|might|could|can)\b[^.]*")


def of(tail: bytes, harmless: Sequence[str]) -> str:
    """Return the first of the lines that is a warning, if a third of them are; "" otherwise.

    ``harmless``: words of notices that count as warnings, whatever else they say.
    """
    lines = [line for raw in tail.splitlines() if (line := log_lines.clean(raw, 0)).text.strip()]
    notices = [log_lines.has_any(line.text, harmless) for line in lines]
    warns = [
        notice or line.level in ("WARNING", "WARN") or bool(_WARNS.search(line.text))
        for line, notice in zip(lines, notices, strict=True)
    ]
    code = [before and line.text.startswith("  ") for before, line in zip([False, *warns], lines, strict=False)]
    serious = any(
        _SERIOUS.search(_POSSIBLE.sub("", line.text))
        for line, is_warning, notice in zip(lines, warns, notices, strict=True)
        if is_warning and not notice
    )
    if serious or not any(warns) or 3 * (sum(warns) + sum(code)) < len(lines):
        return ""
    return lines[warns.index(True)].text.strip()
