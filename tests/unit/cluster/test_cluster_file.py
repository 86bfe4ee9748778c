"""The cluster file: expanded, checked, and passed on to scripts and to the head without loss."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mvp_helpers.base.errors import BadInput
from mvp_helpers.cluster import cluster_file

GOOD: dict[str, Any] = {
    "name": "mine",
    "host_driver": "local",
    "shared_root": "/private",
    "device": "cpu",
    "hosts": [{"name": "h", "role": "head", "ip": "127.0.0.2"}, {"name": "w", "role": "worker", "ip": "127.0.0.3"}],
    "worker": {"num_cpus": 4},
}


def write(folder: Path, **changes: Any) -> str:
    path = folder / "mine.yaml"
    path.write_text(yaml.dump(GOOD | changes))
    return str(path)


@pytest.mark.parametrize("file", sorted(cluster_file.TEMPLATES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_cluster_file_in_the_tree_is_valid(file: Path) -> None:
    assert cluster_file.load(file.stem).name == file.stem


def test_variables_are_expanded_and_numbers_stay_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PORT", "7000")
    path = write(tmp_path, ray={"port": "${MY_PORT}", "dashboard_port": "${NOT_SET:-7001}"}, shared_root="${ROOT:-/p}/x")
    loaded = cluster_file.load(path)
    assert (loaded.ray.port, loaded.ray.dashboard_port, loaded.shared_root) == (7000, 7001, "/p/x")


def test_the_shared_root_of_local_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MVP_SHARED_ROOT", str(tmp_path))
    assert cluster_file.load("local").shared_root == str(tmp_path)


def test_the_key_of_seals_is_in_the_state_directory_unless_the_file_names_another_folder(tmp_path: Path) -> None:
    assert cluster_file.load(write(tmp_path, state_dir="/state")).seals == Path("/state")
    assert cluster_file.load(write(tmp_path)).seals == Path("/private/ray/mine")
    assert cluster_file.load(write(tmp_path, state_dir="/state", seal_dir="/only/here")).seals == Path("/only/here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devise": "cpu"}, "unknown field 'devise' (did you mean 'device'?)"),
        ({"device": "tpu"}, "'device'"),
        ({"host_driver": "slrum"}, "unknown host_driver 'slrum' (did you mean 'slurm'?)"),
        ({"hosts": [{"name": "h", "role": "head"}, *GOOD["hosts"][1:]]}, "host 'h' has no ip"),
        ({"host_driver": "ssh", "python": "python3"}, "python is 'python3': by ssh it must be a path"),
        ({"ssh": {"jmup": "gate"}}, "unknown field 'jmup' in 'ssh' (did you mean 'jump'?)"),
        ({"hosts": GOOD["hosts"][:1]}, "exactly one with role: head and at least one with role: worker"),
        ({"hosts": GOOD["hosts"] + GOOD["hosts"][:1]}, "two hosts have the same name 'h'"),
        ({"hosts": GOOD["hosts"][::-1]}, "the head must be the first of the hosts, not 'w'"),
        ({"hosts": [{"name": "a b", "role": "head", "ip": "x"}]}, "hosts[0].name"),
        ({"entrypoint": {"resources": {"gpu_node": 1}}}, "asks for 'gpu_node', which worker.resources does not offer"),
        ({"ray": {"port": 70000}}, "ray.port"),
        ({"shared_root": "${NO_SUCH_VARIABLE}"}, "${NO_SUCH_VARIABLE} is not set"),
        ({"shared_root": "/a b"}, "shared_root"),
        ({"shared_root": "/a$(id)"}, "shared_root"),
    ],
)
def test_a_mistake_in_a_cluster_file_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        cluster_file.load(write(tmp_path, **changes))
    assert message in caught.value.what


def test_an_unknown_cluster_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(BadInput, match="did you mean 'local'"):
        cluster_file.load("locall")


def test_the_shell_gets_every_value_byte_for_byte(tmp_path: Path) -> None:
    loaded = cluster_file.load(write(tmp_path, env_vars={"A": 'it\'s "$(id)"\n`x`'}))
    script = loaded.to_shell() + 'printf "%s|%s|%s" "${HOSTS[*]}" "${HOST_IPS[*]}" "$MVP_CLUSTER_JSON"'
    out = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert out == f"h w|127.0.0.2 127.0.0.3|{loaded.to_json()}"


def test_the_head_reads_back_what_the_script_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = cluster_file.load(write(tmp_path))
    monkeypatch.setenv("MVP_CLUSTER_JSON", loaded.to_json())
    assert cluster_file.from_environment() == loaded
    monkeypatch.delenv("MVP_CLUSTER_JSON")
    with pytest.raises(BadInput, match="MVP_CLUSTER_JSON is not set"):
        cluster_file.from_environment()
    for damaged in (loaded.to_json()[:-9], "[]", "{}"):
        monkeypatch.setenv("MVP_CLUSTER_JSON", damaged)
        with pytest.raises(BadInput, match="MVP_CLUSTER_JSON is not a resolved cluster file"):
            cluster_file.from_environment()
