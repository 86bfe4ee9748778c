"""Starting a procedure elsewhere: what the script gets to run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mvp_helpers.base.errors import Blocked
from mvp_helpers.e2e import launch, summary
from mvp_helpers.e2e.requests.request import Request


def start(runs: Path, via: str, **more: object) -> launch.Elsewhere:
    request = Request(
        description="verl-cpu-smoke",
        levels=[0, 1],
        overrides=["a='$b'"],
        checkouts={"verl": "/code/verl"},
        timeout_s=1e6,
        stall_s=12.5,
    )
    return launch.Elsewhere(via=via, request=request, runs=runs, **more)  # type: ignore[arg-type]


def commands(folder: Path, *names: str) -> dict[str, str]:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "HOME": "/home/ada"}


def test_a_batch_job_has_a_log_of_its_own_that_is_known_before_it_starts(tmp_path: Path) -> None:
    env = commands(tmp_path / "bin", "sbatch")
    runs = tmp_path / "runs"
    first, second = (launch.launch(start(runs, "sbatch"), env) for _ in range(2))
    assert first.log[0] == "cat" and first.log[1].startswith(f"{runs}/slurm-e2e-") and first.log != second.log
    assert f"--output={first.log[1]}" in first.argv and first.log[1] in first.where
    assert runs.is_dir(), "sbatch makes no folder for its log"


def test_bash_gets_every_word_as_it_is(tmp_path: Path) -> None:
    env = commands(tmp_path / "bin", "srun")
    made = launch.launch(start(tmp_path / "a b", "slurm", options=["--x=$(id)\n'"]), env)
    script = made.to_shell() + 'printf "%s\\0" "${LAUNCH[@]}"; echo ${#LAUNCH_LOG[@]}'
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    *words, logs = shown.split("\0")
    assert words == made.argv and logs == "0\n"
    assert words[words.index("--timeout") + 1] == "1000000" and words[words.index("--stall") + 1] == "12.5"


def test_a_ray_job_gets_its_id_here_so_that_its_log_is_found(tmp_path: Path) -> None:
    made = launch.launch(start(tmp_path / "runs", "ray"), {})
    spec = Path(made.argv[1])
    written = json.loads(spec.read_text())
    assert made.argv[0].endswith("scripts/43_submit_jobspec.sh") and made.argv[2:] == ["--wait"]
    assert made.log[1:] == [written["submission_id"]] and written["workload"] == "e2e"
    assert spec.stat().st_mode & 0o777 == 0o600


def test_a_command_that_is_not_here_blocks_and_nothing_is_made(tmp_path: Path) -> None:
    env = commands(tmp_path / "bin")
    with pytest.raises(Blocked, match="--via slurm needs srun, which is not on this machine"):
        launch.launch(start(tmp_path / "runs", "slurm"), env)
    assert not (tmp_path / "runs").exists()


def test_runs_that_cannot_be_written_block(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Blocked, match="cannot write"):
        launch.launch(start(tmp_path / "file" / "runs", "ray"), {})


def test_a_plan_shows_the_command_and_writes_nothing(tmp_path: Path) -> None:
    assert launch.show(start(tmp_path / "runs", "slurm"), {"HOME": "/home/ada"}).startswith("srun ")
    assert json.loads(launch.show(start(tmp_path / "runs", "ray"), {}))["workload"] == "e2e"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("ended", "verdict", "code"),
    [(0, 0, 0), (1, 1, 1), (1, 3, 3), (0, 3, 3), (0, 1, 1), (2, 3, 2), (3, 3, 3), (4, 3, 4), (130, 3, 130)],
)
def test_the_log_decides_where_a_scheduler_knows_only_success_and_failure(ended: int, verdict: int, code: int) -> None:
    assert summary.exit_code(ended, verdict) == code
