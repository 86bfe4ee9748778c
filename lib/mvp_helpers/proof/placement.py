"""Checks of where a job ran, and with which code: submitted from the head, driven and trained on workers, from the snapshot."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ..job import import_proof
from ..plan.plan import VIAS
from ..trainers import verl_actors
from .evidence import Job, Skip, fail, inside, need, short


def running(job: Job, _: Sequence[Job]) -> str:
    """Ray saw the job run."""
    statuses = sorted({str(row.get("status")) for row in job.ray_records})
    for file in (job.in_bundles("job.json") or job.in_bundles("jobs.json"))[::-1]:
        if not job.cited:
            job.cite(file, '"status"', '"RUNNING"')
    need("RUNNING" in statuses, f"debug/*/job.json: Ray never reported RUNNING ({', '.join(statuses) or 'no record of it'})")
    job.cite(job.folder.result, '"started_at"')
    return f"debug/*/job.json: Ray reported RUNNING; result.json: started_at {job.result.started_at}"


def submitted_from_head(job: Job, _: Sequence[Job]) -> str:
    """The submission's host, address and node are the head's, and Ray calls that node its head."""
    source, head = job.provenance["submitted_from"], job.head
    job.cite(job.folder.provenance, '"submitted_from"')
    for key, wanted in (("host", head["name"]), ("ip", head["ip"]), ("node_id", head["node_id"])):
        need(
            bool(wanted) and source[key] == wanted,
            f"provenance.json: submitted_from.{key} {source[key]}, but the head's is {wanted}",
        )
    _cite_node(job, head["node_id"])
    row = job.nodes.get(head["node_id"]) or fail(f"debug/*/nodes.json: no node {short(head['node_id'])}")
    need(row["is_head_node"], f"debug/*/nodes.json: node {short(head['node_id'])} is not Ray's head")
    commands = job.text(job.folder.submit_cmd).splitlines()
    ways = [shlex.join(job.plan.submit_argv(via)) for via in VIAS]
    begins = shlex.join(job.plan.submit_argv()[:7])
    need(any(way in commands for way in ways), f"config/submit_cmd.txt has not the command of resolved.yaml, '{begins} …'")
    way = next(shlex.join(job.plan.submit_argv(via)[:7]) for via in VIAS if shlex.join(job.plan.submit_argv(via)) in commands)
    job.cite(job.folder.submit_cmd, way)
    place = f"provenance.json: submitted_from {source['host']} ({source['ip']}, node {short(source['node_id'])})"
    return f"{place}; nodes.json: is_head_node; submit_cmd.txt: {way.partition(' --')[0]}"


def driver_on_worker(job: Job, _: Sequence[Job]) -> str:
    """The driver ran on a worker, by the runner's record and by Ray's."""
    node, ip = job.result.driver_node_id, job.result.driver_node_ip
    job.cite(job.folder.result, '"driver_node_id"')
    if not node or not ip:
        raise fail(f"result.json: driver_node_id {node}, driver_node_ip {ip}")
    _cite_node(job, node)
    row = job.nodes.get(node) or fail(f"debug/*/nodes.json: no node {short(node)}")
    need(not row["is_head_node"], f"debug/*/nodes.json: the driver's node {short(node)} is the head")
    need(row["node_ip"] == ip, f"result.json: driver_node_ip {ip}, but nodes.json has {row['node_ip']} for its node")
    workers = [host["ip"] for host in job.hosts("worker")]
    need(
        ip in workers and ip != job.head["ip"],
        f"result.json: driver_node_ip {ip} is not one of the workers' ({', '.join(workers)})",
    )
    recorded = {str(driver) for record in job.ray_records if (driver := record.get("driver_node_id"))}
    need(
        recorded == {node},
        f"debug/*/jobs.json: Ray's driver_node_id {sorted(recorded) or 'none'}, result.json has {short(node)}",
    )
    seen = {str(driver["node_ip_address"]) for record in job.ray_records if (driver := record.get("driver_info"))}
    reason = f"result.json: node {short(node)} ({ip}), a worker; Ray's driver_node_id agrees; driver_info.node_ip_address "
    reason += ", ".join(sorted(seen)) or "not recorded"
    if job.plan.host_driver == "local":
        # Nodes that share a machine: Ray computes this address from its route to the head, whatever the node.
        return reason + ("" if seen <= {ip} else " (decides nothing where nodes share a machine)")
    need(seen == {ip} or not (seen or job.trains), reason)
    return reason


def trained_on_this_cluster(job: Job, _: Sequence[Job]) -> str:
    """The trainer's processes ran on workers of the cluster that the job was submitted to."""
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' is not a trainer")
    listed = {node: row for node, row in job.nodes.items() if row["state"] == "ALIVE"}
    for host in [job.head, *job.hosts("worker")]:
        need(host["node_id"] in listed, f"debug/*/nodes.json: no node {short(host['node_id'])} ({host['name']})")
    workers = {host["node_id"]: host["name"] for host in job.hosts("worker")}
    count = f"{len(job.processes)} processes of this job's driver"
    for file in job.in_bundles("actors.json")[-1:]:
        job.cite_whole(file, count)
    for row in job.processes:
        need(row["node_id"] in workers, f"actors.json: {row['class_name']} on node {short(row['node_id'])}, not a worker's")
    # A trainer that had started a Ray cluster of its own would have left nothing in this one's list.
    need(len(job.processes) >= job.plan.world_size, f"actors.json: {count}, expected {job.plan.world_size} or more")
    used = sorted({workers[row["node_id"]] for row in job.processes})
    cluster = f"nodes of the cluster it was submitted to (nodes.json: {len(listed)} nodes alive)"
    return f"actors.json: {count} on {', '.join(used)}, {cluster}"


