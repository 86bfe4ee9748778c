"""A small world of its own for each test of the end-to-end engine: copies of checkouts that are made once."""

from __future__ import annotations

import functools
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import composing
import e2e_checkouts as fixtures
import pytest

from mvp_helpers.base.paths import E2eRun
from mvp_helpers.e2e import procedure, run_folders
from mvp_helpers.e2e.context import Context
from mvp_helpers.e2e.execute import Outcome
from mvp_helpers.e2e.procedure import Procedure
from mvp_helpers.e2e.requests.request import Request, request_from
from mvp_helpers.e2e.step import Step
from mvp_helpers.e2e.steps import environment, imports

ENDED = Outcome(ended="exit", exit_code=0, seconds=0.1)


class World:
    """Checkouts, a home with data and models, and a shell's environment, all below ``root``."""

    def __init__(self, root: Path, originals: Path, shared: bool = False) -> None:
        self.root, self._originals, self._shared = root, originals, shared
        # The name of a run's folder marks its processes, which a run of the same name would end.
        self._own = secrets.token_hex(4)
        self.run_folder = root / "runs" / f"run-{self._own}"
        self.said: list[str] = []
        self.env = fixtures.shell(self.home, root / "bin") | {
            "BRIDGE_REPO": str(self.bridge),
            "VERL_REPO": str(self.verl),
            "TOY_REPO": str(self.toy),
            "NEMO_RL_REPO": str(self.nemo_rl),
        }

    def _copy(self, name: str) -> Path:
        if self._shared:
            return self._originals / name
        return Path(shutil.copytree(self._originals / name, self.root / name, symlinks=True))

    bridge = functools.cached_property(lambda self: self._copy("bridge"))
    verl = functools.cached_property(lambda self: self._copy("verl"))
    toy = functools.cached_property(lambda self: self._copy("toy"))
    nemo_rl = functools.cached_property(lambda self: self._copy("nemo_rl"))
    home = functools.cached_property(lambda self: self._copy("home"))

    def request(self, levels: str = "0", variants: tuple[str, ...] = (), model: str = "", **options: Any) -> Request:
        options = {"description": "verl", "timeout_s": 60.0, "stall_s": 30.0, **options}
        return request_from(
            options.pop("description"), levels, list(variants), model, self.env | options.pop("env", {}), **options
        )

    def toy_request(self, levels: str = "0", **options: Any) -> Request:
        return self.request(levels, description=str(fixtures.TOY / "toy.yaml"), **options)

    def context(self, request: Request, run: str = "run", **env: str) -> Context:
        """A run whose folder is made when a step writes into it."""
        return Context(E2eRun(self.run_folder.with_name(f"{run}-{self._own}")), request, self.env | env, self.said.append)

    def procedure(self, request: Request, **env: str) -> Procedure:
        return Procedure(Context(run_folders.new(self.root / "runs", request), request, self.env | env, self.said.append))

    def step(self, name: str, request: Request | None = None, context: Context | None = None, **env: str) -> Step:
        """Do one step of a run and nothing else."""
        context = context or self.context(request or self.request(), **env)
        action = next(action for action in procedure.actions(context) if action.name == name)
        return Procedure(context).do(action)


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkouts and the home that every world copies; no test writes into them."""
    root = tmp_path_factory.mktemp("originals")
    fixtures.make_bridge(root / "bridge")
    fixtures.make_verl(root / "verl")
    fixtures.make_toy(root / "toy")
    fixtures.make_nemo_rl(root / "nemo_rl")
    fixtures.make_home(root / "home")
    return root


@pytest.fixture
def world(tmp_path: Path, originals: Path) -> World:
    return World(tmp_path, originals)


@pytest.fixture
def reading(tmp_path: Path, originals: Path) -> World:
    """A world without copies, for tests that change no file of it."""
    return World(tmp_path, originals, shared=True)


@pytest.fixture(autouse=True)
def hydra_in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, originals: Path) -> None:
    composing.in_this_process(monkeypatch, {str(tmp_path): "@WORLD@", str(originals): "@ORIGINALS@"})


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give the interpreter's answers to the steps "environment" and "imports", which one test gets from real processes."""

    def give(missing: tuple[str, ...] = (), **modules: str) -> None:
        def ask(*arguments: Any, **options: Any) -> tuple[dict[str, Any], Outcome]:
            here = {"version": "3.11.0", "python": "/usr/bin/python3", "host": "gpu-1", "files": modules, "errors": {}}
            ray = {"workers": {"gpu-1 (0a1b2c3d)": here}, "nodes": 1, "gpus_of_a_node": 8}
            return {"driver": here, "ray": ray, "missing": list(missing)}, ENDED

        monkeypatch.setattr(imports, "ask", ask)

    return give


@pytest.fixture
def quick(answers: Callable[..., None], world: World) -> None:
    """Imports that prove themselves."""
    below = {
        "megatron.bridge": world.bridge / "src/megatron/bridge",
        "megatron.core": world.bridge / "3rdparty/Megatron-LM/megatron",
    }
    below |= {"verl": world.verl / "verl", "toytrain": world.toy / "toytrain", "nemo_rl": world.nemo_rl / "nemo_rl"}
    answers(**{name: str((folder / "__init__.py").resolve()) for name, folder in below.items()})
    assert environment.imports is imports


@pytest.fixture
def no_tests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Focused tests that pass without pytest, for runs that are about something else."""
    from mvp_helpers.e2e.step import step_of
    from mvp_helpers.e2e.steps import tests

    monkeypatch.setattr(tests, "run", lambda context, place, tests: step_of("Pass", "2 passed"))
    yield
