"""Whatever is in the files that are read back: one line and an exit code, and the other jobs are shown as before.

Every file of a finished job is damaged in ways that Hypothesis draws, and the verbs that read it are run as a person runs them.
"""

from __future__ import annotations

import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import (
    DrawFn,
    binary,
    booleans,
    composite,
    dictionaries,
    floats,
    integers,
    lists,
    none,
    recursive,
    sampled_from,
    text,
)
from truthful_job import change_result
from two_jobs import EXIT_CODES, OTHER, VICTIM, root

from mvp_helpers import cli
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.base.times import now
from mvp_helpers.record.job_folder import State

__all__ = ["root"]
VERBS = (("status", "--json"), ("status",), ("list",), ("verify", VICTIM, OTHER), ("explain", VICTIM))
VERBS_OF_FILE = {
    "driver.log": (("logs", VICTIM),),
    "driver.times": (("logs", VICTIM, "--since", "1h"),),
    "metrics.jsonl": (("trend", VICTIM),),
    "provenance.json": (("checkpoints", OTHER), ("checkpoints", "--all")),
    "checkpoint": (("checkpoints", VICTIM),),
    "result.json": (("logs", VICTIM), ("trend", VICTIM)),
}
STATES: tuple[State, ...] = ("SUCCEEDED", "RUNNING", "STOPPED", "BLOCKED", "FAILED")
BOUNDED = settings(
    max_examples=4,  # of each file, beside those of its whole content
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),  # they judge speed, and fixtures that are made once
)
VALUES = (
    *(
        None,
        True,
        -1,
        0,
        1e300,
        10**17,
        10**30,
        "",
        "x",
        "\0",
        "\ud800",
        "../../x",
        "\x1b[2J",
        "2026-13-45T99:99:99Z",
        "x" * 70_000,
    ),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": []}}, [{"submission_id": VICTIM}]),
)
PLAIN = recursive(
    none() | booleans() | integers() | floats() | text(), lambda inner: lists(inner) | dictionaries(text(), inner), max_leaves=5
)
PIECES = (b"", b"\0", b"\xff", b"\xed\xa0\x80", b"\n", b"[" * 2_000, b"9" * 30, b'"')
NAMES = (binary(min_size=1, max_size=200) | text(min_size=1, max_size=60).map(str.encode)).filter(
    lambda name: not {*name} & {*b"\0/"} and name not in (b".", b"..")
) | sampled_from([b"2026-01-31T101500.000Z_", b"9999-99-99T999999.999Z_victim", b"_", VICTIM.encode() + b"\n", b".hidden"])
CONTENTS = {
    "brackets": b"[" * 100_000,
    "a mapping": b"{}",
    "infinity": b"1e400",
    "half a character": b'"\\ud800"',
    "no text": bytes(range(256)) * 40,
    "a long line": b"x" * 2_000_000,
    "a YAML alias of itself": b"&a [*a]",
}
PLACES: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "missing": lambda path: None,
}

QUICKLY = ("brackets", "no text", "a long line", "a link to itself", "missing")
"""What make test tries, three seconds for each; the others are nightly."""


def read_back(root: SharedRoot) -> Iterator[Path]:
    """Every file of the victim that some verb reads, one of each kind."""
    folder = root.job(VICTIM)
    seen = set()
    for path in sorted(folder.path.rglob("*")):
        kind = path.suffix if folder.checkpoints in path.parents else path.name
        if folder.imports in path.parents:
            kind = "import"
        if path.is_file() and kind not in seen:
            seen.add(kind)
            yield path
    yield root.jobs / ".chains" / "ended" / f"{VICTIM}.json"


@composite
def contents(draw: DrawFn, path: Path, good: bytes) -> bytes:
    """The content of a file with one thing in it changed: a value of a document, or a piece of the text."""
    if path.suffix in (".json", ".yaml", ".jsonl") and draw(integers(0, 3)):
        lines = good.splitlines(keepends=True) if path.suffix == ".jsonl" else [good]
        at = draw(integers(0, len(lines) - 1))
        document = [yaml.safe_load(lines[at])] if path.suffix == ".yaml" else [json.loads(lines[at])]
        _replace(document, draw)
        text = yaml.safe_dump(document[0]) if path.suffix == ".yaml" else json.dumps(document[0])
        lines[at] = text.replace("Infinity", draw(sampled_from(["1e400", "Infinity"]))).encode(errors="surrogatepass") + b"\n"
        return b"".join(lines)
    begin = draw(integers(0, len(good)))
    end = draw(sampled_from([begin, begin + 1, begin + 10, begin + 1_000, len(good)]))
    return good[:begin] + draw(sampled_from([*PIECES, good[:100]]) | binary(max_size=100)) + good[end:]


