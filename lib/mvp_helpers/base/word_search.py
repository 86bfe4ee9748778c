"""The lines of a large file that contain any of many words, by the search program that is installed: ripgrep, or grep."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

BLOCK = 1 << 20
"""A longer line comes in several pieces."""
READ = 1 << 16
"""Bytes read at once: few enough to stay in a CPU's cache while they are looked at."""
MOST_MEMORY = 2 << 30


class SearchFailed(Exception):
    """The search program ended before it had searched the whole file."""


def lines(path: Path, words: Iterable[bytes]) -> Iterator[bytes] | None:
    """Return blocks of the lines that contain a word, each as ``number:offset:line``; None without a search program.

    Numbers count from 1, offsets are in bytes. Each piece of a line that is longer than a block has the line's number and its
    own offset. Python's own search reads the file once for each word; these programs read it once for all. The iterator raises
    SearchFailed at its end if the program could not search.
    """
    options = ["--line-number", "--byte-offset", "--text", "--fixed-strings", "--no-filename", "--color=never", "--file=-"]
    if program := shutil.which("rg"):
        options += ["--no-config", "--no-mmap", "--encoding=none", "--no-heading"]
    elif not (program := shutil.which("grep")):
        return None
    return _blocks([program, *options, "--", str(path)], b"".join(word + b"\n" for word in words))


def _within_memory() -> None:
    """Let the program fail, not the machine, at a line that has no end: it holds a line as a whole."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def _blocks(argv: list[str], words: bytes) -> Iterator[bytes]:
    try:
        with subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"LC_ALL": "C"},
            preexec_fn=_within_memory,
        ) as process:
            assert process.stdin and process.stdout
            with contextlib.suppress(OSError):  # the search goes on while a block is read; without it both take turns
                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, BLOCK)
            process.stdin.write(words)
            process.stdin.close()
            rest = b""
            while piece := process.stdout.read(READ):
                if cut := piece.rfind(b"\n") + 1:
                    yield b"".join((rest, memoryview(piece)[:cut]))  # one copy; slicing and adding would make two
                    rest = piece[cut:]
                else:
                    rest += piece
                if len(rest) > BLOCK:
                    yield rest
                    number, offset, line = rest.split(b":", 2)
                    rest = b"%b:%d:" % (number, int(offset) + len(line))
            if rest:
                yield rest
    except OSError as error:
        raise SearchFailed from error
    if process.returncode not in (0, 1):
        raise SearchFailed
