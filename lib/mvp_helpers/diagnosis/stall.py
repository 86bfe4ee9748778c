"""Why a job makes no step: which process others wait for, or what Ray cannot place, from a bundle taken while it was stalled.

Pure over what the bundle holds: processes with their states, stacks as py-spy prints them, Ray's actors and placement groups.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Wait = Literal["collective", "ray", "queue", "idle", ""]
"""What a process waits for: other ranks, Ray, another thread or process, a task from Ray; "" when it works."""

COLLECTIVES = re.compile(
    r"^(all_reduce|all_gather\w*|all_to_all\w*|reduce_scatter\w*|_?reduce|_?broadcast\w*|barrier|monitored_barrier|gather\w*|"
    r"scatter\w*|send|recv|_object_to_tensor|new_group|init_process_group|_store_based_barrier|wait_for_unshard|"
    r"foreach_all_gather\w*|foreach_reduce\w*|destroy_process_group|rendezvous)$"
)
DISTRIBUTED = re.compile(r"torch/distributed/")
LIBRARY = re.compile(
    r"(^|/)(torch|ray|asyncio|concurrent|threading\.py|queue\.py|selectors\.py|contextlib\.py|importlib)(/|$|\b)"
)
RAY_WAITS = ("get", "wait", "get_objects", "_get_object", "get_if_exists")
QUEUE_FILES = re.compile(r"(threading|queue|selectors|multiprocessing/\w+|concurrent/futures/\w+|subprocess)\.py$")
IDLE = re.compile(r"^ray::IDLE|^ray::DashboardAgent|^ray::RuntimeEnvAgent")
NOT_TRAINER = re.compile(
    r"run-job|mvp_helpers\.usage\.sampler|^/bin/sh -c while kill|ray::JobSupervisor|ray::_ray_internal|ray::report\b"
    r"|resource_tracker|default_worker\.py"
)


@dataclass(frozen=True)
class Frame:
    """One function of a stack."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"

    @property
    def function(self) -> str:
        """The name without its class: py-spy prints ``Worker.main_loop``."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Process:
    """One process of the job. ``threads``: each thread's frames, innermost first. ``name``: its Ray actor's, else its command."""

    host: str
    pid: int
    state: str
    name: str
    rank: int | None = None
    threads: tuple[tuple[Frame, ...], ...] = ()
    is_actor: bool = False

    @property
    def stopped(self) -> bool:
        return self.state[:1] in ("T", "t")

    @property
    def who(self) -> str:
        """``rank 1 (TrainingWorker) on worker-1, pid 4711``."""
        head = f"rank {self.rank} ({self.name})" if self.rank is not None else self.name
        return f"{head} on {self.host}, pid {self.pid}"

    def wait(self) -> tuple[Wait, Frame | None, Frame | None]:
        """Return what it waits for, in which call, and from which line outside of libraries."""
        results = [_wait_of(frames) for frames in self.threads if frames]
        if not results:
            return "", None, None
        if collective := next((result for result in results if result[0] == "collective"), None):
            return collective
        # py-spy lists the main thread first. Others count where that one is idle, and they run code that is not a library's.
        main = results[0]
        return next((result for result in results[1:] if result[0] == "" and result[2]), main) if main[0] == "idle" else main


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """``stall.json``: the answer. ``kind`` says how it was found; "unknown" when no process differs from the others."""

    kind: Literal["stopped", "disk", "elsewhere", "gone", "pending", "waits", "unknown"]
    text: str
    """One line: rank, host, process, and the call that others wait for."""
    culprit: str = ""
    call: str = ""
    waiting: list[str] = []
    advice: str = ""
    missing: list[str] = []
    """What the bundle could not collect."""


def frames_of(dump: str) -> tuple[tuple[Frame, ...], ...]:
    """Return the threads of one output of ``py-spy dump``, each innermost frame first; other text gives none."""
    threads: list[list[Frame]] = []
    for line in dump.splitlines():
        if line.startswith("Thread "):
            threads.append([])
        elif threads and (match := re.match(r"^    (.+?) \((.+?)(?::(\d{1,9}))?\)$", line)):
            threads[-1].append(Frame(match[1], match[2], int(match[3] or 0)))
    return tuple(tuple(frames) for frames in threads)


def _wait_of(frames: tuple[Frame, ...]) -> tuple[Wait, Frame | None, Frame | None]:
    caller = next((frame for frame in frames if not LIBRARY.search(frame.file)), None)
    for frame in frames:
        if DISTRIBUTED.search(frame.file) and COLLECTIVES.match(frame.function):
            return "collective", frame, caller
    inner = frames[0]
    if inner.function == "main_loop" and "ray/" in inner.file:
        return "idle", inner, None
    for frame in frames[:6]:
        if frame.function in RAY_WAITS and re.search(r"(^|/)ray/", frame.file):
            return "ray", frame, caller
    if QUEUE_FILES.search(inner.file) or inner.function in ("select", "poll", "epoll", "_run_once", "run_forever"):
        return "queue", inner, caller
    return "", inner, caller


def processes(reports: Iterable[Mapping[str, Any]], actors: Sequence[Mapping[str, Any]]) -> list[Process]:
    """Return the trainer's processes of all hosts' reports; ``actors`` (rows of Ray) name them."""
    named = {(str(row.get("node_id")), row.get("pid")): row for row in actors if row.get("state") == "ALIVE"}
    trainers = []
    for report in reports:
        commands = {row["pid"]: row["command"] for row in report["processes"]}
        for row in report["processes"]:
            command, pid = str(row["command"]), int(row["pid"])
            actor = named.get((str(report.get("node_id")), pid))
            if IDLE.search(command) or (NOT_TRAINER.search(command) and not actor and row.get("rank") is None):
                continue
            # A data loader's processes look like the one that started them.
            child = commands.get(row.get("parent")) == command
            trainers.append(
                Process(
                    host=str(report["host"]),
                    pid=pid,
                    state=str(row["state"]),
                    name=f"child of pid {row['parent']}" if child else _name(actor, command, row.get("rank")),
                    rank=row.get("rank"),
                    threads=frames_of(str(report["stacks"].get(pid, report["stacks"].get(str(pid), "")))),
                    is_actor=actor is not None,
                )
            )
    return trainers


def _name(actor: Mapping[str, Any] | None, command: str, rank: int | None) -> str:
    if actor:
        # verl's names end in the placement group and the process within it, which tell the rank where the environment does not.
        return str((actor.get("name") if rank is None else "") or actor.get("class_name") or "actor")
    if command.startswith("ray::"):
        return command[5:].split(".")[0].split(" ")[0]
    match = re.search(r" -m ([\w.]+)", command)
    return (
        f"driver ({match[1]})" if match and "multiprocessing" not in match[1] else command.split(" ")[0].rpartition("/")[2] or "?"
    )


def find(
    trainers: list[Process], actors: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]], demands: Sequence[str]
) -> Finding:
    """Return why no step comes. ``actors`` and ``groups`` are this job's rows of Ray, ``demands`` what Ray cannot place."""
    waits = [(process, *process.wait()) for process in trainers]
    collective = [(process, frame) for process, wait, frame, _ in waits if wait == "collective" and not process.stopped]
    call = _most_common(frame for _, frame in collective)
    waiting = [f"{process.who}: {frame}" for process, frame in collective]
    if stopped := [process for process in trainers if process.stopped]:
        return _of_state("stopped", stopped, "is stopped (SIGSTOP)", call, waiting, "kill -CONT {pid} on {host} resumes it")
    if lost := _lost(actors):
        return Finding(kind="gone", text=f"{lost}{_others(call, waiting)}", culprit=lost, call=call, waiting=waiting)
    if pending := _pending(actors, groups, demands):
        return pending
    blocked = [process for process in trainers if process.state[:1] == "D"]
    if blocked:
        return _of_state(
            "disk", blocked, "waits for a disk or a network file system (state D)", call, waiting, "see dmesg on {host}"
        )
    return _elsewhere(waits, call, waiting)


