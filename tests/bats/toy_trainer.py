"""A trainer for tests: real Ray actors on every worker, one metrics line a step, a checkpoint at the end or at SIGTERM.

usage: toy_trainer.py STEPS SECONDS_PER_STEP   (in the job folder)
"""

import json
import os
import signal
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=1)
class Worker:
    def pid(self) -> int:
        return os.getpid()

    def step(self, number: int) -> float:
        return 1.0 / number


def save() -> None:
    os.makedirs("checkpoints/saved", exist_ok=True)


def main(steps: int, seconds: float) -> None:
    signal.signal(signal.SIGTERM, lambda *_: (save(), print("saved at SIGTERM", flush=True), sys.exit(1)))
    ray.init(os.environ["RAY_ADDRESS"], logging_level="ERROR")
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("worker_node")]
    workers = [Worker.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote() for node in nodes]
    print("workers", *ray.get([worker.pid.remote() for worker in workers]), flush=True)
    with open("metrics.jsonl", "a") as metrics:
        for number in range(1, steps + 1):
            loss = max(ray.get([worker.step.remote(number) for worker in workers]))
            print(json.dumps({"step": number, "data": {"train/loss": loss}}), file=metrics, flush=True)
            time.sleep(seconds)
    save()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
