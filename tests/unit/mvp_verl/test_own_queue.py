"""Two jobs that train at the same time have a TransferQueue each: tests/bats/stop_saves.bats shows it with verl."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from mvp_verl import own_queue


class Recorder:
    """Stands for Ray and for an actor's class: notes what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def get_actor(self, name: str, namespace: str = "of the job") -> str:
        self.calls.append((name, namespace))
        return "an actor"

    def options(self, **options: object) -> Recorder:
        self.calls.append(tuple(options.items()))
        return self


def test_a_name_belongs_to_the_ray_job_alone() -> None:
    ray = Recorder()
    own = own_queue._InJob(ray)
    assert own.get_actor("Controller", namespace="transfer_queue") == "an actor"
    assert own.options(name="Controller", namespace="transfer_queue") is ray
    assert ray.calls == [("Controller", "of the job"), (("name", "Controller"),)]
    assert own.calls is ray.calls  # the rest is Ray's


@pytest.fixture
def library() -> Path:
    spec = importlib.util.find_spec("transfer_queue")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("TransferQueue is not installed")
    return Path(spec.submodule_search_locations[0])


def test_the_installed_library_names_actors_in_no_other_place(library: Path) -> None:
    naming = {file for file in library.rglob("*.py") if 'namespace="' in file.read_text()}
    places = {library.parent / Path(*module.split(".")).with_suffix(".py"): actor for module, actor in own_queue.PLACES.items()}
    assert naming == set(places)
    for file, actor in places.items():
        text = file.read_text()
        assert "import ray\n" in text and f"{actor}.options(" in text
        assert text.count('namespace="') == text.count("ray.get_actor(") + text.count(f"{actor}.options(")
