"""Runs in the launch's own interpreter, read from stdin: reports what it imports, here and in a Ray worker.

argv: one JSON object ``{"modules", "ray": null or the arguments of ray.init}``; stdout: the line ``MVP_PROBE {...}``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any


def look(modules: list[str]) -> dict[str, Any]:
    """Return where each module comes from in this process."""
    import importlib
    import os
    import sys

    found: dict[str, Any] = {
        "python": sys.executable,
        "version": sys.version.split()[0],
        "pid": os.getpid(),
        "files": {},
        "errors": {},
        "versions": {},
    }
    for name in modules:
        try:
            module = importlib.import_module(name)
            file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), "")
            found["files"][name] = os.path.realpath(file) if file else ""
            found["versions"][name] = str(getattr(module, "__version__", ""))
        except BaseException as error:
            found["errors"][name] = f"{type(error).__name__}: {error}"[:500]
    return found


def in_ray(modules: list[str], how: dict[str, Any]) -> dict[str, Any]:
    """Return the same for one Ray worker; without an address a Ray is started here, which ends with this process."""
    try:
        import ray

        ray.init(**how, log_to_driver=False, include_dashboard=False) if not how.get("address") else ray.init(
            **how, log_to_driver=False
        )
        nodes = [node for node in ray.nodes() if node["Alive"]]
        gpus = max((int(node["Resources"].get("GPU", 0)) for node in nodes), default=0)
        answer = ray.get(ray.remote(num_cpus=0, max_retries=0)(look).remote(modules), timeout=300)
        ray.shutdown()
        return {**answer, "nodes": len(nodes), "gpus_of_a_node": gpus}
    except BaseException as error:
        return {"files": {}, "errors": {"ray": f"{type(error).__name__}: {error}"[:1000]}, "versions": {}}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    answer: dict[str, Any] = {"driver": look(request["modules"])}
    if request["ray"] is not None:
        answer["worker"] = in_ray(request["modules"], request["ray"])
    answer["missing"] = [name for name in request["packages"] if importlib.util.find_spec(name) is None]
    sys.stdout.write("\nMVP_PROBE " + json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)
