"""The process beside a job runner that samples every worker: ``python3 -m mvp_helpers.usage.sampler FOLDER``, until SIGTERM.

It measures its own host itself, and every other worker from ``EVERY_S`` on, by a task there that asks Ray for nothing and never
returns: Ray's loop for a worker without work costs more than all the rest. It connects to Ray as a driver of its own, not as one
of the job: neither Ray's record of the job nor its bundles contain these tasks, and Ray ends them with this process. What fails
is a sample without that host, and never anything of the job.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ..base import processes
from ..base.paths import JobFolder
from ..base.project import PROJECT
from ..record import metrics
from . import host
from .host import Host
from .resources import Log

EVERY_S = 10.0
ANSWER_S = 5.0
"""How long the hosts have for one answer."""
END_S = 2.0
LOOK_AGAIN = 6
"""Samples between two looks at Ray's nodes: some may be new."""
JOB_FOLDER, INSTANCE, JOB_CONFIG = "MVP_JOB_FOLDER", "MVP_RAY_INSTANCE", "RAY_JOB_CONFIG_JSON_ENV_VAR"


def start(folder: JobFolder, node_id: str | None) -> subprocess.Popen[bytes] | None:
    """Start the sampler of a job beside this process, with which it ends; None when it cannot be started.

    ``node_id`` is this host's Ray node: Ray itself may take a driver for one of another node of the same machine.
    """
    own = {"PYTHONPATH": str(PROJECT / "lib"), "PYTHONSAFEPATH": "1"}
    # The id of no job: Ray lists drivers without one as jobs of their own, and those of a job as that job's.
    config = {"metadata": {"job_submission_id": f"{folder.submission_id}:sampler"}, "runtime_env": {"env_vars": own}}
    try:
        folder.resources.touch()  # also of a job that ends before its first sample
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder.path), node_id or ""],
            env={**os.environ, **own, JOB_CONFIG: json.dumps(config)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=processes.die_with_parent,
        )
    except OSError:
        return None


def stop(process: subprocess.Popen[bytes] | None) -> None:
    """End the sampler: when this returns, nothing of it writes into the job folder any more."""
    if process:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Workers:
    """A stream of samples from every worker but this host, once Ray is connected; ``problem`` says why there are none."""

    def __init__(self, folder: JobFolder, own_node: str) -> None:
        self._folder, self._own_node = str(folder.path), own_node
        self._streams: dict[str, Any] = {}
        self._looks = 0
        self.connected, self.problem = False, ""
        threading.Thread(target=self._connect, daemon=True).start()

    def _connect(self) -> None:
        try:
            if "RAY_ADDRESS" not in os.environ:  # without one Ray joins any cluster that it finds
                raise OSError("RAY_ADDRESS is not set")
            import ray

            ray.init(os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level=logging.ERROR)
            self.connected = True
        except Exception as error:
            self.problem = f"only this host: {type(error).__name__}: {str(error)[:200]}"

    def samples(self) -> list[dict[str, Any]]:
        """Return the newest sample of each host that has one in time."""
        import ray

        if self._looks % LOOK_AGAIN == 0:
            self._look()
        self._looks += 1
        if self._streams:
            ray.wait(list(self._streams.values()), num_returns=len(self._streams), timeout=ANSWER_S, fetch_local=False)
        found = []
        for node, stream in list(self._streams.items()):
            newest = None
            try:
                while ray.wait([stream], timeout=0, fetch_local=False)[0]:
                    newest = ray.get(next(stream))
            except Exception:  # its node is gone; a new one has another id
                del self._streams[node]
            found += [newest] if newest else []
        return sorted(found, key=lambda sample: str(sample["host"]))

    def _look(self) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        own = self._own_node or ray.get_runtime_context().get_node_id()
        for node in ray.nodes():
            name = node["NodeID"]
            elsewhere = "node:__internal_head__" not in node["Resources"] and name != own
            if node["Alive"] and elsewhere and name not in self._streams:
                there = NodeAffinitySchedulingStrategy(name, soft=False)
                task = ray.remote(num_cpus=0, max_retries=0, num_returns="streaming")(host.stream)
                self._streams[name] = task.options(scheduling_strategy=there).remote(self._folder, JOB_FOLDER, INSTANCE, EVERY_S)


def main(folder: JobFolder, own_node: str) -> None:
    """Write samples until this process is ended."""
    here = Host(str(folder.path), JOB_FOLDER, INSTANCE)
    here.calm()
    log = Log(folder.resources, EVERY_S)
    log.add(time.time(), 0, [here.sample()])
    workers = None
    while True:
        host.sleep_until_next(log.every_s)
        workers = workers or Workers(folder, own_node)
        at, own = time.time(), here.sample()
        try:
            hosts = workers.samples() if workers.connected else []
        except Exception as error:  # Ray is gone
            hosts, workers.problem = [], f"only this host: {type(error).__name__}: {str(error)[:200]}"
        own |= {"problem": workers.problem} if workers.problem else {}
        log.add(at, metrics.tail(folder.metrics)[0], [own, *hosts])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        main(JobFolder(Path(sys.argv[1])), sys.argv[2])
    finally:
        os._exit(0)  # Ray's own end can wait for nodes that do not answer