def _of_state(
    kind: Literal["stopped", "disk"], culprits: list[Process], what: str, call: str, waiting: list[str], advice: str
) -> Finding:
    # A rank is what others wait for; a helper process of it often is stopped together with it.
    first = min(culprits, key=lambda process: (process.rank is None, not process.is_actor, process.rank or 0, process.pid))
    more = f" (and {len(culprits) - 1} more)" if len(culprits) > 1 else ""
    inside = first.wait()[1]
    at = f" in {inside}" if inside else ""
    return Finding(
        kind=kind,
        text=f"{first.who}, {what}{at}{more}{_others(call, waiting)}",
        culprit=first.who,
        call=call,
        waiting=waiting,
        advice=advice.format(pid=first.pid, host=first.host),
    )


def _elsewhere(waits: list[tuple[Process, Wait, Frame | None, Frame | None]], call: str, waiting: list[str]) -> Finding:
    """The ranks that are not where the others are; else what the driver waits for."""
    if waiting:
        others = [row for row in waits if row[0].rank is not None and row[1] != "collective"]
        if not others:
            different = {str(frame) for _, wait, frame, _ in waits if wait == "collective"}
            if len(different) > 1:
                text = f"the ranks wait in different collectives: {'; '.join(waiting)}"
                return Finding(kind="elsewhere", text=text, call=call, waiting=waiting, advice="they took different branches")
            text = f"all {len(waiting)} ranks wait in {call}: the network between them, or a rank that is not in the bundle"
            return Finding(kind="waits", text=text, call=call, waiting=waiting)
        process, _, frame, caller = min(others, key=lambda row: (row[1] in ("idle", "queue"), row[0].rank or 0))
        at = f"is in {frame}" if frame else "has no stack in the bundle"
        origin = f", called from {caller}" if caller and caller != frame else ""
        text = f"{process.who}, {at}{origin}{_others(call, waiting)}"
        return Finding(kind="elsewhere", text=text, culprit=process.who, call=call, waiting=waiting)
    busy = [row for row in waits if row[1] == "" and row[2]]
    if busy:
        process, _, frame, caller = min(busy, key=lambda row: (row[0].rank is None, not row[0].is_actor, row[0].pid))
        origin = f", called from {caller}" if caller and caller != frame else ""
        text = f"{process.who}, is in {frame}{origin}; no process waits in a collective"
        return Finding(kind="elsewhere", text=text, culprit=process.who)
    held = [f"{process.who}: {frame}" for process, wait, frame, _ in waits if wait in ("ray", "queue")]
    if held:
        return Finding(kind="waits", text=f"no process works: {held[0]} waits, and {len(held) - 1} more", waiting=held)
    return Finding(kind="unknown", text="the bundle does not show which process others wait for")


