"""A cluster's hosts: the cluster file's settings, their addresses, the files that they get; and the parts of script 00."""

from __future__ import annotations

import os
import sys

import click

from . import coloured
from .values import Count, Pair, Seconds


@click.command("cluster")
@click.argument("name")
@click.option(
    "--at", multiple=True, type=Pair("HOST=IP"), metavar="HOST=IP", help="The address of a host without one in the file."
)
@click.option("--here", default="", metavar="HOST", help="The host that is this machine; no ssh to it.")
def cluster(name: str, at: tuple[tuple[str, str], ...], here: str) -> None:
    """Print a cluster file as shell assignments, for eval. NAME is a name in templates/ray/ or the path of a cluster file."""
    from ..cluster import cluster_file

    loaded = cluster_file.load(name, dict(at), here)
    if here:
        loaded.host(here)
    print(loaded.to_shell(), end="")


@click.command("own-address")
def own_address() -> None:
    """Print the address at which other hosts reach this one."""
    from ..cluster import addresses, cluster_file

    print(addresses.own(cluster_file.from_environment()))


@click.command("share-gpus")
@click.argument("chosen", nargs=-1)
def share_gpus(chosen: tuple[str, ...]) -> None:
    """Divide this machine's GPUs among workers that share it, and print shell assignments, for eval: MVP_GPUS_0=… and so on.

    CHOSEN are the GPU ids that the user gave each worker, "" for none given. Prints nothing where nvidia-smi lists no GPU.
    """
    import shlex

    from ..cluster import gpus, shape

    ids = [gpu.index for gpu in gpus.cards({}).gpus]
    for at, share in enumerate(shape.shares(ids, chosen) if ids else []):
        print(f"MVP_GPUS_{at}={shlex.quote(share)}")


@click.command("tool-files")
def tool_files() -> None:
    """Print the names of the files that are deployed, each ended by a zero byte."""
    from ..base import project

    sys.stdout.buffer.write(b"".join(os.fsencode(file) + b"\0" for file in project.files()))


@click.command("host-facts")
@click.argument("host")
@click.option("--canary", required=True, metavar="NAME", help="The name of this check's canary files.")
@click.option("--read", is_flag=True, help="Second round: report which hosts' canaries are visible here.")
def host_facts(host: str, canary: str, read: bool) -> None:
    """Print the facts of this host as one line of JSON."""
    import msgspec

    from ..cluster import cluster_file, prereq

    look = prereq.canaries if read else prereq.host_facts
    # One write a host: the lines of all hosts go into one pipe at the same time.
    os.write(1, msgspec.json.encode(look(cluster_file.from_environment(), host, canary)) + b"\n")


@click.command("all-reduce")
@click.argument("host")
@click.option("--free-port", is_flag=True, help="Only print a port on which the workers can meet (run on the first worker).")
@click.option("--port", type=Count(0, 65535, example=29500), default=0, help="The port of the first worker where they meet.")
@click.option("--timeout", type=Seconds(), default=120.0, help="Give up after this many seconds (default 120).")
def all_reduce(host: str, free_port: bool, port: int, timeout: float) -> None:
    """Run this worker's part of the all-reduce test; print one line of JSON."""
    import signal

    import msgspec

    from ..cluster import all_reduce, cluster_file

    loaded = cluster_file.from_environment()
    if free_port:
        print(all_reduce.free_port(loaded))
        return
    # In the background bash ignores SIGINT; either signal also ends the processes of the test.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    outcome = all_reduce.measure(loaded, host, port, timeout)
    os.write(1, msgspec.json.encode(outcome) + b"\n")


@click.command("prereq")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--nccl", is_flag=True, help="Stdin also contains the all-reduce outcome of each worker.")
def prereq(as_json: bool, nccl: bool) -> int:
    """Decide from the hosts' facts on stdin; exit code 3 when a check fails."""
    import shutil

    import msgspec

    from ..base import verdict
    from ..cluster import all_reduce, cluster_file, prereq

    loaded = cluster_file.from_environment()
    parts = [[line for line in part.splitlines() if line.strip()] for part in sys.stdin.read().split("\n\n", 2)]
    facts, second = ([msgspec.json.decode(line, type=prereq.Facts) for line in part] for part in parts[:2])
    checks = prereq.decide(loaded, facts, second, prereq.tool_versions())
    if nccl:
        checks.append(prereq.all_reduce_check(loaded, [msgspec.json.decode(line, type=all_reduce.Outcome) for line in parts[2]]))
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(checks), indent=2).decode())
    else:
        # Without a terminal each check is one line, so that the output can be searched.
        print(verdict.table(checks, shutil.get_terminal_size((10_000, 24)).columns, colour=coloured()))
    return 0 if verdict.all_met(checks) else 3
