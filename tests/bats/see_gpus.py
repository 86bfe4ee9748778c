"""A job that prints CUDA_VISIBLE_DEVICES of its driver and of Ray actors that ask for no, a third of, and one whole GPU."""

import os

import ray


@ray.remote
class Process:
    def sees(self):
        return os.environ.get("CUDA_VISIBLE_DEVICES", "all")


ray.init(os.environ["RAY_ADDRESS"], logging_level="ERROR")
unhidden = {"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}}
print(f"SEES driver [{os.environ.get('CUDA_VISIBLE_DEVICES', 'all')}]", flush=True)
for name, options in {
    "none": {"num_gpus": 0},
    "none, not hidden": {"num_gpus": 0, "runtime_env": unhidden},
    "a third": {"num_gpus": 1 / 3},
    "one": {"num_gpus": 1},
}.items():
    actor = Process.options(**options).remote()
    print(f"SEES {name} [{ray.get(actor.sees.remote())}]", flush=True)
    ray.kill(actor)
