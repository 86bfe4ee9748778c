"""A log on a disk that is full for a while."""

from __future__ import annotations

import os
from pathlib import Path

from mvp_helpers.base.files import PatientFile


def test_what_a_full_disk_refuses_is_written_once_there_is_room(tmp_path: Path) -> None:
    with open("/dev/full", "ab", buffering=0) as log, (tmp_path / "log").open("ab") as room:
        patient = PatientFile(log)
        assert not patient.write(b"Traceback\n")
        assert not patient.write(b"OSError: full\n")
        os.dup2(room.fileno(), log.fileno())
        assert patient.write(b"end\n")
        assert patient.write(b"")
    assert (tmp_path / "log").read_bytes() == b"Traceback\nOSError: full\nend\n"


def test_of_more_than_it_keeps_the_end_is_written_and_the_loss_is_said(tmp_path: Path) -> None:
    with open("/dev/full", "ab", buffering=0) as log, (tmp_path / "log").open("ab") as room:
        patient = PatientFile(log, most=4)
        for piece in (b"123456", b"78", b"9"):
            assert not patient.write(piece)
        os.dup2(room.fileno(), log.fileno())
        assert patient.write(b"")
    assert (tmp_path / "log").read_bytes() == b"\nMVP_WARNING: 5 bytes were lost while the disk was full\n6789"


def test_after_the_file_was_closed_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab", buffering=0) as log:
        patient = PatientFile(log)
    with (tmp_path / "other").open("ab"):
        assert not patient.write(b"late")
    assert not (tmp_path / "other").read_bytes()
