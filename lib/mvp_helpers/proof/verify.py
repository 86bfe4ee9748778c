"""Proof, from a job folder's evidence alone, that a job ran as it should: one small function per check.

A check returns its evidence when it passes and raises ``Fail`` or ``Skip`` with it otherwise. Nothing is asked of Ray: what it
said is in the debug bundles.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ..base.errors import MvpError
from ..base.paths import JobFolder
from ..base.times import seconds_of
from ..plan import plan
from ..plan.plan import VIAS, Plan
from ..record import job_folder, metrics
from ..record.job_folder import Result

CLOCK_TOLERANCE_S = 5.0
"""How far the clocks of head, worker and file server may differ."""
LOG_HEAD_BYTES = 4 << 20
"""The precheck's lines are among the first of the driver log."""
SNAPSHOT_KINDS = ("ray_status.txt", "jobs.json", "nodes.json", "actors.json", "placement_groups.json")
MOMENTS = {"submission": {"submitted"}, "start": {"started"}, "end": {state.lower() for state in job_folder.TERMINAL}}


class Fail(Exception):
    """The check failed; the text is the evidence."""


class Skip(Exception):
    """The check does not apply; the text says why."""


@dataclass(frozen=True)
class Check:
    name: str
    verdict: Literal["Pass", "Fail", "Skipped"]
    evidence: str

    def to_builtins(self) -> dict[str, str]:
        return {"check": self.name, "verdict": self.verdict, "evidence": self.evidence}


@dataclass(frozen=True)
class Report:
    """All checks of one job."""

    folder: JobFolder
    workload: str
    checks: list[Check]

    @property
    def passed(self) -> bool:
        return not any(check.verdict == "Fail" for check in self.checks)

    def to_builtins(self) -> dict[str, Any]:
        checks = [check.to_builtins() for check in self.checks]
        return {"id": self.folder.submission_id, "folder": str(self.folder.path), "passed": self.passed, "checks": checks}


class Job:
    """The evidence in one job folder, each file read once; reading a missing or damaged one raises ``Fail``."""

    def __init__(self, folder: JobFolder, result: Result) -> None:
        self.folder, self.result = folder, result

    @cached_property
    def plan(self) -> Plan:
        try:
            return plan.read(self.folder)
        except MvpError as error:
            raise Fail(error.what) from None

    @cached_property
    def provenance(self) -> dict[str, Any]:
        return dict(self.read_json(self.folder.provenance))

    @cached_property
    def precheck(self) -> dict[str, Any]:
        return dict(self.read_json(self.folder.precheck))

    @cached_property
    def metrics(self) -> metrics.Metrics:
        if not self.folder.metrics.is_file():
            raise Fail("metrics.jsonl is missing")
        return metrics.read(self.folder.metrics)

    @property
    def trains(self) -> bool:
        """Whether this workload is a trainer: something that imports verl, logs steps and saves checkpoints."""
        return bool(self.plan.imports)

    @cached_property
    def bundles(self) -> list[Path]:
        return sorted(path for path in self.folder.debug.glob("[!.]*") if path.is_dir())

    @cached_property
    def nodes(self) -> dict[str, dict[str, Any]]:
        """Node rows of all debug bundles by node id."""
        return {row["node_id"]: row for file in self._in_bundles("nodes.json") for row in self._rows(file)}

    @cached_property
    def ray_records(self) -> list[dict[str, Any]]:
        """Ray's own records of this job, oldest first."""
        found = [row for name in ("jobs.json", "job.json") for file in self._in_bundles(name) for row in self._rows(file)]
        return [row for row in found if row.get("submission_id") == self.folder.submission_id]

    @cached_property
    def processes(self) -> list[dict[str, Any]]:
        """Rows of the Ray actors that this job's driver started, of all debug bundles, each actor once (its newest row)."""
        driver = self.ray_records[-1]["job_id"] if self.ray_records else _fail("debug/*/job.json: no record of this job")
        found = {row["actor_id"]: row for file in self._in_bundles("actors.json") for row in self._rows(file)}
        return [row for row in found.values() if driver and row["job_id"] == driver]

    @property
    def head(self) -> dict[str, Any]:
        return self.hosts("head")[0]

    def hosts(self, role: str) -> list[dict[str, Any]]:
        found = [host for host in self.provenance["hosts"] if host["role"] == role]
        return found or _fail(f"provenance.json: hosts has no {role}")

    def _in_bundles(self, name: str) -> list[Path]:
        return [bundle / name for bundle in self.bundles if (bundle / name).is_file()]

    def _rows(self, path: Path) -> list[dict[str, Any]]:
        rows = self.read_json(path)
        return rows if isinstance(rows, list) else _fail(f"{self.name_of(path)} is not a list")

    def read_json(self, path: Path) -> Any:
        try:
            return json.loads(path.read_bytes())
        except FileNotFoundError:
            raise Fail(f"{self.name_of(path)} is missing") from None
        except (OSError, ValueError) as error:
            raise Fail(f"{self.name_of(path)} cannot be read: {error}") from None

    def name_of(self, path: Path) -> str:
        return str(path.relative_to(self.folder.path))


