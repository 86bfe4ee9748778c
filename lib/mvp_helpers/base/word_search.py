"""Where any of many words occurs in a large file, by the search program that is installed: ripgrep, or grep."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from array import array
from collections.abc import Iterable
from pathlib import Path

_BLOCK = 1 << 20
_OFFSET = re.compile(rb"^(\d+):", re.MULTILINE)


def offsets(path: Path, words: Iterable[bytes]) -> array[int] | None:
    """Return the offsets in bytes of the words in the file, ascending; None if no search program can find them.

    Python's own search reads the file once for each word; these programs read it once for all.
    """
    options = ["--byte-offset", "--only-matching", "--text", "--fixed-strings", "--file=-"]
    if program := shutil.which("rg"):
        argv = [
            program,
            "--no-config",
            "--no-line-number",
            "--no-filename",
            "--color=never",
            "--no-mmap",
            *options,
            "--",
            str(path),
        ]
    elif program := shutil.which("grep"):
        argv = [program, "--no-filename", "--color=never", *options, "--", str(path)]
    else:
        return None
    found = array("Q")
    try:
        with subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"LC_ALL": "C"},
        ) as process:
            assert process.stdin and process.stdout
            process.stdin.write(b"".join(word + b"\n" for word in words))
            process.stdin.close()
            rest = b""
            while block := process.stdout.read(_BLOCK):
                whole, _, rest = (rest + block).rpartition(b"\n")
                found.extend(map(int, _OFFSET.findall(whole)))
            found.extend(map(int, _OFFSET.findall(rest)))
    except OSError:
        return None
    return found if process.returncode in (0, 1) else None
