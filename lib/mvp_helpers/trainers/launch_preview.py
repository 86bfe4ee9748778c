"""Finds out which commands a launch script starts, with which arguments, folder and environment, without starting any of them.

The real script runs in a restricted bash whose PATH contains only tools that read and print; every other command is recorded
instead of run. So a launch is exactly what this revision of the script makes of its variables, with every default and condition.

A restricted bash refuses ``cd``, ``source`` of a path, and every redirection into a file. Scripts need the first two, so
functions replace them: ``cd`` keeps a folder of its own, in which the reading tools run and which each recorded command
carries. (Bash's own tests of relative paths, ``[[ -f x ]]``, still see the folder in which the script was started.)
Redirections into files become redirections to nothing. A function named ``assert…`` judges what a training left, which is nothing
here: its ``exit`` does nothing, so that the trainings after it are seen. What is overlooked
fails inside the restricted bash: it cannot write.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import Blocked

TIMEOUT_S = 30
READING_TOOLS = re.findall(
    r"\w+",
    "awk basename cat cut date dirname echo expr false grep head hostname id ls nproc printf readlink realpath sed seq sort tail"
    " test tr true uname uniq wc",
)
OWN_VARIABLES = {"BASH_ENV", "LAUNCH_PREVIEW_CWD", "LAUNCH_PREVIEW_SED", "PATH", "PWD", "OLDPWD", "SHLVL", "_"}
"""Variables that belong to the preview, not to the recorded command."""

# The count of the words, the words, the folder, then the environment up to an empty entry; one write, so that the two sides of a
# pipe cannot mix. A program on stdin ("-") asks for the device, which is the only answer that a script gets.
_RECORDER = """#!/bin/sh
{{
  printf '%s\\0' "$#" "$@" "$LAUNCH_PREVIEW_CWD"
  /usr/bin/env -0
  printf '\\0'
}} >"{record}.$$"
/bin/cat "{record}.$$" >>"{record}"
for last; do :; done
[ "$last" != - ] || {{ while IFS= read -r _; do :; done; echo "{device}"; }}
"""
_TOOL = """#!/bin/sh
cd -- "$LAUNCH_PREVIEW_CWD" || exit 1
exec {tool} "$@"
"""
_FUNCTIONS = r"""
command_not_found_handle() { mvp-record "$@"; }
cd() {
  local to=${HOME-}
  for to; do :; done
  [[ $to != - ]] || to=${OLDPWD-}
  to=$(realpath -e -- "$to") || return
  OLDPWD=$PWD PWD=$to LAUNCH_PREVIEW_CWD=$to
}
pwd() { printf '%s\n' "$PWD"; }
pushd() { LAUNCH_PREVIEW_DIRS+=("$PWD"); cd "$1"; }
popd() { cd "${LAUNCH_PREVIEW_DIRS[-1]}"; unset 'LAUNCH_PREVIEW_DIRS[-1]'; }
source() {
  local LAUNCH_PREVIEW_SOURCE=("$1") LAUNCH_PREVIEW_TEXT
  LAUNCH_PREVIEW_TEXT=$(sed -E "$LAUNCH_PREVIEW_SED" -- "$1") || return
  shift
  eval "$LAUNCH_PREVIEW_TEXT"
}
.() { source "$@"; }
exit() { [[ ${FUNCNAME[1]-} == assert* ]] || builtin exit "$@"; }
"""
# File descriptor 9 leads to /dev/null. A comparison in [[ ]] or (( )) is not a redirection.
_SED = r"""
s/\bBASH_SOURCE\b/LAUNCH_PREVIEW_SOURCE/g
s@&>{1,2} *"?/dev/null"?@>\&9 2>\&9@g
s@([0-9]?)>{1,2} *"?/dev/null"?@\1>\&9@g
/\[\[|\(\(/!{
s@(^|[[:space:])])&>{1,2} *("[^"]*"|[$/~.A-Za-z_][^[:space:];|&)]*)@\1>\&9 2>\&9@g
s@(^|[[:space:])])([0-9]?)>{1,2}\|? *("[^"]*"|[$/~.A-Za-z_][^[:space:];|&)]*)@\1\2>\&9@g
}
"""


@dataclass(frozen=True)
class Launch:
    """One command that a script starts."""

    argv: list[str]
    cwd: Path
    env: dict[str, str]
    """Its whole environment."""
    after: list[list[str]] = field(default_factory=list)
    """Commands that the script runs after it, before its next training."""


@dataclass(frozen=True)
class Recording:
    """What a script started, in order, and how it ended."""

    commands: list[Launch]
    exit_code: int
    last_line: str
    """The last line that the script printed itself; "" when it printed nothing."""


def variables(script: Path) -> set[str]:
    """Return the names in capitals that the script expands: ``$X``, ``${X:-default}``, ``${X,,}``. Raises Blocked."""
    try:
        text = script.read_text(errors="replace")
    except OSError as error:
        raise Blocked(
            f"cannot read {script}: {error.strerror}",
            hint="check out a revision that has this script, or correct the description",
        ) from None
    return set(re.findall(r"\$\{?!?([A-Z][A-Z0-9_]*)", text))


def record(script: Path, cwd: Path, env: Mapping[str, str], arguments: Sequence[str], device: str) -> Recording:
    """Return what ``script`` would start in ``cwd`` with this environment. Raises Blocked when it does not end."""
    with tempfile.TemporaryDirectory(prefix="mvp-e2e-") as folder:
        record_file = Path(folder, "commands")
        start = _write_tools(Path(folder), record_file, device)
        own = {"PATH": str(start.parent), "BASH_ENV": str(start), "LAUNCH_PREVIEW_CWD": str(cwd), "LAUNCH_PREVIEW_SED": _SED}
        restricted = [shutil.which("bash") or "/bin/bash", "-r", "-c", 'source "$0" "$@"', str(script), *arguments]
        try:
            run = subprocess.run(
                ["/bin/sh", "-c", 'exec "$@" 9>/dev/null', "sh", *restricted],
                cwd=cwd,
                env={**env, **own},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise Blocked(f"the dry run of {script} timed out after {TIMEOUT_S} s", hint=f"bash -x {script}") from None
        commands = list(_commands(record_file.read_bytes(), env)) if record_file.exists() else []
    printed = (run.stdout + run.stderr).decode(errors="replace").splitlines()
    own_lines = [line for line in printed if line and not line.startswith("+")]
    return Recording(commands, run.returncode, own_lines[-1] if own_lines else "")


def _write_tools(folder: Path, record_file: Path, device: str) -> Path:
    """Write the only commands that the script finds; returns the file with which its bash begins."""
    tools = folder / "bin"
    tools.mkdir()
    for name in READING_TOOLS:
        if tool := shutil.which(name, path="/usr/bin:/bin"):
            _write_executable(tools / name, _TOOL.format(tool=tool))
    _write_executable(tools / "mvp-record", _RECORDER.format(record=record_file, device=device))
    start = tools / "start"
    start.write_text(_FUNCTIONS)
    return start


def _write_executable(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def _commands(data: bytes, given: Mapping[str, str]) -> Iterator[Launch]:
    fields = iter([os.fsdecode(field) for field in data.split(b"\0")])
    for count in fields:
        if not count:
            return
        argv = [next(fields) for _ in range(int(count))]
        cwd = Path(next(fields))
        env = {}
        while entry := next(fields):
            name, _, value = entry.partition("=")
            env[name] = value
        kept = {name: value for name, value in env.items() if name not in OWN_VARIABLES}
        yield Launch(argv, cwd, kept | {name: given[name] for name in ("PATH",) if name in given})
