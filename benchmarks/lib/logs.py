"""Measure what job runner and follower cost for a trainer's log (see ../bench_logs.sh): medians of ROUNDS, in turns."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.cluster.cluster_file import load as load_cluster
from mvp_helpers.plan import plan, planning
from mvp_helpers.record import job_folder
from mvp_helpers.record.job_folder import Result

ROUNDS = int(os.environ.get("ROUNDS", "7"))
LINE = b"(TaskRunner pid=4711) step:17 - actor/loss:0.0123 - critic/score/mean:0.456 - timing_s/step:1.23456789\\n"
# 50 MB/s for four seconds, in the pieces a busy trainer prints; its clock starts with its first line.
PRINTER = f"""
import os, sys, time
piece = {"b'" + LINE.decode() + "'"} * 500
began, rate, total, sent = time.monotonic(), 50e6, 200e6, 0
while sent < total:
    view = memoryview(piece)
    while view:
        view = view[os.write(1, view):]
    sent += len(piece)
    time.sleep(max(0.0, began + sent / rate - time.monotonic()))
open(sys.argv[1], 'w').write(str(time.monotonic() - began))
"""
# As fast as it can, for the highest rate that the runner can take.
FLOOD = PRINTER.replace("50e6", "1e12")


def a_job(root: Path, name: str, argv: list[str]) -> JobFolder:
    """Return a job folder in the state after a submission, with a plan for ``argv``."""
    shared = SharedRoot(root)
    folder = job_folder.claim(shared, Result(submission_id=name, workload="bench", state="CLAIMED"))
    local = msgspec.structs.replace(load_cluster("local"), shared_root=str(root))
    spec = f'{{"workload": "bench", "submission_id": "{name}"}}'.encode()
    (root / "bench.yaml").write_text("entry: {command: ['true']}\n")
    os.environ["MVP_WORKLOADS"] = str(root)
    made = msgspec.structs.replace(planning.make(spec, "b.json", local), argv=argv, address="http://127.0.0.1:9")
    folder.resolved.write_text(plan.to_yaml(made))
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state="SUBMITTED"))
    return folder


def trainer_seconds(root: Path, name: str, code: str, with_runner: bool) -> float:
    """Return the wall seconds that a trainer needs for 200 MB, under the runner or with a file as its output."""
    taken = root / f"{name}.seconds"
    argv = [sys.executable, "-c", code, str(taken)]
    if with_runner:
        folder = a_job(root, name, argv)
        with (root / "ray.log").open("wb") as rays:  # Ray gives a job a file as its output
            subprocess.run([sys.executable, "-m", "mvp_helpers", "run-job", str(folder.path)], stdout=rays, check=True)
        assert folder.driver_log.stat().st_size >= 200e6
        folder.driver_log.unlink()
    else:
        with (root / "own.log").open("wb") as own:
            subprocess.run(argv, stdout=own, check=True)
    return float(taken.read_text())


def follower(folder: JobFolder, cluster: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"MVP_CLUSTER_JSON": cluster}
    command = [sys.executable, "-m", "mvp_helpers", "logs", folder.submission_id, "-f"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


def running(root: Path, name: str) -> tuple[JobFolder, str]:
    folder = a_job(root, name, ["true"])
    job_folder.write(folder, msgspec.structs.replace(job_folder.read(folder), state="RUNNING"))
    return folder, msgspec.structs.replace(load_cluster("local"), shared_root=str(root)).to_json()


def latencies(root: Path, name: str) -> list[float]:
    """Return the seconds from writing a line until the follower prints it, for lines at irregular times."""
    folder, cluster = running(root, name)
    process, seconds_each = follower(folder, cluster), []
    assert process.stdout
    with folder.driver_log.open("ab", buffering=0) as log:
        log.write(b"first\n")
        process.stdout.readline()
        for number in range(30):
            time.sleep(0.05 + number * 0.017)
            began = time.monotonic()
            log.write(b"%d\n" % number)
            assert process.stdout.readline() == b"%d\n" % number
            seconds_each.append(time.monotonic() - began)
    process.terminate()
    process.wait()
    return seconds_each


def behind(root: Path, name: str) -> float:
    """Return the seconds that the follower needs after the last byte of 100 MB written at 50 MB/s."""
    folder, cluster = running(root, name)
    process = follower(folder, cluster)
    assert process.stdout
    piece, total = b"x" * 99_999 + b"\n", 100_000_000
    writer = os.fork()
    if writer == 0:
        with folder.driver_log.open("ab", buffering=0) as log:
            began = time.monotonic()
            for sent in range(0, total, len(piece)):
                log.write(piece)
                time.sleep(max(0.0, began + sent / 50e6 - time.monotonic()))
        os._exit(0)
    received, ended = 0, 0.0
    os.set_blocking(process.stdout.fileno(), False)
    while received < total:
        if chunk := process.stdout.read(1 << 20):
            received += len(chunk)
        else:
            time.sleep(0.002)
        if not ended and os.waitpid(writer, os.WNOHANG)[0]:
            ended = time.monotonic()
    late = max(0.0, time.monotonic() - (ended or time.monotonic()))
    process.terminate()
    process.wait()
    return late


def report(measure: str, value: float, unit: str, limit: float) -> None:
    print(f"{measure:<62} {value:8.3f} {unit} (limit {limit:g}): {'within' if value <= limit else 'OVER'}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        times: dict[tuple[str, bool], list[float]] = {}
        for number in range(ROUNDS):
            for code, kind in ((PRINTER, "50 MB/s"), (FLOOD, "flood")):
                for with_runner in (False, True):
                    seconds = trainer_seconds(root, f"{kind[:2].strip()}-{number}-{with_runner}", code, with_runner)
                    times.setdefault((kind, with_runner), []).append(seconds)
        paced, alone = (statistics.median(times["50 MB/s", runner]) for runner in (True, False))
        print(f"{'trainer that prints 200 MB at 50 MB/s: to a file, with the runner':<62} {alone:.3f} s, {paced:.3f} s")
        report("overhead of the runner", (paced / alone - 1) * 100, "%", 2)
        print(f"{'as fast as it can, with the runner':<62} {200 / statistics.median(times['flood', True]):.0f} MB/s")
        measured = [seconds for number in range(ROUNDS) for seconds in latencies(root, f"line-{number}")]
        report(f"latency of 51 -f, median of {len(measured)}", statistics.median(measured), "s", 1)
        report("latency of 51 -f, worst", max(measured), "s", 1)
        report(
            "100 MB at 50 MB/s: seconds behind at the end, median",
            statistics.median(behind(root, f"b-{n}") for n in range(ROUNDS)),
            "s",
            1,
        )


if __name__ == "__main__":
    main()