def _fail(evidence: str) -> Any:
    raise Fail(evidence)


def _need(holds: bool, evidence: str) -> None:
    if not holds:
        raise Fail(evidence)


# The checks. Each takes the job, and the jobs before it, oldest first.


def ended_well(job: Job, _: Sequence[Job]) -> str:
    result = job.result
    told = f"result.json: state {result.state}, exit_code {result.exit_code}"
    _need(result.state == "SUCCEEDED" and result.exit_code == 0, told + (f", {result.reason}" if result.reason else ""))
    return told


def running(job: Job, _: Sequence[Job]) -> str:
    seen = sorted({str(row.get("status")) for row in job.ray_records})
    _need("RUNNING" in seen, f"debug/*/job.json: Ray never said RUNNING ({', '.join(seen) or 'no record of this job'})")
    return f"debug/*/job.json: Ray said RUNNING; result.json: started_at {job.result.started_at}"


def submitted_from_head(job: Job, _: Sequence[Job]) -> str:
    source, head = job.provenance["submitted_from"], job.head
    for key, wanted in (("host", head["name"]), ("ip", head["ip"]), ("node_id", head["node_id"])):
        _need(
            bool(wanted) and source[key] == wanted,
            f"provenance.json: submitted_from.{key} {source[key]}, but the head's is {wanted}",
        )
    row = job.nodes.get(head["node_id"]) or _fail(f"debug/*/nodes.json: no node {_short(head['node_id'])}")
    _need(row["is_head_node"], f"debug/*/nodes.json: node {_short(head['node_id'])} is not Ray's head")
    command = _text(job, job.folder.submit_cmd)
    ways = [shlex.join(job.plan.submit_argv(via)[:7]) for via in VIAS]
    way = next((way for way in ways if f"{way} " in command), "") or _fail(f"config/submit_cmd.txt has no '{ways[0]}'")
    told = f"provenance.json: submitted_from {source['host']} ({source['ip']}, node {_short(source['node_id'])})"
    return f"{told}; nodes.json: is_head_node; submit_cmd.txt: {way.partition(' --')[0]}"


def driver_on_worker(job: Job, _: Sequence[Job]) -> str:
    node, ip = job.result.driver_node_id, job.result.driver_node_ip
    if not node or not ip:
        raise Fail(f"result.json: driver_node_id {node}, driver_node_ip {ip}")
    row = job.nodes.get(node) or _fail(f"debug/*/nodes.json: no node {_short(node)}")
    _need(not row["is_head_node"], f"debug/*/nodes.json: the driver's node {_short(node)} is the head")
    _need(row["node_ip"] == ip, f"result.json: driver_node_ip {ip}, but nodes.json has {row['node_ip']} for its node")
    workers = [host["ip"] for host in job.hosts("worker")]
    _need(
        ip in workers and ip != job.head["ip"],
        f"result.json: driver_node_ip {ip} is not one of the workers' ({', '.join(workers)})",
    )
    recorded = {str(found) for record in job.ray_records if (found := record.get("driver_node_id"))}
    _need(
        recorded == {node},
        f"debug/*/jobs.json: Ray's driver_node_id {sorted(recorded) or 'none'}, result.json has {_short(node)}",
    )
    seen = {str(found["node_ip_address"]) for record in job.ray_records if (found := record.get("driver_info"))}
    told = f"result.json: node {_short(node)} ({ip}), a worker; Ray's driver_node_id agrees; driver_info.node_ip_address "
    told += ", ".join(sorted(seen)) or "not recorded"
    if job.plan.host_driver == "local":
        # Nodes that share a machine: Ray computes this address from its route to the head, whatever the node.
        return told + ("" if seen <= {ip} else " (decides nothing where nodes share a machine)")
    _need(seen == {ip} or not (seen or job.trains), told)
    return told


