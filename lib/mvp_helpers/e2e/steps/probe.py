"""Runs in the launch's own interpreter, read from stdin: reports what it imports, here and in Ray workers.

argv: one JSON object ``{"modules", "packages", "ray": null or the arguments of ray.init, "gpus": those of a worker, "snapshot":
the folder of a model that must load}``; stdout: the line ``MVP_PROBE {...}``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any

WAIT_S = 300
FEWEST_TOKENS = 100
"""Some tokenizers load from a folder without their files, with special tokens alone."""


def look(modules: list[str]) -> dict[str, Any]:
    """Return where each module comes from in this process."""
    import importlib
    import os
    import sys

    imported: dict[str, Any] = {
        "python": sys.executable,
        "version": sys.version.split()[0],
        "host": os.uname().nodename,
        "files": {},
        "errors": {},
        "versions": {},
    }
    for name in modules:
        try:
            module = importlib.import_module(name)
            file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), "")
            imported["files"][name] = os.path.realpath(file) if file else ""
            imported["versions"][name] = str(getattr(module, "__version__", ""))
        except BaseException as error:
            imported["errors"][name] = f"{type(error).__name__}: {error}"[:500]
    return imported


def snapshot(path: str) -> dict[str, str]:
    """Return what a model's folder loads as without the network, or the error."""
    try:
        from transformers import AutoConfig, AutoTokenizer

        config = AutoConfig.from_pretrained(path, trust_remote_code=True, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=True, local_files_only=True)
        if tokenizer.vocab_size < FEWEST_TOKENS:
            return {"error": f"its {type(tokenizer).__name__} has {tokenizer.vocab_size} tokens: the folder has no vocabulary"}
        kind = f"{type(config).__name__} ({getattr(config, 'model_type', None)})"
        return {"loads": f"{kind}, {type(tokenizer).__name__} with {tokenizer.vocab_size} tokens"}
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def in_ray(modules: list[str], how: dict[str, Any], gpus: int) -> dict[str, Any]:
    """Return the same for a Ray worker on every node that could run a part of a training; ``gpus``: of each worker with any.

    Without an address a Ray is started here, which ends with this process.
    """
    try:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if not how.get("address") and " " in sys.executable:  # it would wait for ever for its workers
            raise RuntimeError(
                f"Ray starts no worker with {sys.executable}: its path has a space; give Python by a link without one"
            )
        ray.init(**how, log_to_driver=False, include_dashboard=False) if not how.get("address") else ray.init(
            **how, log_to_driver=False
        )
        nodes = [node for node in ray.nodes() if node["Alive"]]
        has = {node["NodeID"]: int(node["Resources"].get("GPU", 0)) for node in nodes}
        if gpus and not any(has.values()):
            raise RuntimeError("no node of this Ray has a GPU, so nothing is proven about the workers that train")
        remote = ray.remote(num_cpus=0, max_retries=0)(look)
        asked = {
            f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})": remote.options(
                num_gpus=gpus if has[node["NodeID"]] else 0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            ).remote(modules)
            for node in nodes
            if has[node["NodeID"]] or node["Resources"].get("CPU")
        }
        if not asked:
            raise RuntimeError("no node of this Ray has a CPU or a GPU")
        answers = dict(zip(asked, ray.get(list(asked.values()), timeout=WAIT_S), strict=True))
        ray.shutdown()
        return {"workers": answers, "nodes": len(nodes), "gpus_of_a_node": max(has.values(), default=0)}
    except BaseException as error:
        if type(error).__name__ == "GetTimeoutError":
            error = TimeoutError(f"workers did not start on every node within {WAIT_S} s: are their GPUs in use?")
        return {"workers": {"": {"files": {}, "errors": {"ray": f"{type(error).__name__}: {error}"[:1000]}, "versions": {}}}}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    answer: dict[str, Any] = {"driver": look(request["modules"])}
    if request["ray"] is not None:
        answer["ray"] = in_ray(request["modules"], request["ray"], request["gpus"])
    if request.get("snapshot"):
        answer["snapshot"] = snapshot(request["snapshot"])
    answer["missing"] = [name for name in request["packages"] if importlib.util.find_spec(name) is None]
    sys.stdout.write("\nMVP_PROBE " + json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)
