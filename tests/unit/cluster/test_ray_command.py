"""Ray's command line without the parts of other commands: the same command, the same environment, and any other Ray as it is."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
import types
from pathlib import Path

import pytest

from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import ray_command

AFTER_START = """
import contextlib, os, sys
from mvp_helpers.cluster import ray_command
before = dict(os.environ)
ray_command.main_of_ray("start")
left_out = sorted(ray_command.OPTIONAL.keys() - sys.modules.keys())
quick, modules = dict(os.environ), set(sys.modules)
for name in ray_command.OPTIONAL:
    with contextlib.suppress(ImportError):  # serve needs packages that are not installed everywhere
        __import__(name)
print(left_out == sorted(ray_command.OPTIONAL), dict(os.environ) == quick, "pandas" in modules or "fastapi" in modules)
"""
TOLERANT = """
class cli: commands = {"start": None, "stop": None}
try:
    import ray.serve.scripts
    cli.commands["serve"] = None
except ImportError:
    pass
def main(): return sorted(cli.commands)
"""
NEEDS_SERVE = "import ray.serve.scripts\ndef main(): return ['start', 'serve']\n"
MOVED = (
    "try: import ray.serve.scripts as serve\nexcept ImportError: serve = None\ndef main(): return ['start'] if serve else []\n"
)
"""``start`` comes from a module that today only has ``serve``, and the group is not named ``cli``."""
RUN = """
import sys
from mvp_helpers.cluster import ray_command
print(*ray_command.main_of_ray(sys.argv[1])())
import ray.serve.scripts
"""


def run(code: str, *arguments: str, path: Path | None = None) -> list[str]:
    folders = [str(folder) for folder in (path, PROJECT / "lib") if folder]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {folders}\n{code}", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert not ended.returncode, ended.stderr
    return ended.stdout.split()


def test_the_installed_ray_starts_without_the_parts_of_other_commands_and_with_the_same_environment() -> None:
    assert run(AFTER_START) == ["True", "True", "False"]


@pytest.fixture
def ray(tmp_path: Path) -> Path:
    """Make an empty package ``ray`` with a module ``serve.scripts``; return its ``scripts/scripts.py``, still to be written."""
    for name in ("ray", "ray/serve", "ray/scripts"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "ray/serve/scripts.py").touch()
    return tmp_path / "ray/scripts/scripts.py"


@pytest.mark.parametrize(
    ("scripts", "command", "commands"),
    [
        pytest.param(TOLERANT, "start", ["start", "stop"], id="start leaves serve out"),
        pytest.param(TOLERANT, "serve", ["serve", "start", "stop"], id="serve is there for itself"),
        pytest.param(TOLERANT, "--help", ["serve", "start", "stop"], id="help lists all commands"),
        pytest.param(TOLERANT, "strat", ["serve", "start", "stop"], id="a wrong word is compared with all commands"),
        pytest.param(TOLERANT, "status", ["serve", "start", "stop"], id="a command that is nowhere else"),
        pytest.param(NEEDS_SERVE, "start", ["start", "serve"], id="a Ray that cannot do without"),
        pytest.param(MOVED, "start", ["start"], id="a Ray whose commands are elsewhere"),
    ],
)
def test_a_command_gets_what_it_needs_from_any_ray(ray: Path, scripts: str, command: str, commands: list[str]) -> None:
    ray.write_text(scripts)
    assert run(RUN, command, path=ray.parents[2]) == commands


def test_a_ray_that_cannot_be_imported_says_so_itself(ray: Path) -> None:
    ray.write_text("import no_such_module_of_ray")
    with pytest.raises(AssertionError, match="No module named 'no_such_module_of_ray'"):
        run(RUN, "start", path=ray.parents[2])


def test_the_modules_left_out_are_those_that_the_installed_ray_tolerates_to_be_missing() -> None:
    spec = importlib.util.find_spec("ray")
    assert spec and spec.origin
    text = Path(spec.origin).with_name("scripts").joinpath("scripts.py").read_text()
    assert [name for name in ray_command.OPTIONAL if f"    from {name} import" not in text] == []


class Gcs:
    """A head whose node table is empty twice; an answer that is an error is raised."""

    def __init__(self, *, address: str) -> None:
        self.asked.append(address)

    answers: list[object]
    asked: list[str]

    def get_all_node_info(self, *, timeout: float) -> object:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("arguments", "answers", "left"),
    [
        pytest.param(["start", "--address=h:1"], [{}, {}, {"id": "row"}, {}], 1, id="a worker waits for the head's row"),
        pytest.param(["start", "--address=h:1"], [{}, RuntimeError("GCS died"), {}], 1, id="an error is left to Ray"),
        pytest.param(["start", "--address=h:1"], [{}] * 100, 92, id="but not forever"),
        pytest.param(["start", "--head"], [{}], 1, id="a head waits for nothing"),
        pytest.param(["status", "--address=h:1"], [{}], 1, id="nor does another command"),
    ],
)
def test_a_worker_starts_once_the_head_is_in_its_own_table(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], answers: list[object], left: int
) -> None:
    clock = itertools.count()
    monkeypatch.setattr(ray_command, "HEAD_WAIT_S", 8)
    monkeypatch.setattr(ray_command, "time", types.SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda seconds: None))
    monkeypatch.setitem(sys.modules, "ray._raylet", types.SimpleNamespace(GcsClient=Gcs))
    monkeypatch.setattr(Gcs, "answers", list(answers), raising=False)
    monkeypatch.setattr(Gcs, "asked", [], raising=False)
    ray_command.await_head(arguments)
    assert len(Gcs.answers) == left
    assert Gcs.asked == (["h:1"] if left < len(answers) else [])
