"""The same procedure is launched elsewhere with everything that it reads mounted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from mvp_helpers.base.errors import BadInput
from mvp_helpers.e2e import launch

if TYPE_CHECKING:
    from conftest import World


def test_the_same_procedure_is_launched_elsewhere_with_both_checkouts_mounted(reading: World) -> None:
    request = reading.request("0", overrides=["a=1"], image="verlai/verl:x")
    runs_folder = reading.root / "runs"

    def start(via: str, image: str = "verlai/verl:x") -> launch.Elsewhere:
        own = msgspec.structs.replace(request, image=image)
        return launch.Elsewhere(via=via, request=own, runs=runs_folder, options=["--partition=gpu"], json=True)

    def argv(via: str, image: str = "verlai/verl:x") -> list[str]:
        return launch.argv(start(via, image), reading.env)

    slurm = argv("slurm")
    assert slurm[0] == "srun" and "--container-image=verlai/verl:x" in slurm and "--partition=gpu" in slurm
    mounts = next(word for word in slurm if word.startswith("--container-mounts="))
    assert f"{reading.bridge}:{reading.bridge}" in mounts and f"{reading.verl}:{reading.verl}" in mounts
    assert slurm[slurm.index("--override") + 1] == "a=1" and "--via" not in slurm
    assert f"BRIDGE_REPO={reading.bridge}" in slurm and "RAY_ADDRESS=local" in slurm
    assert not any("container" in word for word in argv("slurm", ""))
    docker = argv("docker")
    assert docker[:2] == ["docker", "run"] and f"{reading.verl}:{reading.verl}" in docker
    assert f"BRIDGE_REPO={reading.bridge}" in docker
    assert docker[docker.index("--gpus") + 1] == "all" and docker[docker.index("--image") + 1] == "verlai/verl:x"
    batch = argv("sbatch")
    assert batch[0] == "sbatch" and any(word.startswith("--wrap=srun ") for word in batch)
    spec = json.loads(launch.jobspec(start("ray"), reading.env))
    assert spec["workload"] == "e2e" and json.loads(spec["env_vars"]["E2E_ARGUMENTS"])[:2] == ["--description", "verl"]
    with pytest.raises(BadInput, match="--image is needed"):
        argv("docker", "")
    with pytest.raises(BadInput, match="not one of docker, slurm, sbatch, ray"):
        argv("ssh")
