"""The checkout's own wrapper script: which variables it reads, and what it would start, without starting it.

``preview`` runs the real script in a restricted shell (no paths as commands, no files written) with harmless tools only: every
other command is noted instead of run. So the trainer's command is what this revision really makes of the environment, with every
default and every condition in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import BadInput, Blocked

TIMEOUT_S = 30
HARMLESS: tuple[str, ...] = ("awk", "basename", "cat", "cut", "date", "dirname", "echo", "env", "expr", "false", "grep", "head")
HARMLESS += (
    "hostname",
    "id",
    "ls",
    "nproc",
    "printf",
    "readlink",
    "realpath",
    "sed",
    "seq",
    "sort",
    "tail",
    "test",
    "tr",
    "true",
)
HARMLESS += ("uname", "uniq", "wc")
# A number that tells how many words follow, then those words; a script on stdin ("-") is answered with the device.
_RECORDER = """#!/bin/sh
{{ printf '%s\\0' "$(($# + 1))" "${{PYTHONPATH-}}" "$@"; }} >>"{record}"
for last; do :; done
[ "$last" != - ] || {{ while IFS= read -r _; do :; done; echo "{device}"; }}
"""


@dataclass(frozen=True)
class Preview:
    """What the wrapper would start: the trainer's argv, and the PYTHONPATH it would have."""

    argv: list[str]
    pythonpath: str
    module: str

    @property
    def interpreter(self) -> list[str]:
        """What comes before ``-m``: ``python3``, or ``uv run … python3``."""
        return self.argv[: self.argv.index("-m")]

    @property
    def arguments(self) -> list[str]:
        return self.argv[self.argv.index(self.module) + 1 :]

    @property
    def overrides(self) -> list[str]:
        """The Hydra overrides, in order; of one key the last wins."""
        return [text for text in self.arguments if not text.startswith("-")]

    def option(self, name: str, default: str) -> str:
        """The value of ``--name=value``."""
        found = [text.split("=", 1)[1] for text in self.arguments if text.startswith(f"--{name}=")]
        return found[-1].removesuffix(".yaml") if found else default


def variables(script: Path) -> set[str]:
    """Names in capitals that the script expands: ``$X``, ``${X:-default}``, ``${X,,}``. Raises Blocked when it cannot be read."""
    try:
        text = script.read_text(errors="replace")
    except OSError as error:
        raise Blocked(
            f"cannot read {script}: {error.strerror}", hint="a checkout of the right repository, at a revision that has it"
        ) from None
    return set(re.findall(r"\$\{?!?([A-Z][A-Z0-9_]*)", text))


def check_overrides(overrides: Sequence[str]) -> None:
    """Upstream's wrappers hand on ``$@`` unquoted: refuse what a shell would take apart. Raises BadInput."""
    for text in overrides:
        if bad := re.search(r"[\s*?]", text):
            raise BadInput(
                f"the override '{text}' holds {bad[0]!r}: the wrapper hands arguments on unquoted, which takes it apart",
                hint="an override without spaces, * and ?",
            )
        if "=" not in text and not text.startswith("~"):
            raise BadInput(f"'{text}' is no override: key=value")


def preview(
    script: Path, checkout: Path, module: str, env: Mapping[str, str], arguments: Sequence[str], device: str = "cuda"
) -> Preview:
    """What ``script`` would start with this environment. Raises Blocked when it ends before it starts the trainer."""
    with tempfile.TemporaryDirectory(prefix="mvp-e2e-") as folder:
        tools, record = Path(folder, "bin"), Path(folder, "commands")
        tools.mkdir()
        for name in HARMLESS:
            if found := shutil.which(name, path="/usr/bin:/bin"):
                (tools / name).symlink_to(found)
        recorder = tools / "mvp-record"
        recorder.write_text(_RECORDER.format(record=record, device=device))
        recorder.chmod(0o755)
        start = Path(folder, "start")
        start.write_text('command_not_found_handle() { mvp-record "$@"; }\n')
        bash = shutil.which("bash") or "/bin/bash"
        limited = {
            **env,
            "PATH": str(tools),
            "BASH_ENV": str(start),
        }
        try:
            run = subprocess.run(
                [bash, "-r", str(script), *arguments],
                cwd=checkout,
                env=limited,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise Blocked(f"{script} did not come to starting {module} within {TIMEOUT_S} s, with nothing run") from None
        commands = _commands(record.read_bytes()) if record.exists() else []
    for pythonpath, *argv in reversed(commands):
        if "-m" in argv and module in argv[argv.index("-m") :]:
            return Preview(argv, pythonpath, module)
    # bash names the script in what it says itself; of the script's own words the last tell why it gave up.
    said = [line for line in (run.stdout + run.stderr).decode(errors="replace").splitlines() if line and not line.startswith("+")]
    raise Blocked(
        f"{script.name} never starts {module} with this environment (exit code {run.returncode})"
        + (f": {said[-1]}" if said else ""),
        hint="bash -n and the checkout's own documentation; another revision of the checkout",
    )


def _commands(record: bytes) -> list[list[str]]:
    words = [os.fsdecode(word) for word in record.split(b"\0")]
    found, at = [], 0
    while at < len(words) - 1:
        count = int(words[at])
        found.append(words[at + 1 : at + 1 + count])
        at += count + 1
    return found
