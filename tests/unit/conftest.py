"""Shared by the unit tests: a small shared root with a code snapshot, data and a model, as scripts 30 and 31 leave them.

``pytest --no-processes`` (``make quick``) skips every test at the moment it starts a process.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toys import ECHO, TRAINER_CONFIG, WORKLOAD, write_model, write_parquet

from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import cluster_file
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.diagnosis import signatures
from mvp_helpers.prepare import snapshot
from mvp_helpers.record import reconcile

if not cluster_file.SAFE_PATH.fullmatch(str(PROJECT)):
    # In a folder with a space in its path the cluster files' own default is refused, and the message asks for this.
    os.environ.setdefault("MVP_SHARED_ROOT", "/tmp/mvp-private")


@pytest.fixture
def shared(tmp_path: Path) -> SharedRoot:
    """A shared root with the snapshot ``codeA`` (a toy verl), a dataset and a model."""
    root = tmp_path / "shared"
    code = tmp_path / "src"
    config = code / "verl" / "trainer" / "config"
    config.mkdir(parents=True)
    (code / "verl" / "__init__.py").write_text("__version__ = '0'\n")
    (config / "toy.yaml").write_text(TRAINER_CONFIG)
    root.mkdir()
    snapshot.snapshot(snapshot.Source(path=code), SharedRoot(root), "codeA")
    data = root / "datasets" / "gsm8k"
    data.mkdir(parents=True)
    write_parquet(data / "train.parquet", rows=20)
    write_model(root / "common" / "models" / "tiny")
    return SharedRoot(root)


@pytest.fixture
def workloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of workload files of the test's own: ``toy`` (Hydra, as PPO) and ``echo`` (a plain command)."""
    folder = tmp_path / "workloads"
    folder.mkdir()
    (folder / "toy.yaml").write_text(WORKLOAD)
    (folder / "echo.yaml").write_text(ECHO)
    monkeypatch.setenv("MVP_WORKLOADS", str(folder))
    return folder


@pytest.fixture
def cluster(shared: SharedRoot) -> Cluster:
    """The local cluster's settings over that shared root."""
    local = cluster_file.load("local")
    return msgspec.structs.replace(local, shared_root=str(shared.root), state_dir=str(shared.root.parent / "state"))


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost job's ending is written at once: a test that has no job runner need not wait for one."""
    monkeypatch.setattr(reconcile, "GRACE_S", 0.01)


@pytest.fixture(scope="session", autouse=True)
def signatures_read_once() -> Iterator[None]:
    """The signatures take 0.1 s to read and check: too long for each of the hundreds of logs in the tests."""
    read = signatures.load
    with pytest.MonkeyPatch.context() as patch:
        shipped = functools.cache(read)
        patch.setattr(signatures, "load", lambda *file: read(*file) if file else shipped())
        yield


@pytest.fixture
def replace() -> Callable[..., Any]:
    """``msgspec.structs.replace``, untyped: a copy with some fields changed."""
    return msgspec.structs.replace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put verl's tests first: a process imports verl once, and the plugin must be there then."""
    items.sort(key=lambda item: item.path.name != "test_verl_cpu.py")


# -- without processes

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "os.spawn"}
"""Audit events (https://docs.python.org/3/library/audit_events.html) that announce a new process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-processes", action="store_true", help="skip every test that starts a process")
    parser.addoption("--write-plans", action="store_true", help="write the reviewed plans (plan/test_shapes.py) anew")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--no-processes"):
        config.pluginmanager.register(NoProcesses())


class NoProcesses:
    """Refuses every process. Nothing has to be marked, so no mark can be wrong."""

    def __init__(self) -> None:
        self.refused = ""
        """The program that the current test wanted to start; "" for none."""

    def pytest_collection_finish(self) -> None:
        """From here on: with ``-n``, pytest itself starts processes before."""
        sys.addaudithook(self._refuse)

    def _refuse(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in STARTS:
            self.refused = " ".join([event, *map(str, arguments[:1])])
            self._skip()

    def _skip(self) -> None:
        # Not an Exception: code that survives any error of a child process must not survive this.
        pytest.skip(f"starts a process: {self.refused}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        self.refused = ""
        yield from self._skip_if_refused()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        yield from self._skip_if_refused()

    def _skip_if_refused(self) -> Iterator[None]:
        """Skip the test also when a thread was refused, or the code under test went on without its process."""
        try:
            yield
        finally:
            if self.refused:
                self._skip()
