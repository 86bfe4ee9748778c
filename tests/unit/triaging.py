"""The answer to a log that a test writes."""

from __future__ import annotations

from pathlib import Path

from mvp_helpers.diagnosis import views
from mvp_helpers.diagnosis.views import Triage


def triaged(tmp_path: Path, text: str) -> Triage:
    """Return the triage of a log with this text."""
    log = tmp_path / "some.log"
    log.write_text(text)
    return views.triage_log(log)
