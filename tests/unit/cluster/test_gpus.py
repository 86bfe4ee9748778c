"""What hosts say about their GPUs (nvidia-smi as it was recorded), and the rows that 00 makes of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mvp_helpers.base import processes
from mvp_helpers.base.errors import Blocked
from mvp_helpers.cluster import gpus, prereq
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.cluster.gpus import Gpu, GpuFacts
from mvp_helpers.cluster.node_record import NodePaths, Record
from mvp_helpers.cluster.prereq import Check, Facts

DOUBLES = Path(__file__).parents[2] / "doubles"
QUERY = "__query_gpu_index_uuid_name_memory_total_driver_version___format_csv_noheader"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of nvidia-smi's recorded answers (four H200) that a test may change; any other call fails the test."""
    folder, unexpected = tmp_path / "recorded", tmp_path / "unexpected"
    shutil.copytree(DOUBLES / "recorded" / "nvidia-smi-h200", folder)
    monkeypatch.setenv("NVIDIA_SMI", str(folder))
    monkeypatch.setenv("NVIDIA_SMI_UNEXPECTED", str(unexpected))
    monkeypatch.setenv("PATH", f"{DOUBLES / 'bin'}:{os.environ['PATH']}")
    yield folder
    assert not unexpected.exists(), unexpected.read_text()


