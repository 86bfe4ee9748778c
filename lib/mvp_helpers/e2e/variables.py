"""Which variables a run's script gets: the procedure's, the user's that it passes on, and the machine's; any other is unset."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from .requests.description import Description
from .requests.levels import Planned

MACHINE = re.compile(
    r"HOME|PATH|USER|LOGNAME|SHELL|LANG|LC_\w+|TERM|TMPDIR|PWD|HOSTNAME|LD_LIBRARY_PATH|VIRTUAL_ENV|CONDA_\w+|PYTHON\w*|XDG_\w+"
    r"|(?i:https?|no|all)_(?i:proxy)|(CUDA|HIP|ROCR|NVIDIA|HF|TRANSFORMERS|TOKENIZERS|NCCL|GLOO|UCX|NVTE|VLLM|SGLANG|RAY|TORCH"
    r"|PYTORCH|TRITON|UV|VERL|NEMO_RL|NRL|OMP|MKL|TQ|SSL)_\w+"
)
"""Variables that describe the machine and its software, not what a run trains: they reach the script as they are."""
SESSION = re.compile(
    r"_|USER|LOGNAME|MAIL|SHELL|SHLVL|LANG|TERM\w*|COLORTERM|COLUMNS|LINES|(OLD)?PWD|HOSTNAME|DISPLAY|WAYLAND_DISPLAY|LS_COLORS|LESS\w*|PAGER"
    r"|EDITOR|VISUAL|HIST\w+|PS\d|PROMPT_COMMAND|INVOCATION_ID|(SSH|DBUS|TMUX|XDG_SESSION|VSCODE|GIT_ASKPASS|BASH_FUNC|MVP|E2E)(_.*)?"
    r"|NV_\w+|NVIDIA_REQUIRE_\w+"
)
"""Variables that reach the trainer too, and that only the user's terminal, this project, or an image itself needs: commands leave
them out."""


def unused(one: Planned, read: Collection[str], shell: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the user's shell that the script would ``read`` although the procedure decides them."""
    return {
        name: value
        for name, value in shell.items()
        if name in read and not MACHINE.fullmatch(name) and one.env.get(name) != value
    }


def shown(one: Planned, read: Collection[str], env: Mapping[str, str]) -> dict[str, str]:
    """Return what the run's command needs in an empty shell: what reaches the trainer, except what belongs to the session."""
    return {name: value for name, value in env.items() if name in read or name in one.env or not SESSION.fullmatch(name)}


def _replaced(description: Description, name: str, values: Mapping[str, str], read: Collection[str]) -> bool:
    """Tell whether the script reads the variable that took this one's place, and the user chose its value."""
    return (new := description.replaced_by.get(name, "")) in values and new in read


def overrides(description: Description, values: Mapping[str, str], read: Collection[str]) -> list[str]:
    """Return overrides in place of variables that the script does not read; ``values``: every variable of the run."""
    return [
        f"{key}={value}"
        for name, value in values.items()
        if name not in read and description.harmless.get(name) != value and not _replaced(description, name, values, read)
        for key in description.equivalents.get(name, ())
    ]


def unread(
    description: Description, one: Planned, read: Collection[str], users: Collection[str], script: str
) -> tuple[list[str], list[str], dict[str, str]]:
    """Return problems, notes, and a sentence for each of the ``users`` variables without effect, of those that ``script`` does
    not read."""
    problems, notes, ignored = [], [], {}
    elsewhere = {description.model.id_variable, *description.folders}
    elsewhere |= {description.preparation.source_variable} if description.preparation else set()
    decided = {*one.run.env, description.step_count.variable}
    for name, value in one.env.items():
        if name in read or name in elsewhere or _replaced(description, name, one.env, read):
            continue
        if description.harmless.get(name) == value:
            notes.append(f"{name} is not read by this revision, which always behaves like {name}={value}")
        elif keys := description.equivalents.get(name):
            notes.append(f"{name} is not read by {script}: {', '.join(keys)} is set instead")
        elif name in users and name not in decided:
            ignored[name] = f"{name}={value} has no effect: {script} of this revision does not read it"
        else:
            problems.append(f"{script} of this revision does not read {name}: it would ignore {name}={value} silently")
    return problems, notes, ignored


def words(unused: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each variable of the shell that is unset for some run."""
    every = {name: value for of_run in unused for name, value in of_run.items()}
    return [f"{name}={value} of your shell is not used: the procedure decides it" for name, value in sorted(every.items())]
