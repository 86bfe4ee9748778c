"""The parts of a Ray node's life that need no Ray: its command line, its environment, its ports, what counts as complete."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

from mvp_helpers.base import files, processes
from mvp_helpers.base.errors import Blocked, Failed
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import addresses, cluster_file, ray_node
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.cluster.node_record import LONGEST_SOCKET, NodePaths, Record
from mvp_helpers.cluster.ray_api import Node


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return msgspec.structs.replace(
        cluster_file.load("local"), state_dir=str(tmp_path / "state"), shared_root=str(tmp_path / "private")
    )


def node(ip: str, alive: bool = True, **resources: float) -> Node:
    return Node(node_id=os.urandom(4).hex(), ip=ip, alive=alive, is_head=ip.endswith(".10"), resources=resources)


def whole(cluster: Cluster) -> list[Node]:
    return [node(cluster.head.ip), *(node(host.ip, CPU=8, worker_node=100) for host in cluster.workers)]


def record(**changes: object) -> Record:
    base = Record(
        pid=os.getpid(),
        pid_start_time=processes.start_time(os.getpid()) or 0,
        boot_id=processes.boot_id(),
        instance="c.head.1",
        role="head",
        ip="127.0.0.10",
        ray_version="2.60.0",
        python_version="3.11",
        started_at="",
    )
    return msgspec.structs.replace(base, **changes)


def test_the_head_offers_nothing_and_a_worker_what_the_cluster_file_says(cluster: Cluster) -> None:
    head = ray_node.start_argv(cluster, cluster.head, "i", Path("/tmp/x"), 0)
    assert {"--head", "--num-cpus=0", "--num-gpus=0", "--port=6390", "--dashboard-host=127.0.0.10"} <= set(head)
    worker = ray_node.start_argv(cluster, cluster.workers[0], "i", Path("/tmp/x"), 0)
    assert {"--address=127.0.0.10:6390", "--num-cpus=8", "--num-gpus=0", '--resources={"worker_node": 100}'} <= set(worker)
    assert "--head" not in worker


def test_nodes_of_one_machine_get_an_agent_port_each(cluster: Cluster) -> None:
    ports = [
        word for host in cluster.hosts for word in ray_node.start_argv(cluster, host, "i", Path("/tmp/x"), 0) if "agent" in word
    ]
    assert len(set(ports)) == len(cluster.hosts) == len(ports)


def test_no_variable_of_another_ray_reaches_the_node(cluster: Cluster) -> None:
    inherited = {"RAY_ADDRESS": "elsewhere", "RAY_NAMESPACE": "n", "MVP_CLUSTER_JSON": "{}", "PATH": "/usr/bin", "HOME": "/h"}
    made = ray_node.start_environment(cluster, "c.head.1", inherited)
    assert "RAY_ADDRESS" not in made and "RAY_NAMESPACE" not in made and "MVP_CLUSTER_JSON" not in made
    assert made["MVP_RAY_INSTANCE"] == "c.head.1" and made["HOME"] == "/h"
    assert made["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert made["RAY_AUTH_MODE"] == "token" and "RAY_AUTH_TOKEN" not in made


def test_the_nodes_of_a_gpu_cluster_hide_gpus_from_processes_that_asked_for_none(cluster: Cluster) -> None:
    name = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"
    assert name not in ray_node.start_environment(cluster, "i", {})
    gpus = msgspec.structs.replace(cluster, device="cuda")
    assert ray_node.start_environment(gpus, "i", {})[name] == "1"
    own = msgspec.structs.replace(gpus, ray=msgspec.structs.replace(gpus.ray, system_env={name: "0"}))
    assert ray_node.start_environment(own, "i", {})[name] == "0", "the cluster file wins"


def test_a_cluster_without_authentication_says_so_to_ray(cluster: Cluster) -> None:
    open_cluster = msgspec.structs.replace(cluster, ray=msgspec.structs.replace(cluster.ray, auth="none"))
    assert ray_node.start_environment(open_cluster, "i", {})["RAY_AUTH_MODE"] == "disabled"


@pytest.mark.parametrize(
    ("version", "has"), [("2.41.0", False), ("2.51.2", False), ("2.52.0", True), ("2.60.0", True), ("3.0.0rc1", True)]
)
def test_token_authentication_is_known_by_version(version: str, has: bool) -> None:
    assert ray_node.token_auth(version) is has


@pytest.mark.parametrize("base", [None, "/tmp", "/a/temporary/folder/much/too/deep/for/the/path/of/any/unix/socket"])
def test_sockets_have_short_paths_however_deep_the_checkout(
    cluster: Cluster, base: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", base) if base else monkeypatch.delenv("TMPDIR", raising=False)
    deep = msgspec.structs.replace(cluster, state_dir="/very" * 60)
    paths = NodePaths(deep, "worker-0")
    assert len(str(paths.temp_dir)) + LONGEST_SOCKET <= 107
    assert paths.temp_dir != NodePaths(deep, "worker-1").temp_dir


def test_a_temp_dir_that_is_somebody_elses_is_not_used(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path)[:30] if len(str(tmp_path)) < 30 else "/tmp")
    paths = NodePaths(cluster, "head")
    paths.folder.mkdir(parents=True)
    paths.temp_dir.mkdir()
    try:
        with pytest.raises(Blocked, match=f"{paths.temp_dir}, the place for Ray's sockets, was not made by this cluster"):
            paths.make_temp_dir()
        assert ray_node.stop(cluster, "head") == "not running" and paths.temp_dir.is_dir()
        os.chown(paths.temp_dir, 65534, 65534) if os.getuid() == 0 else pytest.skip("only root can give a folder away")
        with pytest.raises(Blocked, match=f"{paths.temp_dir}, the place for Ray's sockets, belongs to user nobody"):
            paths.make_temp_dir()
    finally:
        paths.temp_dir.rmdir()


def test_ray_gets_an_interpreter_whose_path_has_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = msgspec.structs.replace(cluster_file.load("local"), state_dir=str(tmp_path / "a state"))
    monkeypatch.setenv("TMPDIR", "/tmp")
    paths = NodePaths(cluster, "head")
    paths.folder.mkdir(parents=True)
    paths.make_temp_dir()
    try:
        assert paths.interpreter() == sys.executable or " " in sys.executable
        venv = tmp_path / "a project" / ".venv"
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
        (venv / "pyvenv.cfg").write_text(f"home = {Path(os.path.realpath(sys.executable)).parent}\n")
        monkeypatch.setattr(sys, "executable", str(venv / "bin" / "python3"))
        monkeypatch.setattr(sys, "prefix", str(venv))
        python = paths.interpreter()
        assert " " not in python
        says = subprocess.check_output(
            ["bash", "-c", f"exec {python} -c 'import sys; print(sys.executable, sys.prefix)'"], text=True
        )
        assert says.split() == [python, str(Path(python).parents[1])]
    finally:
        paths.remove_temp_link()


@pytest.mark.parametrize("on_shared_storage", [False, True])
def test_other_users_of_the_host_cannot_reach_what_ray_opens_to_everybody(cluster: Cluster, on_shared_storage: bool) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can be another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        state = None if on_shared_storage else f"{place}/state"
        paths = NodePaths(msgspec.structs.replace(cluster, state_dir=state, shared_root=place), "head")
        paths.folder.mkdir(parents=True)
        paths.private.mkdir(exist_ok=True, mode=0o777)  # as an earlier version left it
        paths.make_temp_dir()
        try:
            as_ray_does(paths.temp_dir)
            as_nobody = functools.partial(subprocess.run, user=65534, group=65534, extra_groups=[], capture_output=True)
            assert as_nobody(["ls", place]).returncode == 0, "nobody cannot even reach the state directory"
            for folder in (paths.temp_dir, paths.ray_files):
                assert b"Permission denied" in as_nobody(["ls", f"{folder}/session_1/sockets"]).stderr
                assert b"Permission denied" in as_nobody(["touch", f"{folder}/session_1/planted"]).stderr
        finally:
            paths.remove_temp_link()
            shutil.rmtree(paths.private)


def as_ray_does(temp_dir: Path) -> None:
    for folder in (temp_dir, temp_dir / "session_1", temp_dir / "session_1" / "sockets"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)  # ray/_common/utils.py: try_to_create_directory


def test_a_folder_that_others_could_change_is_used_only_with_our_own_folder_in_it(cluster: Cluster, tmp_path: Path) -> None:
    paths = NodePaths(msgspec.structs.replace(cluster, state_dir=None), "head")
    paths.private.mkdir(mode=0o777)
    try:
        paths.temp_dir.symlink_to(tmp_path)
        with pytest.raises(Blocked, match=f"{paths.temp_dir}, the place for Ray's sockets, was not made by this cluster"):
            paths.make_temp_dir()
    finally:
        shutil.rmtree(paths.private)


def test_a_link_of_ours_to_where_the_state_was_before_is_renewed(cluster: Cluster) -> None:
    paths = NodePaths(cluster, "head")
    paths.folder.mkdir(parents=True)
    paths.temp_dir.symlink_to(paths.folder / "gone")
    try:
        paths.make_temp_dir()
        assert paths.temp_dir.samefile(paths.ray_files)
    finally:
        paths.remove_temp_link()
    assert not os.path.lexists(paths.temp_dir)


def test_a_node_whose_record_was_lost_is_found_and_ended(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = msgspec.structs.replace(cluster, state_dir=f"{cluster.state_dir}-of-another-checkout")
    nodes = []
    for of in (cluster, elsewhere):
        mark = os.environ | {ray_node.INSTANCE: f"{of.name}.head.{os.urandom(8).hex()}"}
        argv = [sys.executable, "-c", "import time; time.sleep(60)", f"--temp-dir={NodePaths(of, 'head').temp_dir}"]
        nodes.append(subprocess.Popen(argv, env=mark))
    try:
        with pytest.raises(Blocked, match=r"head: its Ray node runs, but .*node\.json was lost"):
            ray_node.start(cluster, "head")
        assert ray_node.stop(cluster, "head") == "stopped"
        assert "was lost" in capsys.readouterr().err
        assert nodes[0].wait() == -signal.SIGTERM and nodes[1].poll() is None
        assert ray_node.stop(cluster, "head") == "not running"
    finally:
        nodes[1].kill()
        nodes[1].wait()


def test_a_full_disk_is_one_line_when_a_node_starts_and_does_not_keep_one_running(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = NodePaths(cluster, "head")
    paths.folder.mkdir(parents=True)
    mark = os.environ | {ray_node.INSTANCE: f"local.head.{os.urandom(8).hex()}"}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=mark) as node:
        paths.write(record(pid=node.pid, pid_start_time=processes.start_time(node.pid), instance=mark[ray_node.INSTANCE]))

        def full(path: Path, *_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(files, "write_bytes", full)
        head = addresses.Head(ip="", port=1, instance="i", ray_version="", python_version="", started_at="")
        for place, write in (
            ("node.json", lambda: paths.write(record())),
            ("head.json", lambda: addresses.publish(cluster, head)),
        ):
            with pytest.raises(Blocked, match=f"cannot write .*{place}: No space left on device"):
                write()
        assert ray_node.stop(cluster, "head") == "stopped" and node.wait() == -signal.SIGTERM


def test_a_daemon_ends_when_its_pid_file_is_gone(tmp_path: Path) -> None:
    code = (
        "import time; from pathlib import Path; from mvp_helpers.cluster import daemon; daemon.LOOK_S = 0.05;"
        f"daemon.Daemon('watchdog', 'head', Path({str(tmp_path)!r})).run(lambda: time.sleep(60))"
    )
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "lib")}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and "started" in process.stdout.readline()
        (tmp_path / "watchdog.pid").unlink()
        assert "watchdog.pid is gone: ending" in process.stdout.read()
        assert process.wait() == 0


def test_only_the_newest_sessions_are_kept(cluster: Cluster) -> None:
    paths = NodePaths(cluster, "head")
    for day in range(1, 8):
        (paths.ray_files / f"session_2026-01-0{day}_00-00-00_0_1").mkdir(parents=True)
    paths.make_temp_dir()
    paths.temp_dir.unlink()
    assert sorted(path.name[15:18] for path in paths.ray_files.iterdir()) == ["-06", "-07"]


def test_a_record_is_of_the_very_process_it_names() -> None:
    assert record().runs()
    assert not record(pid_start_time=1).runs()
    assert not record(boot_id="another boot").runs()
    assert not record(pid=0, pid_start_time=0).runs()


def test_a_step_tells_a_node_that_died_from_one_that_was_stopped(cluster: Cluster) -> None:
    paths = NodePaths(cluster, "head")
    paths.folder.mkdir(parents=True)
    paths.log.write_text("raylet died\n")
    paths.write(record(pid_start_time=1))
    with pytest.raises(Failed, match=r"head: its Ray node has ended\n    raylet died"):
        ray_node.stay(cluster, "head")
    paths.write(record(pid_start_time=1, stopping=True))
    ray_node.stay(cluster, "head")


def test_a_damaged_record_counts_as_none(cluster: Cluster) -> None:
    paths = NodePaths(cluster, "head")
    assert paths.read() is None
    paths.folder.mkdir(parents=True)
    paths.write(record())
    assert paths.read() == record()
    paths.record.write_text('{"pid": 12')
    assert paths.read() is None


def test_a_whole_cluster_misses_nothing(cluster: Cluster) -> None:
    assert ray_node.missing(cluster, whole(cluster)) == []


def test_what_is_missing_is_named(cluster: Cluster) -> None:
    head, first, second = whole(cluster)
    assert ray_node.missing(cluster, [head, first]) == ["worker-1 (127.0.0.12) has no Ray node alive"]
    dead = node(second.ip, alive=False, CPU=8, worker_node=100)
    assert ray_node.missing(cluster, [head, first, dead]) == ["worker-1 (127.0.0.12) has no Ray node alive"]
    assert "is listed 2 times" in ray_node.missing(cluster, [head, first, second, node(second.ip)])[0]
    assert ray_node.missing(cluster, [node(head.ip, CPU=2), first, second]) == ["head offers CPU 2 instead of 0"]
    lacking = node(second.ip, CPU=8)
    assert ray_node.missing(cluster, [head, first, lacking]) == ["worker-1 offers worker_node 0 instead of 100"]
    assert ray_node.missing(cluster, [head, first, node(second.ip, CPU=8, GPU=1, worker_node=100)]) == [
        "worker-1 offers GPU 1 instead of 0"
    ]


def test_a_stranger_in_the_cluster_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(Blocked, match=r"127\.0\.0\.99"):
        ray_node.missing(cluster, [*whole(cluster), node("127.0.0.99")])
    assert ray_node.missing(cluster, [*whole(cluster), node("127.0.0.99", alive=False)]) == []


def test_processes_are_found_by_their_mark_and_ended_even_when_they_ignore_term() -> None:
    mark = os.urandom(8).hex()
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    environment = os.environ | {"MVP_TEST_MARK": mark}
    with subprocess.Popen([sys.executable, "-c", stubborn], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert processes.holding("MVP_TEST_MARK", mark) == [process.pid]
        assert processes.holding("MVP_TEST_MARK", mark[:-1]) == []
        assert processes.end(lambda: processes.holding("MVP_TEST_MARK", mark), term_s=0.2) == []
        assert process.wait() == -signal.SIGKILL


def test_a_process_that_only_waits_to_be_reaped_does_not_count_as_running() -> None:
    mark = os.urandom(8).hex()
    process = subprocess.Popen(["true"], preexec_fn=lambda: processes.mark(mark))
    for _ in range(100):
        if processes.start_time(process.pid) is None:
            break
        time.sleep(0.02)
    assert processes.start_time(process.pid) is None
    assert processes.marked(mark) == [] and process.pid not in processes.with_descendants([os.getpid()])
    process.wait()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0A00007F", "127.0.0.10"),
        ("00000000", "0.0.0.0"),
        ("0000000000000000FFFF00000A00007F", "127.0.0.10"),
        ("00000000000000000000000001000000", "::1"),
    ],
)
def test_addresses_of_proc_net_tcp_are_read(text: str, address: str) -> None:
    assert processes._address(text) == address


def test_a_head_that_dies_while_its_dashboard_starts_ends_the_wait_with_its_last_words(cluster: Cluster) -> None:
    paths = NodePaths(cluster, cluster.head.name)
    paths.folder.mkdir(parents=True)
    paths.log.write_text("=== ray start\nFailed to start the dashboard\n")
    paths.write(record(pid_start_time=1))
    with pytest.raises(Blocked, match=r"head: ray start has ended\n.*\n    Failed to start the dashboard"):
        ray_node.wait(cluster)


def test_a_worker_does_not_wait_for_a_head_that_has_died(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = msgspec.structs.replace(cluster.ray, port=1)
    cluster = msgspec.structs.replace(cluster, ray=nobody)
    worker = cluster.workers[0]
    paths = NodePaths(cluster, worker.name)
    paths.folder.mkdir(parents=True)
    monkeypatch.setattr(ray_node, "start_argv", lambda *_: [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(ray_node, "HEAD_GONE_S", 0.3)
    mine = record(instance=f"local.worker-0.{os.urandom(8).hex()}", role="worker")
    with pytest.raises(Blocked, match=f"worker-0: the head at {cluster.gcs_address} no longer answers"):
        ray_node._start_and_wait(cluster, worker, paths, mine, early=False)
    ray_node._end(paths, mine.instance)
