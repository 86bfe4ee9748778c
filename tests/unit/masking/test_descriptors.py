"""The output of a Ray worker: masked whoever writes it, and however the worker ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mvp_helpers.base.project import PROJECT

VALUE = "s3cr3t-canary/42"

WAYS = {
    "print": "print(VALUE)",
    "os.write": "os.write(1, VALUE.encode())",
    "the buffer": "sys.stdout.buffer.write(VALUE.encode()); sys.stdout.buffer.flush()",
    "the first stdout": "sys.__stdout__.write(VALUE); sys.__stdout__.flush()",
    "writelines": "sys.stdout.writelines([VALUE[:5], VALUE[5:]]); sys.stdout.flush()",
    "a child": "subprocess.run(['echo', VALUE])",
    "a child of a child, later": "subprocess.run(['sh', '-c', f'(sleep 1; echo {VALUE}) &'])",
    "in pieces": "[os.write(1, letter.encode()) for letter in VALUE]",
    "C": "import ctypes; ctypes.CDLL(None).dprintf(1, VALUE.encode())",
}
ENDS = {
    "normally": "",
    "killed": "os.kill(os.getpid(), 9)",
    "without Python's end": "os._exit(3)",
    "crashed": "import faulthandler; faulthandler.enable(); os.kill(os.getpid(), 11)",
    "terminated with its group": "os.killpg(os.getpgid(0), 15)",
}


def output(tmp_path: Path, code: str, stream: str = "stdout") -> str:
    """What a process leaves in its log, until nobody can write there any more."""
    program = f"""
import os, subprocess, sys
from mvp_helpers.masking.descriptors import mask_output
VALUE = {VALUE!r}
mask_output([VALUE])
os.write(1, b"begin ")
{code}"""
    log = tmp_path / "log"
    with log.open("wb") as file:
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": str(PROJECT / "lib"), "PATH": "/usr/bin:/bin", "MARK": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file if stream == "stderr" else subprocess.DEVNULL,
            start_new_session=True,
        )
    deadline = time.monotonic() + 120
    while maskers(tmp_path):
        assert time.monotonic() < deadline, "the masker does not end"
        time.sleep(0.05)
    return log.read_text()


def maskers(tmp_path: Path) -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARK={tmp_path}".encode() in (process / "environ").read_bytes():
                found.append(process)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_masked_whoever_writes_it(tmp_path: Path, way: str) -> None:
    assert output(tmp_path, WAYS[way]).strip() == "begin ***"


@pytest.mark.parametrize("end", ENDS)
def test_the_last_words_are_written_and_masked_however_the_worker_ends(tmp_path: Path, end: str) -> None:
    text = output(tmp_path, f"os.write(1, (VALUE + ' the end').encode())\n{ENDS[end]}")
    assert text == "begin *** the end"


def test_errors_are_masked_too_and_much_output_waits_for_nobody(tmp_path: Path) -> None:
    text = output(tmp_path, "sys.stderr.write((VALUE + 'x' * 1000) * 3000); sys.exit(VALUE)", "stderr")
    assert VALUE not in text and text.count("***") == 3001 and text.count("x") == 3_000_000
