"""Facts about a host's NVIDIA GPUs and their links, from nvidia-smi, torch, sysfs and the variables that hide GPUs."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..base.errors import Blocked
from .cluster_file import GPU_SELECTORS

TOOL_TIMEOUT_S = 20
TORCH_TIMEOUT_S = 90
"""Importing torch from a cold network file system takes a minute."""
NOT_FOUND = "nvidia-smi not found on this host"
NO_DEVICES = "No devices were found"
"""nvidia-smi's own words, e.g. in a Slurm allocation without GPUs."""
INFINIBAND = Path("/sys/class/infiniband")
VERBS = Path("/dev/infiniband")

TORCH = """
import json, torch, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
built = torch.version.cuda or torch.version.hip
why = str(caught[0].message) if caught else "" if built else "built without CUDA"
if not count and not why:  # newer versions warn no more
    try:
        torch.cuda.init()
    except Exception as error:
        why = str(error).strip().partition("\\n")[0]
print(json.dumps([count, torch.__version__, built or "", why]))
"""


class Gpu(msgspec.Struct, frozen=True):
    """One line of nvidia-smi; ``uuid`` identifies the GPU on every host that sees it."""

    index: str
    uuid: str
    name: str
    memory: str


class GpuFacts(msgspec.Struct, kw_only=True):
    """GPU facts of one host; problems are texts ("" for none)."""

    gpus: list[Gpu] = []
    driver: str = ""
    problem: str = ""
    """Why nvidia-smi gave no facts."""
    selectors: dict[str, str] = {}
    """Those of ``GPU_SELECTORS`` that are set in the environment of the host's Ray node, or of the shell that would start it."""
    torch_count: int = 0
    torch_version: str = ""
    torch_problem: str = ""
    links: str = ""
    fabric: str = ""

    @property
    def absent(self) -> bool:
        """Return whether this host has no GPU, rather than one that does not work."""
        return self.problem in (NOT_FOUND, NO_DEVICES)

    @property
    def visible(self) -> list[Gpu]:
        """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` selects, in its order; like CUDA, stop at the first unknown one."""
        if "CUDA_VISIBLE_DEVICES" not in self.selectors:
            return self.gpus
        selected = []
        for word in map(str.strip, self.selectors["CUDA_VISIBLE_DEVICES"].split(",")):
            named = [gpu for gpu in self.gpus if word == gpu.index or (word.startswith("GPU-") and gpu.uuid.startswith(word))]
            if len(named) != 1:
                break
            selected += named
        return selected


def models(cards: Sequence[Gpu]) -> str:
    """Return the number of cards by name and memory: ``4 × NVIDIA H200, 143771 MiB``."""
    by_model = Counter(f"{gpu.name}, {gpu.memory}" for gpu in cards)
    return "; ".join(f"{count} × {model}" for model, count in by_model.items())


def look(environment: Mapping[str, str]) -> GpuFacts:
    """Collect the facts of this host. ``environment`` is that of its Ray node, or of the shell that would start it."""
    facts = cards(environment)
    facts.fabric = fabric()
    if not facts.problem:
        facts.links = _links()
        others = {name: value for name, value in os.environ.items() if name not in GPU_SELECTORS}
        facts.torch_count, facts.torch_version, facts.torch_problem = _torch(others | facts.selectors)
    return facts


def cards(environment: Mapping[str, str]) -> GpuFacts:
    """Collect only the cards and the variables that choose among them: one call of nvidia-smi."""
    facts = GpuFacts(selectors={name: environment[name] for name in GPU_SELECTORS if name in environment})
    try:
        rows = _nvidia_smi("--query-gpu=index,uuid,name,memory.total,driver_version", "--format=csv,noheader").splitlines()
        fields = [[field.strip() for field in row.split(",")] for row in rows]
        facts.gpus = [Gpu(*row[:4]) for row in fields]
        facts.driver = fields[0][4] if fields else ""
    except (OSError, TypeError, IndexError) as error:
        facts.problem = str(error)
    return facts


def check_count(name: str, wanted: int | str, environment: Mapping[str, str]) -> None:
    """Check that a Ray node with this environment sees ``wanted`` GPUs; without nvidia-smi, or with ``auto``, nothing is checked.

    Raises:
        Blocked: there are fewer in CUDA_VISIBLE_DEVICES, where ``ray start`` ends with a traceback, or in the list of nvidia-smi:
            Ray would offer GPUs that do not exist, and a job on them fails after minutes.
    """
    if not isinstance(wanted, int) or not wanted:
        return
    selected = environment.get("CUDA_VISIBLE_DEVICES")
    if selected is not None and (visible := len([word for word in selected.split(",") if word.strip()])) < wanted:
        raise Blocked(
            f"{name}: worker.num_gpus asks for {wanted} GPUs, but CUDA_VISIBLE_DEVICES='{selected}' leaves {visible}",
            hint="unset CUDA_VISIBLE_DEVICES where the node is started, or num_gpus: auto in the cluster file",
        )
    try:
        listed = sum(line.startswith("GPU ") for line in _nvidia_smi("-L").splitlines())
    except OSError:
        return
    if listed < wanted:
        hint = "worker.num_gpus in the cluster file; which GPUs a container gets: MVP_GPUS_0, MVP_GPUS_1"
        raise Blocked(f"{name}: worker.num_gpus asks for {wanted} GPUs, but nvidia-smi lists {listed}", hint=hint)


