"""Write a page into a job's folder: under a name that is never used again, and stated in the job's seal."""

from __future__ import annotations

from pathlib import Path

from ..base import files
from ..base.errors import Blocked
from ..base.paths import JobFolder
from ..base.times import stamped
from ..seal.seals import Seals


def write(folder: JobFolder, page: str, seals: Seals, name: str = "report") -> Path:
    """Write the page and return its path; a sealed job's seal states it too.

    Raises:
        Blocked: the folder cannot be written.
        Failed: the job's seal is not its own; the page is written all the same.
    """
    place = folder.reports / f"{stamped(name)}.html"
    try:
        folder.check_own(folder.reports)
        folder.reports.mkdir(exist_ok=True)
        files.write_text(place, page)
    except OSError as error:
        raise Blocked(f"cannot write {place}: {error.strerror}", hint="./scripts/00_prereq_check.sh") from error
    seals.add(folder, place)
    return place
