"""How programs report that they, or a part of their work, failed, whatever else a log contains."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..log_text import log_lines

BROKEN_OFF = "Error executing job with overrides"
"""Hydra prints this before a job's last exception."""
_BAD_END = re.compile(
    rb"(?im)(?:exit(?:ed|ing|s)?(?: with)?(?: non-?zero)?(?: exit)?[ _-]?(?:code|status)|return(?:ed|s)?[ -]?code|\brc)"
    rb"[\"']?[ :=]+(?!0\b)-?\d+|exit code: 0x(?!0+\b)|\bnon-?zero (?:exit|status|return)|\bExitCode=[1-9]\d*:|\bexit[=:] *[1-9]"
    rb"|^g?make(?:\[\d+\])?: \*\*\* |(?<![/\w])(?:Job|run|training|command|job\S+)(?: \S+)? failed\b(?! 0)"
    rb"|status: FAILED|\bJob '.*' failed"
    rb"|^\++ (?:exit|return) (?!0\b)\d|^(?:exit|ret|rc|status|\$\?)(?: *[=:] *| )(?!0\b|20\d\b)\d+ *$|^timeout: (?:sending|the )"
    rb"|^returned [1-9]\d* *$|\breturn value [1-9]|\(signal \d+\)|\bterminated by signal\b|\bexit code (?:is |\()-?[1-9]"
    rb"|\b(?:retcode|errorlevel|ret code)\W{1,3}[1-9]|\"(?:exit_?code|return_?code)\": *\"-?[1-9]"
    rb"|\bJOB_STATE_(?:FAILED|CANCELLED)\b|\bUP_FOR_RETRY\b|\bJob '[^'\n]*' was stopped\b|^wandb: .*\(crashed\)"
    rb"|\bMaxRuntimeExceeded\b|\bwas requeued\b"
    rb"|^(?:\[\d+\][-+]? +)?(?:exit [1-9]|(?:killed|terminated|aborted|interrupted|evicted)(?= *$| {2,}| \(core)"
    rb"|\^C$|!* ?KeyboardInterrupt)"
    rb"|^\W*failed (?:modules?|tests?|cases?|jobs?|runs?|suites?)\b(?!\W*(?:0\b|none))"
    rb"|^(?:\W*|[\w./-]+ +)FAILED *$|^result: fail|\bfinished with errors\b"
    rb"|^\S+\.sh(?: failed at|: line \d+: .*(?:not found|No such|failed))|\|FAILED\|"
    rb"|\b(?:job ?)?(?:state|status)\b[^\w\n]{0,10}(?:FAILED|CANCELLED|TIMEOUT|OUT_OF_MEMORY|NODE_FAIL|PREEMPTED)\b"
    rb"|\bjob\b.*\b(?:state |: )?FAILED\b|\bCANCELLED (?:AT|by)\b|^##\[error\]|\bOOMKilled\b|\bBackoffLimit|\bbackoff limit\b"
    rb"|\bjob (?:was )?(?:killed|preempted)\b|^TERM_\w+: |^wandb: .*\(failed \d+\)|\bterminated \(Error\)|\bdied with <Signals"
    rb"|\bexited (?:abnormally|(?:on|with) signal \d|with [1-9])|\bsupervisor actor died|^" + BROKEN_OFF.encode()
)
LONGEST_END = 2000
"""Longer lines report no end."""
_SAYS_FAILED = re.compile(
    r"(?i)^(?:(?!.*\b(?:0|no|not|none|if|when|may|might|can|could|would|will|warning|ignor\w*|skip\w*|retry\w*|again)\b)"
    r"(?:.{0,120}\bfailed(?: or timed out| with (?:exit )?(?:code|status) \d+)?\W*$"
    r"|(?-i:(?:\W*\[[\w .-]{1,30}\](?: \w{1,20}){0,3})?\W*FAILED\b\W+\w))"
    r"|.{0,120}\bfailed: (?:\[Errno \d|(?-i:[A-Z])\w*(?:Error|Exception)\b))"
)
"""That something has failed, not that it may, or that nothing did."""


def last(lines: bytes) -> str:
    """Return the last line that reports a bad end; "" without one."""
    ends = (line for line in reversed(lines.splitlines()) if len(line) < LONGEST_END and _BAD_END.search(line))
    return next(ends, b"").decode(errors="replace").strip()[:300]


def said_to_fail(lines: Iterable[bytes]) -> str:
    """Return the first line in which a program says that something failed; "" without one."""
    texts = (log_lines.clean(raw, 0).text.strip() for raw in lines)
    return next((text for text in texts if _SAYS_FAILED.search(text)), "")
