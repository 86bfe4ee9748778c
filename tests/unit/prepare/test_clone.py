"""Script 31 with ``code.source: git``: the real git against a server of its own on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mvp_helpers.base import git
from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import cluster_file
from mvp_helpers.cluster.cluster_file import Code
from mvp_helpers.prepare import snapshot
from mvp_helpers.prepare.snapshot import Snapshot, Source


def quiet(_: str) -> None:
    pass


def run_git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of a small verl: its first commit is the tag v0.9.1, its second the branch main."""
    folder = tmp_path_factory.mktemp("upstream") / "verl"
    (folder / "verl" / "version").mkdir(parents=True)
    (folder / "verl" / "__init__.py").write_text("")
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    for version, tag in (("0.9.1", "v0.9.1"), ("0.10.dev", "")):
        (folder / "verl" / "version" / "version").write_text(version)
        run_git(folder, "add", ".")
        run_git(folder, "commit", "--quiet", "--message", version)
        if tag:
            run_git(folder, "tag", tag)
    return folder


@pytest.fixture(scope="module")
def url(upstream: Path) -> Iterator[str]:
    """A git daemon that serves it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = ["git", "daemon", "--export-all", f"--base-path={upstream.parent}", "--listen=127.0.0.1", f"--port={port}"]
    daemon = subprocess.Popen([*command, "--reuseaddr", "--informative-errors"], start_new_session=True)
    place = f"git://127.0.0.1:{port}/verl"
    for _ in range(100):
        if subprocess.run(["git", "ls-remote", place], capture_output=True).returncode == 0:
            break
        time.sleep(0.05)
    yield place
    os.killpg(daemon.pid, signal.SIGTERM)
    daemon.wait()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "work" / "verl"


def take(target: Path, url: str, revision: str, shared: SharedRoot) -> Snapshot:
    return snapshot.snapshot(Source(target, clone_from=url, revision=revision), shared)


@pytest.mark.parametrize(("revision", "version"), [("v0.9.1", "0.9.1"), ("main", "0.10.dev")])
def test_a_missing_checkout_is_cloned_at_a_tag_or_branch(
    url: str, upstream: Path, target: Path, shared: SharedRoot, revision: str, version: str
) -> None:
    made = take(target, url, revision, shared)
    assert made.code_id.startswith(f"verl-{version}-")
    assert made.source["git"]["commit"] == run_git(upstream, "rev-parse", revision).strip()
    assert os.listdir(target.parent) == ["verl"], "a lock or a temporary folder was left behind"


def test_a_commit_may_be_named_instead_also_a_short_one(url: str, upstream: Path, target: Path, shared: SharedRoot) -> None:
    first = run_git(upstream, "rev-parse", "v0.9.1").strip()
    assert take(target, url, first, shared).source["git"]["commit"] == first
    assert take(target.with_name("short"), url, first[:8], shared).source["git"]["commit"] == first


def test_a_folder_on_this_host_can_be_cloned(upstream: Path, target: Path, shared: SharedRoot) -> None:
    assert take(target, str(upstream), "v0.9.1", shared).code_id.startswith("verl-0.9.1-")


def test_an_empty_folder_is_filled_and_a_checkout_is_used_as_it_is(url: str, target: Path, shared: SharedRoot) -> None:
    target.mkdir(parents=True)
    take(target, url, "v0.9.1", shared)
    (target / "verl" / "mine.py").write_text("")
    said: list[str] = []
    source = Source(target, clone_from="git://127.0.0.1:9/never-asked", revision="v0.9.1")
    made = snapshot.snapshot(source, shared, say=said.append)
    assert (made.path / "verl" / "mine.py").is_file() and not any("not at" in line for line in said)
    run_git(target, "commit", "--allow-empty", "--quiet", "--message", "mine")
    snapshot.snapshot(source, shared, say=said.append)
    assert f"{target} is not at v0.9.1 (code.revision in the cluster file): used as it is" in said


def test_a_dry_run_says_what_it_would_clone_and_clones_nothing(target: Path, shared: SharedRoot) -> None:
    said: list[str] = []
    source = Source(target, clone_from="https://me:secret@example.org/verl", revision="v0.9.1")
    assert snapshot.snapshot(source, shared, dry_run=True, say=said.append).created
    assert said == [f"would clone https://example.org/verl at v0.9.1 into {target}"] and not target.parent.exists()
    snapshot.plan(source, shared, None, said.append)
    assert said[1] == f"would take {target}; if it is missing: cloned from https://example.org/verl at v0.9.1"


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("v0.9.2", r"has no tag, branch or commit 'v0\.9\.2' \(did you mean 'v0\.9\.1'\?\)"),
        ("abcdef12", "has no tag, branch or commit 'abcdef12': "),
        ("d" * 40, "has no tag, branch or commit 'd{40}': "),
    ],
)
def test_a_revision_that_does_not_exist_is_bad_input_and_leaves_nothing(
    url: str, target: Path, shared: SharedRoot, revision: str, message: str
) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        take(target, url, revision, shared)
    assert "code.revision" in caught.value.hint and os.listdir(target.parent) == []


@pytest.mark.parametrize(
    "place", ["file://me:secret@/nowhere", "git://127.0.0.1:9/verl", "http://me:secret@127.0.0.1:9/verl", "/nowhere"]
)
def test_a_clone_that_fails_blocks_with_one_message_and_leaves_nothing(place: str, target: Path, shared: SharedRoot) -> None:
    with pytest.raises(Blocked, match="cannot clone") as caught:
        take(target, place, "v0.9.1", shared)
    assert "secret" not in caught.value.show() and "\n" not in caught.value.what and os.listdir(target.parent) == []


SLOW = """#!/bin/sh
[ "$1" = clone ] || exec {git} "$@"
for last; do :; done
mkdir -p "$last"; echo half > "$last/half"; echo $$ > {started}
sleep 60"""


def test_the_remains_of_an_interrupted_clone_are_removed_by_the_next_one(
    url: str, target: Path, shared: SharedRoot, tmp_path: Path
) -> None:
    real = subprocess.run(["which", "git"], capture_output=True, text=True).stdout.strip()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(SLOW.format(git=real, started=tmp_path / "started"))
    (tmp_path / "bin" / "git").chmod(0o755)
    script = "from mvp_helpers.base.git import *; import sys; clone(sys.argv[1], 'main', Path(sys.argv[2]), 60, print)"
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(git.__file__).parents[2]),
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
    }
    process = subprocess.Popen([sys.executable, "-c", script, url, str(target)], env=environment)
    while not (started := tmp_path / "started").exists() or not started.read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert not target.exists() and len(os.listdir(target.parent)) == 2, "a lock and a temporary folder"
    take(target, url, "main", shared)
    assert os.listdir(target.parent) == ["verl"]
    os.killpg(int(started.read_text()), signal.SIGKILL)


def test_the_release_that_is_cloned_by_default_is_the_one_that_is_tested() -> None:
    packages = (PROJECT / "pyproject.toml").read_text()
    assert f'"verl=={Code().revision.removeprefix("v")}"' in packages
    for name in ("dev", "prod"):
        assert cluster_file.load(name).code.revision == Code().revision


def test_a_network_that_drops_packets_is_noticed_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nsleep 60 & wait\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    began = time.monotonic()
    with pytest.raises(Blocked, match="git ls-remote took longer than 0 s"):
        git.clone("https://example.org/x.git", "main", tmp_path / "verl", 0.2, quiet)
    assert time.monotonic() - began < 5