def code_from_code_path(job: Job, _: Sequence[Job]) -> str:
    """The driver and the Ray workers imported the snapshot's modules, and the driver log says so."""
    if not job.trains:
        raise Skip(f"workload '{job.plan.workload}' imports nothing from a snapshot")
    root, code_id, seen = Path(str(job.plan.code_path)), job.plan.code_id, job.precheck
    job.cite(job.folder.precheck, '"ok"')
    need(seen["ok"], f"precheck.json: not ok: {'; '.join(seen['problems'])}")
    first = job.plan.env_vars.get("PYTHONPATH", "").split(":")[0]
    need(first == str(root), f"resolved.yaml: PYTHONPATH begins with {first}, not with code_path {root}")
    for where, process in [("driver", seen["driver"]), *((f"Ray worker on {row['ip']}", row) for row in seen["ray_workers"])]:
        for module in job.plan.imports:
            file = process["modules"].get(module)
            need(bool(file) and inside(Path(str(file)), root), f"precheck.json: {where}: {module} from {file}, not from {root}")
        need(process["marker"] == code_id, f"precheck.json: {where}: marker {process['marker']}, but code_id is {code_id}")
    looked, workers = ({str(row["node_id"]) for row in rows} for rows in (seen["ray_workers"], job.hosts("worker")))
    if import_proof.by_the_trainer(job.plan):
        # The processes that train recorded their own imports: as many as there are, on the nodes where they are.
        lacking = import_proof.missing([*seen["ray_workers"], seen["driver"]], job.plan)
        need(not lacking, f"precheck.json: {'; '.join(lacking)}")
        workers &= {str(row["node_id"]) for row in job.processes if row["class_name"] not in verl_actors.WITHOUT_VERL}
    need(looked >= workers, f"precheck.json: not checked on {', '.join(short(node) for node in sorted(workers - looked))}")
    for module in job.plan.imports:
        key = f"MVP_PRECHECK_{module.upper().replace('.', '_')}_FILE"
        job.cite(job.folder.driver_log, f"{key}=")
        need(job.printed.get(key) == {seen["driver"]["modules"][module]}, f"logs/driver.log: {key}={_printed(job, key)}")
    key = "MVP_PRECHECK_MARKER"
    job.cite(job.folder.driver_log, f"{key}=")
    need(job.printed.get(key) == {code_id}, f"logs/driver.log: {key}={_printed(job, key)}, but code_id is {code_id}")
    modules = ", ".join(job.plan.imports)
    return f"precheck.json and driver.log: {modules} from {root} in the driver and on {len(looked)} workers, marker {code_id}"


def _cite_node(job: Job, node: str) -> None:
    for file in job.in_bundles("nodes.json")[-1:]:
        job.cite(file, node)


def _printed(job: Job, key: str) -> str:
    return " and ".join(sorted(job.printed.get(key) or {"(not printed)"}))
