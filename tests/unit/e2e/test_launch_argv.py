"""The same procedure is launched elsewhere with everything that it reads mounted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from mvp_helpers.base.errors import BadInput, Blocked
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
    with pytest.raises(BadInput, match=r"not one of docker, slurm, ray\.sub, sbatch, ray"):
        argv("ssh")


RAY_SUB = ("--account=research", "--partition=gpu", "--nodes=2")


def through_ray_sub(world: World, *options: str, **env: str) -> launch.Elsewhere:
    request = world.request("0", description="nemo-rl", image="nemo-rl:26.08", overrides=["a=1"])
    return launch.Elsewhere(via="ray.sub", request=request, runs=world.root / "runs", options=list(options), name="e2e-1")


def test_ray_sub_gets_its_variables_and_is_submitted_from_nemo_rls_root(reading: World) -> None:
    argv = launch.argv(through_ray_sub(reading, *RAY_SUB), reading.env | {"GPUS_PER_NODE": "4"})
    assert argv[:3] == ["env", "-C", str(reading.nemo_rl)] and argv[-1] == "ray.sub"
    settings = dict(word.split("=", 1) for word in argv[3 : argv.index("sbatch")])
    assert settings["CONTAINER"] == "nemo-rl:26.08" and settings["GPUS_PER_NODE"] == "4"
    assert f"{reading.bridge}:{reading.bridge}" in settings["MOUNTS"].split(",")
    assert settings["BASE_LOG_DIR"] == f"{reading.root}/runs/e2e-1", "not into the checkout"
    assert settings["COMMAND"].startswith('RAY_ADDRESS=$(<"${RAY_TMPDIR:-/tmp}/ray/ray_current_cluster") env ')
    assert "HOME=" not in settings["COMMAND"] and "E2E_GPUS=8" in settings["COMMAND"] and "--override a=1" in settings["COMMAND"]
    after = argv[argv.index("sbatch") :]
    assert "--wait" in after and after.index("--nodes=1") < after.index("--nodes=2"), "the user's options win"
    assert "--job-name=e2e-1" in after, "ray.sub waits for other jobs of its name"


@pytest.mark.parametrize(
    ("options", "env", "words"),
    [
        (RAY_SUB[1:], {}, "needs an account and a partition"),
        (RAY_SUB[:1], {}, "needs an account and a partition"),
        ((*RAY_SUB, "--gres=gpu:h200:4"), {}, "--gres=gpu:h200:4 is not GPUS_PER_NODE=8"),
        (("-A", "research", "-pgpu", "-N", "x"), {}, "--nodes=x is not a number of nodes"),
        (RAY_SUB, {"GPUS_PER_NODE": "none"}, "GPUS_PER_NODE=none is not a number of GPUs"),
        (RAY_SUB, {"GPUS_PER_NODE": "²"}, "GPUS_PER_NODE=² is not a number of GPUs"),
    ],
)
def test_options_that_ray_sub_would_fail_with_are_bad_input(
    reading: World, options: tuple[str, ...], env: dict[str, str], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        launch.argv(through_ray_sub(reading, *options), reading.env | env)


def test_a_checkout_without_ray_sub_or_with_other_variables_is_blocked_with_the_fallback(world: World) -> None:
    start = through_ray_sub(world, *RAY_SUB)
    script = world.nemo_rl / "ray.sub"
    script.write_text(script.read_text().replace("BASE_LOG_DIR", "ELSEWHERE"))
    with pytest.raises(Blocked, match=r"ray.sub does not read BASE_LOG_DIR"):
        launch.argv(start, world.env)
    script.unlink()
    with pytest.raises(Blocked, match=r"this nemo_rl checkout has no ray.sub") as error:
        launch.argv(start, world.env)
    assert "--via slurm" in error.value.hint


def test_the_drivers_log_of_the_last_start_is_found(tmp_path: Path) -> None:
    for name in ("77-logs", "77-2-logs", "77-10-logs"):
        (tmp_path / name).mkdir()
    with pytest.raises(Blocked, match="ended before it ran the procedure"):
        launch.driver_log(tmp_path)
    (tmp_path / "77-logs/ray-driver.log").write_text("1")
    assert launch.driver_log(tmp_path).read_text() == "1"
    for name in ("77-2-logs", "77-10-logs"):
        (tmp_path / name / "ray-driver.log").write_text(name)
    assert launch.driver_log(tmp_path).read_text() == "77-10-logs", "after requeues"