def _replace(holder: Any, draw: DrawFn) -> None:
    """Replace one value somewhere inside ``holder``."""
    key = draw(sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
    if isinstance(holder[key], (dict, list)) and holder[key] and draw(integers(0, 4)):
        _replace(holder[key], draw)
    else:
        holder[key] = draw(sampled_from(VALUES) | PLAIN)


def look(capfd: pytest.CaptureFixture[str], path: Path, what: str) -> Iterator[str]:
    """Run every verb; yield what is wrong: none may raise, and the other job is as good as before."""
    for verb in (*VERBS, *VERBS_OF_FILE.get("checkpoint" if "checkpoints" in path.parts else path.name, ())):
        run = f"{' '.join(verb)} with {path.name}: {what}"
        try:
            code = cli.main(list(verb))
        except BaseException as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            yield f"{run}: {type(error).__name__}: {error} ({at.filename}:{at.lineno})"[:500]
            capfd.readouterr()
            continue
        out, errors = capfd.readouterr()
        if code not in EXIT_CODES or any(sign in out + errors for sign in ("\x1b", "\0", "\udcff", "Traceback")):
            yield f"{run}: exit code {code}: {out[-300:]!r} {errors[-300:]!r}"
        if verb == ("status", "--json"):
            [row] = [row for row in json.loads(out, parse_constant=pytest.fail)["jobs"] if row["id"] == OTHER]
            if (row["state"], row["value"]) != ("SUCCEEDED", 0.5):
                yield f"{run}: {row}"
        elif verb == ("list",) and f"{OTHER}\tSUCCEEDED" not in out:
            yield f"{run}: {out}{errors}"


def test_no_content_of_a_file_harms_more_than_its_job(root: SharedRoot, capfd: pytest.CaptureFixture[str]) -> None:
    folder = root.job(VICTIM)
    assert not [*look(capfd, folder.path, "nothing damaged")]
    for path in list(read_back(root)):
        good, result = path.read_bytes(), folder.result.read_bytes()
        _try_contents(folder, path, good, capfd)
        path.write_bytes(good)
        folder.result.write_bytes(result)


def _try_contents(folder: JobFolder, path: Path, good: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    @BOUNDED
    @given(state=sampled_from(STATES), content=contents(path, good))
    def harms_only_its_job(state: State, content: bytes) -> None:
        if path != folder.result:
            change_result(folder, state=state, ended_at=None if state == "RUNNING" else now(), reason="the end\x1b[2J\r\0")
        path.write_bytes(content)
        assert not [*look(capfd, path, f"{content[:2_000]!r} of a job that is {state}")]

    harms_only_its_job()


@pytest.mark.parametrize("place", ["job_index", "active_jobs"])
def test_no_name_among_the_jobs_harms_the_jobs(root: SharedRoot, capfd: pytest.CaptureFixture[str], place: str) -> None:
    @BOUNDED
    @given(name=NAMES, kind=sampled_from([Path.touch, *PLACES.values()]))
    def harms_no_job(name: bytes, kind: Callable[[Path], object]) -> None:
        path = getattr(root, place) / os.fsdecode(name)
        kind(path)
        try:
            assert not [*look(capfd, path, f"among {place}: {name!r}")]
        finally:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    harms_no_job()


@pytest.mark.parametrize(
    "what", [each if each in QUICKLY else pytest.param(each, marks=pytest.mark.nightly) for each in (*CONTENTS, *PLACES)]
)
def test_no_whole_file_harms_more_than_its_job(root: SharedRoot, capfd: pytest.CaptureFixture[str], what: str) -> None:
    problems = []
    for path in list(read_back(root)):
        good = path.read_bytes()
        path.unlink()
        path.write_bytes(CONTENTS[what]) if what in CONTENTS else PLACES[what](path)
        problems += look(capfd, path, what)
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.write_bytes(good)
    assert not problems, "\n".join(problems)
