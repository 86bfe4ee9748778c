"""Run the console examples of the documentation; prints a line for each block that fails, and exits with 1 then.

usage: doc_examples.py [FOLDER]     the project, or a folder with pages to test this script

Blocks below a comment ``<!-- needs … -->`` are not run. All others must have one of the harmless forms, and exit with 0 or with
the code that a comment ``# exit code N`` gives. They run in the project's folder, one bash for each block.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import doc_pages
from doc_pages import Block

from mvp_helpers.base.project import PROJECT

HARMLESS = re.compile(
    r"""(?x)
    (\w+=\S+\ )*\./scripts/\w+\.sh\ (WORDS\ )?(--help|--dry-run|--plan|--list)(\ WORDS)?
    | (\w+=\S+\ )*\./scripts/(30_prepare_data_and_model|31_snapshot_verl_code)\.sh
    | \./scripts/(55_explain|62_e2e_triage)\.sh\ tests/unit/logs/\S+(\ --json)?
    | \.venv/bin/(pytest\ tests/unit/\S+\ -k\ \w+ | bats\ -f\ '[^']+'\ tests/bats/\w+\.bats | ruff\ check\ \w+)
    | export\ [^`(;&|]* | eval\ "\$\(python3\ -m\ mvp_helpers\ cluster\ \w+\)"
    | python3\ -m\ mvp_helpers\ (list | \S+\ --help | submit\ --dry-run\ WORDS)
    | make\ help
    """.replace("WORDS", r"[^;&|`$]*")
)


def problem(block: Block) -> str:
    """Run one block; return why it failed, or an empty string."""
    script = []
    for line in block.commands:
        command, _, comment = line.partition(" # ")
        command = command.strip()
        if not HARMLESS.fullmatch(command):
            return f"not run: {command}\n  write <!-- needs ... --> above the block, or give it a form that needs nothing"
        code = re.search(r"exit code (\d+)", comment)
        script.append(f'{command} || {{ code=$?; ((code == {code[1]})) || exit "$code"; }}' if code else command)
    done = subprocess.run(
        ["bash", "-ec", "\n".join(script)], cwd=PROJECT, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return f"exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}" if done.returncode else ""


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT
    for name in [name for name in os.environ if name.startswith("BATS_")]:
        del os.environ[name]  # an example may run a test
    failed, ran = 0, 0
    for page in doc_pages.pages(root):
        for block in page.blocks:
            if not block.commands or block.needs:
                continue
            ran += 1
            if text := problem(block):
                failed += 1
                print(f"{block.page}:{block.line}: {text}")
    print(f"{ran} blocks, {failed} failed")
    return int(failed > 0 or ran == 0)


if __name__ == "__main__":
    sys.exit(main())