def _most_common(frames: Iterable[Frame | None]) -> str:
    counted = Counter(str(frame) for frame in frames if frame)
    return counted.most_common(1)[0][0] if counted else ""


def _others(call: str, waiting: list[str]) -> str:
    count = len(waiting)
    return f"; {count} other {'process waits' if count == 1 else 'processes wait'} for it in {call}" if waiting else ""


def _lost(actors: Sequence[Mapping[str, Any]]) -> str:
    """An actor that Ray is restarting."""
    row = next((row for row in actors if row.get("state") == "RESTARTING"), None)
    return f"actor {row.get('class_name')} (pid {row.get('pid')}) died and is being restarted by Ray" if row else ""


def _pending(actors: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]], demands: Sequence[str]) -> Finding | None:
    """What Ray has not placed or started."""
    lacking = f"; no node has room for {', '.join(demands)}" if demands else ""
    for group in groups:
        if group.get("state") in ("PENDING", "RESCHEDULING"):
            bundles = [
                bundle.get("unit_resources", bundle.get("resources", {}))
                for bundle in group.get("bundles") or []
                if isinstance(bundle, Mapping) and not bundle.get("node_id")
            ]
            needs = Counter(
                "{" + ", ".join(f"{key}: {value:g}" for key, value in sorted(bundle.items())) + "}" for bundle in bundles
            )
            listed = ", ".join(f"{count} × {shape}" for shape, count in needs.items())
            what = f"placement group {group.get('name') or group.get('placement_group_id')}"
            text = f"{what} is pending" + (f": it needs {listed}" if listed else "") + lacking
            return Finding(kind="pending", text=text, culprit=what, advice="more workers or smaller trainer.n_gpus_per_node")
    for row in actors:
        if row.get("state") in ("PENDING_CREATION", "DEPENDENCIES_UNREADY"):
            needs_text = ", ".join(f"{key}: {value:g}" for key, value in sorted((row.get("required_resources") or {}).items()))
            what = f"actor {row.get('class_name')}" + (f" '{row['name']}'" if row.get("name") else "")
            text = f"{what} has not started ({row['state']})" + (f": it needs {{{needs_text}}}" if needs_text else "") + lacking
            return Finding(kind="pending", text=text, culprit=what, advice="./scripts/50_status.sh shows what the nodes have")
    if demands:
        return Finding(
            kind="pending", text=f"Ray cannot place {', '.join(demands)}", advice="./scripts/50_status.sh shows the nodes"
        )
    return None
