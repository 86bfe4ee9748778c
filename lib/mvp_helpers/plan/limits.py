"""What a JobSpec may contain at most, so that none exhausts a machine or fails only when Linux, Ray or Hydra gets it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..base.documents import Limits
from ..base.errors import BadInput, did_you_mean
from ..cluster.cluster_file import Cluster

DOCUMENT = Limits(size=256 << 10, values=2000, depth=20, number=(1 << 63) - 1)
LONGEST_PATH, LONGEST_NAME = 4000, 255
"""Linux: 4096 bytes for a path with its NUL and the names below a folder; 255 bytes for one name."""
LONGEST_ARGUMENT = 127 << 10
"""Linux passes no argument or variable of 128 KiB to a process; Ray adds some bytes to its own."""
LONGEST_WAIT_S = 7 * 24 * 3600
OVERRIDES, OVERRIDES_SIZE = 1000, 32 << 10
"""Hydra's parser takes a second for as much: overrides, with the items of their lists and mappings; bytes."""
INTERPOLATED = 1000
"""Values that one interpolation may lead to. OmegaConf resolves each of them again, so that ``${a}${a}`` doubles the work."""
_NESTING = {"[": 1, "{": 1, "(": 1, "]": -1, "}": -1, ")": -1}


def check_path(field: str, value: str, source: str) -> None:
    """Raise BadInput for a path that no file can have."""
    if len(value.encode(errors="surrogatepass")) > LONGEST_PATH:
        raise BadInput(f"{source}: {field} has {len(value)} characters; a path has {LONGEST_PATH} bytes at most")
    if any(len(part.encode(errors="surrogatepass")) > LONGEST_NAME for part in value.split("/")):
        raise BadInput(f"{source}: {field} contains a name of more than {LONGEST_NAME} bytes: {value[:60]}…")


def check_overrides(texts: Sequence[str], source: str) -> None:
    """Raise BadInput for more, larger or deeper overrides than Hydra can read within seconds."""
    origin = f"{source}: trainer_overrides"
    items = sum(1 + text.count(",") for text in texts)
    size = sum(len(text.encode(errors="surrogatepass")) for text in texts)
    if items > OVERRIDES or size > OVERRIDES_SIZE:
        raise BadInput(
            f"{origin}: {items} overrides and items of lists with {size} bytes; at most {OVERRIDES} with {OVERRIDES_SIZE}",
            hint="put long lists into a file that the trainer reads",
        )
    for text in texts:
        key = text.partition("=")[0]
        if len(key) > LONGEST_NAME or key.count(".") >= DOCUMENT.depth or _depth(text) > DOCUMENT.depth:
            raise BadInput(
                f"{origin}: '{text[:60]}…' has a long key, or more than {DOCUMENT.depth} levels", hint="write fewer levels"
            )
    _check_interpolations(texts, origin)


def _depth(text: str) -> int:
    level = deepest = 0
    for character in text:
        level += _NESTING.get(character, 0)
        deepest = max(deepest, level)
    return deepest


def _check_interpolations(texts: Sequence[str], origin: str) -> None:
    """Raise BadInput when values lead to ever more values through interpolations (names are compared by their last part)."""
    uses: dict[str, list[str]] = {}
    for text in texts:
        key, _, value = text.partition("=")
        if "${" in value:
            words = re.findall(r"[\w.]+", value)
            uses.setdefault(key.rpartition(".")[2].lstrip("+~"), []).extend(word.rpartition(".")[2] for word in words)
    work = dict.fromkeys(uses, 1)
    for _ in uses:
        work = {key: 1 + sum(work.get(word, 0) for word in words) for key, words in uses.items()}
        if largest := next((key for key, size in work.items() if size > INTERPOLATED), None):
            raise BadInput(
                f"{origin}: the interpolations of '{largest}' lead to more than {INTERPOLATED} values, or in a circle",
                hint="write the values themselves",
            )


def check_resources(requested: Mapping[str, int | float], cluster: Cluster, source: str) -> None:
    """Raise BadInput for resources that no worker of this cluster offers, by its cluster file, or that Ray would not take."""
    offered = cluster.worker.resources
    for name, amount in requested.items():
        origin = f"{source}: resources.entrypoint_resources"
        if name not in offered and ":" not in name:  # node:IP and accelerator_type:X are Ray's own
            raise BadInput(
                f"{origin}: no worker of cluster '{cluster.name}' offers {name[:LONGEST_NAME]!r}{did_you_mean(name, offered)}",
                hint=f"{', '.join(offered)}; for CPUs entrypoint_num_cpus",
            )
        if amount > offered.get(name, 1):
            raise BadInput(f"{origin}: {name[:LONGEST_NAME]}={amount:g}, but a worker offers {offered.get(name, 1):g}")


def check_amount(name: str, amount: int | float, source: str) -> None:
    """Raise BadInput unless Ray takes this amount of a resource: finite, not negative, and whole above 1."""
    origin = f"{source}: resources.{name} is {amount:g}, but an amount must be"
    if not 0 <= amount < float("inf"):  # YAML has .nan and .inf
        raise BadInput(f"{origin} a number of at least 0")
    if amount > 1 and amount != int(amount):
        raise BadInput(f"{origin} a whole number when it is above 1", hint=str(int(amount)))


def check_arguments(argv: Sequence[str], source: str) -> None:
    """Raise BadInput when Linux would refuse to start the submission or the trainer with these arguments."""
    longest = max(argv, key=len)
    size = len(longest.encode(errors="surrogateescape"))
    if size > LONGEST_ARGUMENT:
        raise BadInput(
            f"{source}: env_vars and the rest of a command line have {size} bytes; at most {LONGEST_ARGUMENT} can be passed",
            hint="put long values into a file, and its path into env_vars",
        )
