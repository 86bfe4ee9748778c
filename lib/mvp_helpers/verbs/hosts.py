"""A cluster's hosts: the cluster file's settings, their addresses, and the files of this project that they get."""

from __future__ import annotations

import os
import sys

import click

from .values import Pair


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