def trained_on_this_cluster(job: Job, _: Sequence[Job]) -> str:
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' is no trainer")
    listed = {node: row for node, row in job.nodes.items() if row["state"] == "ALIVE"}
    for host in [job.head, *job.hosts("worker")]:
        _need(host["node_id"] in listed, f"debug/*/nodes.json: no node {_short(host['node_id'])} ({host['name']})")
    workers = {host["node_id"]: host["name"] for host in job.hosts("worker")}
    for row in job.processes:
        _need(row["node_id"] in workers, f"actors.json: {row['class_name']} on node {_short(row['node_id'])}, no worker's")
    # A trainer that had started a Ray cluster of its own would have left nothing in this one's list.
    told = f"actors.json: {len(job.processes)} processes of this job's driver"
    _need(len(job.processes) >= job.plan.world_size, f"{told}, expected {job.plan.world_size} or more")
    used = sorted({workers[row["node_id"]] for row in job.processes})
    return f"{told} on {', '.join(used)}, nodes of the cluster it was submitted to (nodes.json: {len(listed)} nodes alive)"


def own_folder(job: Job, _: Sequence[Job]) -> str:
    name, result = job.folder.submission_id, job.result
    for file, found in (
        ("result.json: submission_id", result.submission_id),
        ("resolved.yaml: submission_id", job.plan.submission_id),
    ):
        _need(found == name, f"{file} {found}, but the folder is {name}")
    _need(
        _same(job.plan.job_folder, job.folder.path),
        f"resolved.yaml: job_folder {job.plan.job_folder}, but this is {job.folder.path}",
    )
    index = job.folder.path.parent / ".index"
    claims = sorted(path.name for path in index.glob(f"*_{name}")) if index.is_dir() else []
    claims = [claim for claim in claims if claim.partition("_")[2] == name]
    _need(len(claims) == 1, f"jobs/.index: {len(claims)} claims of this id: {', '.join(claims)}")
    _need(
        claims[0].partition("_")[0] == result.claimed_at.replace(":", ""),
        f"result.json: claimed_at {result.claimed_at}, but jobs/.index has {claims[0]}",
    )
    for key in ("submitted_at", "started_at", "ended_at"):
        moment = getattr(result, key)
        late = moment is None or seconds_of(moment) >= seconds_of(result.claimed_at) - CLOCK_TOLERANCE_S
        _need(late, f"result.json: {key} {moment} is before claimed_at {result.claimed_at}")
    return f"one claim in jobs/.index ({result.claimed_at}), nothing before it; result.json and resolved.yaml name this folder"


def nothing_older(job: Job, _: Sequence[Job]) -> str:
    claimed = seconds_of(job.result.claimed_at)
    count = 0
    for path in _files(job.folder.checkpoints, job.folder.logs, job.folder.metrics):
        count += 1
        age = claimed - path.stat().st_mtime
        _need(age <= CLOCK_TOLERANCE_S, f"{job.name_of(path)} is {age:.0f} s older than the claim")
    return f"{count} files in checkpoints/, logs/ and metrics.jsonl, none older than claimed_at"