def _nvidia_smi(*arguments: str) -> str:
    """Return the output of nvidia-smi. Raises OSError with its own message."""
    argv = ["nvidia-smi", *arguments]
    try:
        run = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=TOOL_TIMEOUT_S)
    except FileNotFoundError:
        raise OSError(NOT_FOUND) from None
    except subprocess.TimeoutExpired:
        raise OSError(f"nvidia-smi timed out after {TOOL_TIMEOUT_S} s") from None
    if run.returncode:
        raise OSError((run.stdout + run.stderr).strip().partition("\n")[0] or f"nvidia-smi: exit code {run.returncode}")
    return run.stdout


def _torch(environment: dict[str, str]) -> tuple[int, str, str]:
    """Return the number of GPUs torch can use, its version, and why there are none; asked in a process of its own."""
    try:
        run = subprocess.run(
            [sys.executable, "-c", TORCH], capture_output=True, text=True, timeout=TORCH_TIMEOUT_S, env=environment
        )
        count, version, cuda, problem = json.loads(run.stdout)
    except subprocess.TimeoutExpired:
        return 0, "", f"import torch took more than {TORCH_TIMEOUT_S} s"
    except ValueError:
        return 0, "", (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
    return count, f"torch {version}" + (f", CUDA {cuda}" if cuda else ""), problem


def _links() -> str:
    try:
        return links(_nvidia_smi("topo", "-m"), _nvidia_smi("nvlink", "-s"))
    except OSError as error:
        return f"unknown: {error}"


def links(topology: str, nvlink: str) -> str:
    """Summarize ``nvidia-smi topo -m`` and ``nvidia-smi nvlink -s``: how GPUs are connected, link speed, inactive links."""
    rows = [re.sub(r"\x1b\[\d*m", "", line).split("\t") for line in topology.splitlines()]
    header = next((row for row in rows if "GPU0" in [cell.strip() for cell in row[1:]]), [])
    columns = {cell.strip(): at for at, cell in enumerate(header) if re.fullmatch(r"GPU\d+", cell.strip())}
    table = {row[0].strip(): row for row in rows if row[0].strip() in columns and len(row) > len(columns)}
    pairs = Counter(
        table[one][columns[other]].strip()
        for one, other in itertools.combinations(columns, 2)
        if one in table and other in columns
    )
    if not pairs:
        return "one GPU" if len(columns) == 1 else "unknown: nvidia-smi topo -m shows no table"
    total = sum(pairs.values())
    kinds = [
        f"{kind} between {'all' if count == total else f'{count} of {total} pairs of'} GPUs" for kind, count in pairs.items()
    ]
    speeds = sorted(set(re.findall(r"Link \d+: ([\d.]+ GB/s)", nvlink)))
    inactive = len(re.findall(r"Link \d+: <inactive>", nvlink))
    return ", ".join(
        [
            *kinds,
            *([f"{' or '.join(speeds)} a link"] if speeds else ["no NVLink"]),
            *([f"{inactive} links inactive"] if inactive else []),
        ]
    )


def fabric(infiniband: Path = INFINIBAND, verbs: Path = VERBS) -> str:
    """Summarize sysfs: ports of InfiniBand and RoCE adapters by rate and kind, and ports that are down."""
    ports: Counter[str] = Counter()
    down = []
    for port in sorted(infiniband.glob("*/ports/*")):
        facts = {}
        for name in ("state", "rate", "link_layer"):
            try:
                facts[name] = (port / name).read_text().strip()
            except OSError:
                facts[name] = "unknown"
        if facts["state"].endswith("ACTIVE"):
            ports[f"{facts['rate']} {facts['link_layer']}"] += 1
        else:
            down.append(f"{port.parent.parent.name} port {port.name} is {facts['state'].partition(': ')[2] or facts['state']}")
    if not ports and not down:
        return "no InfiniBand or RoCE adapter"
    active = [f"{count} × {kind}" for kind, count in ports.items()]
    if not verbs.is_dir():  # a container that sees the adapters in sysfs only
        down.append(f"without {verbs} nothing here can use them")
    return "; ".join(active + down)