@pytest.fixture
def quick_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch would see; importing the real one takes seconds, and one test does it."""
    monkeypatch.setattr(gpus, "_torch", lambda environment: (4, f"torch for {environment.get('CUDA_VISIBLE_DEVICES')}", ""))


def four(**changes: Any) -> GpuFacts:
    cards = [Gpu(str(index), f"GPU-{index}aaaaaaa", "NVIDIA H200", "143771 MiB") for index in range(4)]
    good = {"gpus": cards, "driver": "570.124.06", "torch_count": 4, "torch_version": "torch 2.8.0, CUDA 12.8"}
    return GpuFacts(**{**good, **changes})  # type: ignore[arg-type]


@pytest.fixture
def rows(cluster: Cluster, replace: Callable[..., Cluster]) -> Callable[..., list[Check]]:
    """The rows about GPUs for workers with these facts; two GPUs are wanted."""
    wanted = replace(cluster, device="cuda", worker=replace(cluster.worker, num_gpus=2))

    def made(*workers: GpuFacts) -> list[Check]:
        good = {"python": "3.11.7", "ray": "2.60.0", "disk_free": 1 << 40, "memory_total": 1 << 40, "shm_free": 1 << 40}
        facts = [Facts(name=f"worker-{at}", gpus=found, **good) for at, found in enumerate(workers)]  # type: ignore[arg-type]
        names = ("GPU", "NVIDIA", "NVLink", "InfiniBand")
        return [check for check in prereq.decide(wanted, facts, [], {}) if any(name in check.name for name in names)]

    return made


def crosses(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.reason for check in checks if not check.met}


@pytest.mark.usefixtures("quick_torch")
def test_four_gpus_their_driver_and_their_links_are_read(recorded: Path) -> None:
    found = gpus.look({})
    assert [(gpu.index, gpu.name, gpu.memory) for gpu in found.gpus] == [
        (str(at), "NVIDIA H200", "143771 MiB") for at in range(4)
    ]
    assert (found.driver, found.problem) == ("570.124.06", "")
    assert found.links == "NV18 between all GPUs, 26.562 GB/s a link"


@pytest.mark.usefixtures("recorded")
def test_the_real_torch_is_asked_with_the_variables_of_the_ray_node_not_with_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setattr(
        gpus, "TORCH", "import json, os; print(json.dumps([0, 'x', '', str(os.environ.get('CUDA_VISIBLE_DEVICES'))]))"
    )
    assert gpus.look({"CUDA_VISIBLE_DEVICES": "1"}).torch_problem == "1"
    assert gpus.look({}).torch_problem == "None"


def test_a_torch_that_cannot_use_gpus_says_why() -> None:
    count, version, why = gpus._torch(dict(os.environ))
    if count:
        pytest.skip("this machine has a GPU that torch can use")
    assert version.startswith("torch ") and why


def test_a_cuda_build_without_a_driver_says_why_although_it_does_not_warn(tmp_path: Path) -> None:
    """As torch 2.11: no GPUs, no warning, and the reason only in the error of its first use."""
    (tmp_path / "torch.py").write_text(
        "from types import SimpleNamespace\n__version__ = '2.11.0+cu130'\nversion = SimpleNamespace(cuda='13.0', hip=None)\n"
        "def init():\n    raise RuntimeError('Found no NVIDIA driver on your system. Please check.\\nmore')\n"
        "cuda = SimpleNamespace(is_available=lambda: False, init=init)\n"
    )
    found = gpus._torch(os.environ | {"PYTHONPATH": str(tmp_path)})
    assert found == (0, "torch 2.11.0+cu130, CUDA 13.0", "Found no NVIDIA driver on your system. Please check.")


@pytest.mark.usefixtures("quick_torch")
def test_nvidia_smi_that_fails_hangs_or_is_missing_is_said_in_its_own_words(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    (recorded / QUERY).write_text(f"{words} Make sure that it is running.\n")
    (recorded / f"{QUERY}.code").write_text("9")
    assert gpus.look({}).problem.startswith(words)
    monkeypatch.setattr(gpus, "TOOL_TIMEOUT_S", 0.001)
    assert "timed out after" in gpus.look({}).problem
    monkeypatch.setenv("PATH", "/nonexistent")
    assert gpus.look({}).problem == "nvidia-smi not found on this host"


@pytest.mark.parametrize(
    ("value", "left"),
    [(None, "0123"), ("", ""), ("2,0", "20"), ("1,7,2", "1"), ("GPU-3aaa", "3"), ("GPU-", ""), ("-1", ""), ("NoDevFiles", "")],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(value: str | None, left: str) -> None:
    found = four(selectors={} if value is None else {"CUDA_VISIBLE_DEVICES": value})
    assert "".join(gpu.index for gpu in found.visible) == left


def test_fewer_gpus_than_the_cluster_file_says_are_refused_with_both_numbers(recorded: Path) -> None:
    (recorded / "__").write_text("GPU 0: NVIDIA H200 (UUID: GPU-0)\nGPU 1: NVIDIA H200 (UUID: GPU-1)\n")  # nvidia-smi -L
    for wanted in (0, 1, 2, "auto"):
        gpus.check_count("worker-0", wanted, {})
    with pytest.raises(Blocked, match=r"^worker-0: worker\.num_gpus asks for 4 GPUs, but nvidia-smi lists 2$"):
        gpus.check_count("worker-0", 4, {})


def test_without_nvidia_smi_a_pretended_gpu_can_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    gpus.check_count("worker-0", 1, {})
    gpus.check_count("worker-0", 2, {"CUDA_VISIBLE_DEVICES": "0,GPU-7"})


@pytest.mark.parametrize(("selected", "leaves"), [("", 0), (" ", 0), ("3", 1)])
def test_a_variable_that_hides_gpus_is_named_before_ray_fails_on_it(selected: str, leaves: int) -> None:
    with pytest.raises(Blocked, match=rf"^worker-0: .* asks for 2 GPUs, but CUDA_VISIBLE_DEVICES='{selected}' leaves {leaves}$"):
        gpus.check_count("worker-0", 2, {"CUDA_VISIBLE_DEVICES": selected})
    for wanted in (0, "auto"):
        gpus.check_count("worker-0", wanted, {"CUDA_VISIBLE_DEVICES": selected})


def test_mixed_and_inactive_links_are_counted() -> None:
    table = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tNV4\tPHB\t0-7\nGPU1\tNV4\t X \tSYS\t0-7\nGPU2\tPHB\tSYS\t X \t0-7\n"
    speeds = "GPU 0: Tesla V100 (UUID: GPU-1)\n\t Link 0: 25.781 GB/s\n\t Link 1: <inactive>\n"
    told = gpus.links(table, speeds)
    assert told.startswith("NV4 between 1 of 3 pairs of GPUs, PHB between 1 of 3 pairs of GPUs, SYS between 1 of 3 pairs of GPUs")
    assert told.endswith("25.781 GB/s a link, 1 links inactive")
    assert gpus.links("\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n", "") == "one GPU"
    assert gpus.links("nothing of the kind", "").startswith("unknown")
    assert gpus.links("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n", "") == "PHB between all GPUs, no NVLink"


def test_infiniband_ports_are_counted_and_what_is_down_is_named(tmp_path: Path) -> None:
    def port(name: str, state: str, rate: str, layer: str) -> None:
        folder = tmp_path / "infiniband" / name / "ports" / "1"
        folder.mkdir(parents=True)
        for file, text in (("state", state), ("rate", rate), ("link_layer", layer)):
            (folder / file).write_text(f"{text}\n")

    assert gpus.fabric(tmp_path / "infiniband", tmp_path) == "no InfiniBand or RoCE adapter"
    for at in range(2):
        port(f"mlx5_{at}", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand")
    port("mlx5_2", "1: DOWN", "40 Gb/sec (4X QDR)", "Ethernet")
    told = gpus.fabric(tmp_path / "infiniband", tmp_path)
    assert told == "2 × 400 Gb/sec (4X NDR) InfiniBand; mlx5_2 port 1 is DOWN"
    assert gpus.fabric(tmp_path / "infiniband", tmp_path / "none").endswith("nothing here can use them")


def test_good_gpu_hosts_block_nothing_and_their_links_are_only_reported(rows: Callable[..., list[Check]]) -> None:
    other = [Gpu(str(at), f"GPU-{at}bbbbbbb", "NVIDIA H200", "143771 MiB") for at in range(4)]
    checks = rows(four(links="NV18 between all GPUs", fabric="8 × 400 Gb/sec"), four(gpus=other))
    assert crosses(checks) == {}
    found = {check.name: check for check in checks}
    assert found["worker-0: GPUs (2 wanted)"].reason == "4 × NVIDIA H200, 143771 MiB"
    assert found["worker-0: NVIDIA driver"].reason == "570.124.06"
    assert {found[f"worker-0: {name}"].verdict for name in ("NVLink", "InfiniBand")} == {"Skipped"}
    assert found["worker-0: NVLink"].verdict == "Skipped"


@pytest.mark.parametrize(
    ("change", "what", "found"),
    [
        ({"gpus": four().gpus[:1]}, "GPUs (2 wanted)", "1 × NVIDIA H200, 143771 MiB"),
        ({"selectors": {"CUDA_VISIBLE_DEVICES": "1"}}, "visible GPUs", "1 of 4 by CUDA_VISIBLE_DEVICES=1"),
        ({"torch_count": 1}, "GPUs in torch", "torch sees 1 (torch 2.8.0, CUDA 12.8)"),
        (
            {"torch_count": 0, "torch_problem": "The NVIDIA driver on your system is too old"},
            "GPUs in torch",
            "torch sees 0 (torch 2.8.0, CUDA 12.8) (The NVIDIA driver on your system is too old)",
        ),
        (
            {"selectors": {"CUDA_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": "2,3"}},
            "one variable chooses GPUs",
            "CUDA_VISIBLE_DEVICES=0,1 and ROCR_VISIBLE_DEVICES=2,3: verl refuses both",
        ),
        (
            {"selectors": {"ROCR_VISIBLE_DEVICES": "0"}},
            "one variable chooses GPUs",
            "ROCR_VISIBLE_DEVICES=0: verl refuses both (Ray gives its workers CUDA_VISIBLE_DEVICES beside it)",
        ),
        ({"problem": "nvidia-smi not found on this host"}, "NVIDIA driver", "nvidia-smi not found on this host"),
    ],
)
def test_what_is_wrong_with_one_workers_gpus_is_a_cross_with_its_name_and_the_values(
    rows: Callable[..., list[Check]], change: dict[str, Any], what: str, found: str
) -> None:
    wrong = crosses(rows(four(**change)))
    assert wrong[f"worker-0: {what}"] == found
    # Fewer GPUs are fewer visible ones.
    assert set(wrong) <= {f"worker-0: {what}", *(["worker-0: visible GPUs"] if "wanted" in what else [])}


def test_two_workers_on_the_same_gpus_are_named_with_the_gpu(rows: Callable[..., list[Check]]) -> None:
    wrong = crosses(rows(four(), four()))
    assert wrong == {"no GPU belongs to two workers": "worker-0 and worker-1 share GPU-0aaaaaaa and 1 more"}
    halves = [four(selectors={"CUDA_VISIBLE_DEVICES": half}) for half in ("0,1", "2,3")]
    assert crosses(rows(*halves)) == {}


@pytest.mark.usefixtures("quick_torch", "recorded")
def test_a_running_ray_nodes_own_variables_count(
    cluster: Cluster, replace: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_cluster = replace(cluster, device="cuda")
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "1")
    found = prereq.host_facts(gpu_cluster, "worker-0", "t").gpus
    assert found and found.selectors["ROCR_VISIBLE_DEVICES"] == "1"
    assert prereq.host_facts(gpu_cluster, "head", "t").gpus is None
    assert prereq.host_facts(cluster, "worker-0", "t").gpus is None
    # This very process as the node: its variables are those it was started with.
    me = os.getpid()
    record = Record(
        pid=me,
        pid_start_time=processes.start_time(me) or 0,
        boot_id=processes.boot_id(),
        **{"instance": "x", "role": "worker", "ip": "", "ray_version": "", "python_version": "", "started_at": ""},
    )
    node = NodePaths(gpu_cluster, "worker-0")
    node.folder.mkdir(parents=True)
    node.write(record)
    facts = prereq.host_facts(gpu_cluster, "worker-0", "t")
    assert facts.node_runs and facts.gpus and "ROCR_VISIBLE_DEVICES" not in facts.gpus.selectors


def test_a_record_of_a_node_that_is_gone_does_not_count_as_a_node(cluster: Cluster) -> None:
    node = NodePaths(cluster, "worker-0")
    node.folder.mkdir(parents=True)
    names = ("boot_id", "instance", "ip", "ray_version", "python_version", "started_at")
    node.write(Record(pid=os.getpid(), pid_start_time=1, role="worker", **dict.fromkeys(names, "x")))
    assert not prereq.host_facts(cluster, "worker-0", "t").node_runs