def nothing_resumed(job: Job, _: Sequence[Job]) -> str:
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' is no trainer")
    given = dict(_argument(text) for text in job.plan.argv if "=" in text)
    target, mode = given.get("trainer.default_local_dir"), given.get("trainer.resume_mode")
    _need(bool(target) and _inside(Path(str(target)), job.folder.path), f"resolved.yaml: trainer.default_local_dir={target}")
    resume, named = job.plan.resume, job.provenance.get("resumed_from")
    _need(mode == ("resume_path" if resume else "disable"), f"resolved.yaml: trainer.resume_mode={mode}")
    first = min(job.metrics.trained, default=None)
    _need(first == job.plan.first_step, f"metrics.jsonl: the first step is {first}, expected {job.plan.first_step}")
    told = (
        f"resolved.yaml: trainer.default_local_dir={target}, trainer.resume_mode={mode}; metrics.jsonl: the first step is {first}"
    )
    if not resume:
        _need(not named, f"provenance.json: resumed_from {named}, but the plan resumes nothing")
        return f"nothing resumed: {told}"
    path, source = str(given.get("trainer.resume_from_path")), f"step {resume.step} of {resume.submission_id}"
    wanted = job.folder.path.parent / resume.submission_id / "checkpoints" / f"global_step_{resume.step}"
    _need(_same(path, wanted), f"resolved.yaml: trainer.resume_from_path={path}, but resume names {source}")
    recorded = named and f"step {named['step']} of {named['submission_id']}"
    _need(recorded == source, f"provenance.json: resumed_from {recorded}, but resolved.yaml resumes {source}")
    return f"resumed {source}, as provenance.json says: {told}"


def inputs_reused(job: Job, before: Sequence[Job]) -> str:
    own = job.provenance["inputs"]
    if not own:
        raise Skip("the job uses neither model nor data")
    if not before:
        raise Skip("the first of the jobs given: reuse shows from the second on")
    shared = {name: previous for name, facts in own.items() if (previous := _last_user(facts["path"], before))}
    if not shared:
        raise Skip("no job before it used the same " + " or ".join(own))
    for name, previous in shared.items():
        mine, theirs = own[name], _inputs_by_path(previous)[own[name]["path"]]
        first = next(earlier for earlier in before if mine["path"] in _inputs_by_path(earlier))
        where = f"provenance.json: {name} {mine['path']}"
        _need(
            bool(mine["identity"]) and mine["identity"] == theirs["identity"],
            f"{where} has identity {_short(mine['identity'])}, in {previous.folder.submission_id} {_short(theirs['identity'])}",
        )
        _need(
            bool(mine["made_at"]) and seconds_of(mine["made_at"]) < seconds_of(first.result.claimed_at),
            f"{where} was made at {mine['made_at']}, after {first.folder.submission_id} was claimed ({first.result.claimed_at})",
        )
    told = ", ".join(f"{name} {_short(own[name]['identity'])} made {own[name]['made_at']}" for name in shared)
    others = ", ".join(sorted({previous.folder.submission_id for previous in shared.values()}))
    return f"provenance.json: {told}: the same as in {others}, made before it was claimed"


def checkpoints(job: Job, _: Sequence[Job]) -> str:
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' is no trainer")
    if not isinstance(save_freq := job.plan.save_freq, int):
        raise Skip(f"resolved.yaml: save_freq is {save_freq}")
    folder, last = job.folder.checkpoints, job.metrics.last
    _need(_inside(folder, job.folder.path), f"checkpoints/ leads out of the job folder, to {folder.resolve()}")
    found = {int(match[1]): path for path in folder.iterdir() if (match := re.fullmatch(r"global_step_(\d+)", path.name))}
    # verl saves the last step too; SFT even when save_freq is off.
    wanted = (
        {step for step in range(job.plan.first_step, last + 1) if step == last or step % save_freq == 0}
        if save_freq > 0
        else {last} & found.keys()
    )
    told = f"checkpoints/: steps {_steps(found)} (save_freq {save_freq}, last step {last})"
    _need(bool(last) and found.keys() == wanted, f"{told}, expected {_steps(wanted)}")
    for step, path in sorted(found.items()):
        _need(_inside(path, job.folder.path), f"checkpoints/{path.name} leads out of the job folder, to {path.resolve()}")
        _need(any(file.stat().st_size for file in _files(path)), f"checkpoints/global_step_{step} is empty")
    return told


def snapshots(job: Job, _: Sequence[Job]) -> str:
    events: dict[str, int] = {}
    for bundle in job.bundles:
        kinds = [name for name in SNAPSHOT_KINDS if (bundle / name).is_file() and (bundle / name).stat().st_size]
        events[bundle.name.partition("-")[2]] = len(kinds)
        _need(
            len(kinds) >= 2,
            f"debug/{bundle.name}: {len(kinds)} kinds of Ray snapshots ({', '.join(kinds) or 'none'}), expected 2",
        )
    told = ", ".join(f"{event} {count} kinds" for event, count in events.items())
    for moment, names in MOMENTS.items():
        _need(bool(names & events.keys()), f"debug/: no bundle of the job's {moment} ({told or 'none at all'})")
    return f"debug/: {told}"


