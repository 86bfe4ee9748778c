"""A trainer that shows its secret wherever it can: printed, raised, as a name; in its driver and an actor on each worker."""

import hashlib
import os
import subprocess
import sys
import time

import ray


@ray.remote(num_cpus=1, runtime_env={"env_vars": {"OWN": "an actor's own variables are added to the job's"}})
class Worker:
    def __init__(self, fails: bool) -> None:
        if fails:
            raise RuntimeError(f"refused: {os.environ['CANARY']}")

    def show(self) -> str:
        node = ray.get_runtime_context().get_node_id()
        print(f"worker prints {os.environ['CANARY']} on {node}", flush=True)
        print(f"worker complains {os.environ['CANARY']}", file=sys.stderr, flush=True)
        said = f"worker says {os.environ['CANARY']}\n"
        os.write(1, said.encode())
        sys.stdout.buffer.write(said.encode())
        sys.stdout.buffer.flush()
        sys.__stdout__.writelines([said[:20], said[20:]])
        sys.__stdout__.flush()
        subprocess.run(["cat"], input=said.encode(), check=True)
        subprocess.run(["sh", "-c", "cat >&2"], input=said.encode(), check=True)
        return seen("worker")


@ray.remote
def fail() -> None:
    raise RuntimeError(f"refused: {os.environ['CANARY']}")


@ray.remote(num_cpus=0)
class Named:
    def ready(self) -> None:
        time.sleep(2)  # so that Ray lists it


def name_everything(value: str) -> None:
    """Let Ray itself know the value: as the name of an actor, a task and a placement group, and in an actor's own variables."""
    group = ray.util.placement_group([{"CPU": 0.1}], name=value)
    ray.get(group.ready())
    actor = Named.options(name=value, runtime_env={"env_vars": {"NESTED": value}}).remote()
    ray.get(ray.remote(lambda: None).options(name=value).remote())
    ray.get(actor.ready.remote())


def seen(where: str) -> str:
    return f"{where} {hashlib.sha256(os.environ['CANARY'].encode()).hexdigest()}"


ray.init(log_to_driver=True, logging_level="ERROR")
print("driver prints", os.environ["CANARY"], flush=True)
if os.environ.get("NAMES"):
    name_everything(os.environ["CANARY"])
    sys.exit()
crash = os.environ.get("CRASH")
nodes = [node["NodeID"] for node in ray.nodes() if node["Resources"].get("worker_node")]
place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
workers = [Worker.options(scheduling_strategy=place(node, soft=False)).remote(crash == "actor") for node in nodes]
found = [seen("driver"), *ray.get([worker.show.remote() for worker in workers])]
with open("seen.new", "w") as stream:
    print(*found, sep="\n", file=stream)
os.rename("seen.new", "seen")
if crash == "task":
    ray.get(fail.remote())
deadline = time.monotonic() + 60
while not os.path.exists("go") and time.monotonic() < deadline:
    time.sleep(0.1)
