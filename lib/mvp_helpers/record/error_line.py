"""The line of a log that reports an exception: a quick look while a job runs; ``diagnosis`` finds the cause."""

from __future__ import annotations

import re

ERROR_LINE = re.compile(r"^(?:\(.*?\) *)?((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*)", re.MULTILINE)
"""Group 1 is the line without Ray's prefix."""