def code_from_code_path(job: Job, _: Sequence[Job]) -> str:
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' imports nothing from a snapshot")
    root, code_id, seen = Path(str(job.plan.code_path)), job.plan.code_id, job.precheck
    _need(seen["ok"], f"precheck.json: not ok: {'; '.join(seen['problems'])}")
    first = job.plan.env_vars.get("PYTHONPATH", "").split(":")[0]
    _need(first == str(root), f"resolved.yaml: PYTHONPATH begins with {first}, not with code_path {root}")
    for where, process in [("driver", seen["driver"]), *((f"Ray worker on {row['ip']}", row) for row in seen["ray_workers"])]:
        for module in job.plan.imports:
            file = process["modules"].get(module)
            _need(bool(file) and _inside(Path(str(file)), root), f"precheck.json: {where}: {module} from {file}, not from {root}")
        _need(process["marker"] == code_id, f"precheck.json: {where}: marker {process['marker']}, but code_id is {code_id}")
    looked, workers = ({str(row["node_id"]) for row in rows} for rows in (seen["ray_workers"], job.hosts("worker")))
    _need(looked >= workers, f"precheck.json: not looked at on {', '.join(_short(node) for node in sorted(workers - looked))}")
    printed = precheck_lines(job)
    for module in job.plan.imports:
        key = f"MVP_PRECHECK_{module.upper().replace('.', '_')}_FILE"
        _need(printed.get(key) == {seen["driver"]["modules"][module]}, f"logs/driver.log: {key}={_any(printed.get(key))}")
    key = "MVP_PRECHECK_MARKER"
    _need(printed.get(key) == {code_id}, f"logs/driver.log: {key}={_any(printed.get(key))}, but code_id is {code_id}")
    told = f"{', '.join(job.plan.imports)} from {root} in the driver and on {len(looked)} workers, marker {code_id}"
    return f"precheck.json and driver.log: {told}"


def metrics_whole(job: Job, _: Sequence[Job]) -> str:
    if not job.trains and not job.folder.metrics.exists():
        raise Skip(f"workload '{job.plan.workload}' logs no metrics")
    found = job.metrics
    _need(not found.damaged, f"metrics.jsonl: line {(found.damaged or [0])[0]} is not a step")
    expected = job.result.steps_total or (job.precheck["steps_total"] if job.trains else None)
    total, first = expected or found.last, job.plan.first_step
    _need(
        bool(found.trained) and found.trained == list(range(first, total + 1)),
        f"metrics.jsonl: steps {_steps(found.trained)}, expected {first}-{total}",
    )
    for step, data in found.steps.items():
        bad = [key for key, value in data.items() if not _finite(value)]
        # verl's file logger writes NaN and infinity as null.
        _need(
            not bad,
            f"metrics.jsonl: step {step}: {(bad or [''])[0]} is {data.get((bad or [''])[0])} ({len(bad)} values not finite)",
        )
    known = "as expected" if expected else "how many to expect was not known"
    return f"metrics.jsonl: steps {first}-{total}, {known}; {sum(map(len, found.steps.values()))} values, all finite"


CHECKS: dict[str, Callable[[Job, Sequence[Job]], str]] = {
    "succeeded": ended_well,
    "running": running,
    "submitted from the head": submitted_from_head,
    "driver on a worker": driver_on_worker,
    "trained on this cluster": trained_on_this_cluster,
    "own folder": own_folder,
    "nothing older in it": nothing_older,
    "nothing resumed unasked": nothing_resumed,
    "data and model reused": inputs_reused,
    "checkpoints": checkpoints,
    "Ray snapshots": snapshots,
    "code from code_path": code_from_code_path,
    "metrics": metrics_whole,
}


def verify(jobs: Sequence[tuple[JobFolder, Result]]) -> list[Report]:
    """A report for each job, in the order given; ``data and model reused`` compares them in the order of their claims."""
    evidence = [Job(folder, result) for folder, result in jobs]
    in_time = sorted(evidence, key=lambda job: job.result.claimed_at)
    return [Report(job.folder, job.result.workload, _report(job, in_time[: in_time.index(job)])) for job in evidence]


def _report(job: Job, before: Sequence[Job]) -> list[Check]:
    if not job.result.ended:
        told = f"the job has not ended: result.json says {job.result.state}"
        first, *rest = CHECKS
        return [Check(first, "Fail", told), *(Check(name, "Skipped", "the job has not ended") for name in rest)]
    return [judge(name, check, job, before) for name, check in CHECKS.items()]


def judge(name: str, check: Callable[[Job, Sequence[Job]], str], job: Job, before: Sequence[Job]) -> Check:
    try:
        return Check(name, "Pass", check(job, before))
    except Fail as fail:
        return Check(name, "Fail", str(fail))
    except Skip as skip:
        return Check(name, "Skipped", str(skip))
    except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:
        # Evidence of another shape than we write proves nothing.
        return Check(name, "Fail", f"damaged evidence: {type(error).__name__}: {error}")


def table(report: Report, width: int) -> str:
    """One report for people, lines of at most ``width`` columns."""
    return rows(f"{report.folder.submission_id}  {report.folder.path}", report.checks, width)


def rows(title: str, checks: Sequence[Check], width: int) -> str:
    """A title and a row for each check, its evidence folded to lines of at most ``width`` columns."""
    import textwrap

    signs = {"Pass": "✓", "Fail": "✗", "Skipped": "–"}
    longest = max(len(check.name) for check in checks)
    lines = [title]
    for check in checks:
        head = f"  {signs[check.verdict]} {check.verdict:<7}  {check.name:<{longest}}  "
        room = max(40, width - len(head))
        first, *rest = textwrap.wrap(check.evidence, room, break_on_hyphens=False) or [""]
        lines += [head + first, *(" " * len(head) + line for line in rest)]
    return "\n".join(lines)


def counts(reports: Sequence[Report]) -> str:
    """``2 jobs: 20 Pass, 0 Fail, 2 Skipped``."""
    verdicts = [check.verdict for report in reports for check in report.checks]
    jobs = f"{len(reports)} job{'s' if len(reports) != 1 else ''}"
    return f"{jobs}: " + ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("Pass", "Fail", "Skipped"))


def _text(job: Job, path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise Fail(f"{job.name_of(path)}: {error.strerror}") from None


def precheck_lines(job: Job) -> dict[str, set[str]]:
    """Values of the precheck's ``KEY=value`` lines at the beginning of the driver log."""
    try:
        with job.folder.driver_log.open("rb") as stream:
            text = stream.read(LOG_HEAD_BYTES).decode(errors="replace")
    except OSError as error:
        raise Fail(f"logs/driver.log: {error.strerror}") from None
    found: dict[str, set[str]] = {}
    for key, value in re.findall(r"^(MVP_PRECHECK_\w+)=(.*?)\r?$", text, re.MULTILINE):
        found.setdefault(key, set()).add(value)
    return found


def _files(*places: Path) -> Iterator[Path]:
    for place in places:
        if place.is_file():
            yield place
        elif place.is_dir():
            yield from (path for path in place.rglob("*") if path.is_file())


def _argument(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.lstrip("+"), value.strip("'\"")


def _last_user(path: str, before: Sequence[Job]) -> Job | None:
    return next((job for job in reversed(before) if path in _inputs_by_path(job)), None)


def _inputs_by_path(job: Job) -> dict[str, dict[str, Any]]:
    return {facts["path"]: facts for facts in job.provenance["inputs"].values()}


def _same(one: str | Path, other: str | Path) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _finite(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    return isinstance(value, str) or (isinstance(value, (int, float)) and math.isfinite(value))


def _steps(steps: Iterable[int]) -> str:
    """``1-9, 11`` for people."""
    ranges: list[list[int]] = []
    for step in sorted(steps):
        if ranges and step == ranges[-1][1] + 1:
            ranges[-1][1] = step
        else:
            ranges.append([step, step])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges) or "none"


def _any(values: set[str] | None) -> str:
    return " and ".join(sorted(values or {"(not printed)"}))


def _short(identity: str | None) -> str:
    return f"{identity[:12]}…" if identity and len(identity) > 12 else str(identity)
