"""Script 53: what a host tells about a job, with real processes; what is missing is named; what looks like a secret is masked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from toys import plan_of

from mvp_helpers.base import files, processes, redact
from mvp_helpers.base.errors import BadInput
from mvp_helpers.base.paths import JobFolder, SharedRoot
from mvp_helpers.cluster.cluster_file import Cluster
from mvp_helpers.cluster.node_record import NodePaths, Record
from mvp_helpers.cluster.ray_node import INSTANCE
from mvp_helpers.plan import environment, plan
from mvp_helpers.proof import archive, host_report
from mvp_helpers.record import host_processes, job_folder
from mvp_helpers.record.job_folder import Result

HEX = "01000000"


@pytest.fixture
def folder(shared: SharedRoot) -> JobFolder:
    """A job that runs, with a bundle ``B`` in which Ray has told its own id of the job."""
    result = Result(submission_id="job1", workload="echo", state="RUNNING", started_at="2026-01-31T10:00:00.000Z")
    folder = job_folder.claim(shared, result)
    files.write_text(folder.resolved, plan.to_yaml(plan_of("job1", shared.root)))
    bundle = folder.debug / "B"
    bundle.mkdir()
    (bundle / "job.json").write_text(json.dumps([{"submission_id": "job1", "job_id": HEX}]))
    items = {"nodes": {"file": None, "error": "no answer within 10 s"}}
    (bundle / "bundle.json").write_text(json.dumps({"items": items}))
    return folder


@pytest.fixture
def node(cluster: Cluster) -> NodePaths:
    """The host ``worker-0`` as its Ray node leaves it, with one session of logs."""
    paths = NodePaths(cluster, "worker-0")
    logs = paths.ray_files / "session_2026-01-31_09-00-00_1_1" / "logs"
    logs.mkdir(parents=True)
    record = Record(
        boot_id=processes.boot_id(),
        instance="mine",
        role="worker",
        ip="127.0.0.11",
        ray_version="2",
        python_version="3",
        started_at="",
        pid=os.getpid(),
        pid_start_time=processes.start_time(os.getpid()) or 0,
    )
    paths.write(record)
    return paths


@pytest.fixture
def trainer(folder: JobFolder) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the job under that node, and one of the same job under another host's node."""
    mark = {environment.JOB_FOLDER: str(folder.path), "MY_API_TOKEN": "canary-4711", "HARMLESS": "banana"}
    argv = [sys.executable, "-c", "import time\ndef stuck(): time.sleep(60)\nstuck()"]
    running = [subprocess.Popen(argv, env=os.environ | mark | {INSTANCE: instance}) for instance in ("mine", "other")]
    deadline = time.monotonic() + 120
    while processes.holding(INSTANCE, "mine") == [] and time.monotonic() < deadline:
        time.sleep(0.05)
    yield running[0]
    for process in running:
        process.kill()
        process.wait()


def take(cluster: Cluster, folder: JobFolder, *, py_spy: bool = False) -> tuple[Path, list[str]]:
    missing = host_report.take(cluster, "worker-0", folder, folder.debug / "B", py_spy=py_spy)
    return folder.debug / "B" / "hosts" / "worker-0", missing


def test_a_host_tells_its_state_and_of_the_jobs_processes_only_its_own(
    cluster: Cluster, folder: JobFolder, node: NodePaths, trainer: subprocess.Popen[bytes]
) -> None:
    place, missing = take(cluster, folder)
    facts = json.loads((place / "host.json").read_bytes())
    assert facts["memory_bytes"]["MemTotal"] > facts["memory_bytes"]["MemAvailable"] > 0
    assert facts["disks"]["shared root"]["total_bytes"] > 0 and facts["ray_node"]["runs"]
    rows = json.loads((place / "processes.json").read_bytes())
    assert [row["pid"] for row in rows] == [trainer.pid] and rows[0]["resident_bytes"] > 0
    assert json.loads((place / "report.json").read_bytes())["missing"] == missing
    assert [what for what in missing if "process" in what] == []


def test_the_environment_is_shown_without_what_looks_secret(
    cluster: Cluster, folder: JobFolder, node: NodePaths, trainer: subprocess.Popen[bytes]
) -> None:
    place, _ = take(cluster, folder)
    shown = (place / "environment.txt").read_text().splitlines()
    assert {"MY_API_TOKEN=***", "HARMLESS=banana", f"# of pid {trainer.pid}"} <= set(shown)
    assert not any(b"canary-4711" in path.read_bytes() for path in place.rglob("*") if path.is_file())


def test_only_the_jobs_logs_and_the_nodes_are_taken_and_only_their_ends(
    cluster: Cluster, folder: JobFolder, node: NodePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_report, "TAIL", 400)
    logs = node.sessions()[0] / "logs"
    for name in (
        f"worker-aa-{HEX}-1.out",
        f"worker-aa-{HEX}-1.err",
        "worker-bb-02000000-2.out",
        "python-core-worker-aa_1.log",
        "python-core-worker-bb_2.log",
        "job-driver-job1.log",
        "job-driver-job2.log",
        "raylet.out",
        "unrelated.txt",
    ):
        (logs / name).write_text("".join(f"line {number} password={number}secret\n" for number in range(100)))
    (logs / "raylet.err").write_text("")
    place, _ = take(cluster, folder)
    kept = {path.name: path.read_text() for path in (place / "ray-logs").iterdir()}
    assert sorted(kept) == sorted(
        [f"worker-aa-{HEX}-1.out", f"worker-aa-{HEX}-1.err", "python-core-worker-aa_1.log", "job-driver-job1.log", "raylet.out"]
    )
    first, *lines = kept["raylet.out"].splitlines()
    assert first.startswith("[") and "were left out" in first and lines[-1] == "line 99 password=***"
    assert all(line.startswith("line ") for line in lines), "a line was cut in the middle"


def test_a_job_whose_id_ray_never_told_gets_the_logs_of_its_own_processes_alone(
    cluster: Cluster, folder: JobFolder, node: NodePaths, trainer: subprocess.Popen[bytes]
) -> None:
    (folder.debug / "B" / "job.json").unlink()
    own, theirs = f"worker-aa-{HEX}-{trainer.pid}.out", "worker-bb-02000000-2.out"
    for name in (own, theirs, "runtime_env_setup-02000000.log"):
        (node.sessions()[0] / "logs" / name).write_text("said\n")
    place, _ = take(cluster, folder)
    assert [path.name for path in (place / "ray-logs").iterdir()] == [own]


def test_logs_are_bounded_and_what_is_left_out_is_named(
    cluster: Cluster, folder: JobFolder, node: NodePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_report, "MOST", 1000)
    for number in range(5):
        (node.sessions()[0] / "logs" / f"worker-aa-{HEX}-{number}.out").write_text("x" * 400)
    place, missing = take(cluster, folder)
    assert len(list((place / "ray-logs").iterdir())) == 2
    assert any("were left out" in what for what in missing)


def test_py_spy_tells_where_a_process_is(
    cluster: Cluster, folder: JobFolder, node: NodePaths, trainer: subprocess.Popen[bytes]
) -> None:
    place, missing = take(cluster, folder, py_spy=True)
    if any(host_processes.NOT_PERMITTED in what for what in missing):
        pytest.skip("ptrace is not permitted here")
    assert "stuck" in (place / "py-spy" / f"{trainer.pid}.txt").read_text()


def test_a_py_spy_that_is_not_permitted_is_explained_once(
    cluster: Cluster,
    folder: JobFolder,
    node: NodePaths,
    trainer: subprocess.Popen[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool = tmp_path / "py-spy"
    tool.write_text('#!/bin/sh\n[ "$1 $2" = "dump --pid" ] || exit 9\necho "Error: Permission Denied: try as root" >&2\nexit 1\n')
    tool.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    _, missing = take(cluster, folder, py_spy=True)
    assert [what for what in missing if "py-spy" in what] == [f"py-spy: {host_processes.NOT_PERMITTED}"]


def test_a_host_whose_node_is_gone_still_reports(cluster: Cluster, folder: JobFolder) -> None:
    place, missing = take(cluster, folder, py_spy=True)
    assert {
        "no Ray node was started here, or it was stopped",
        "no process of the job runs here",
        "no Ray log of the job here",
        "py-spy: no Python process of the job runs here",
    } <= set(missing)
    assert json.loads((place / "host.json").read_bytes())["ray_node"] is None


def test_a_part_that_fails_costs_only_itself(
    cluster: Cluster, folder: JobFolder, node: NodePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_report._Report, "processes", lambda self: 1 / 0)
    place, missing = take(cluster, folder)
    assert "processes.json: division by zero" in missing and (place / "environment.txt").exists()


def test_a_report_goes_nowhere_but_into_a_bundle_of_that_job(cluster: Cluster, folder: JobFolder, tmp_path: Path) -> None:
    for place in (tmp_path, folder.debug / "none", folder.config):
        with pytest.raises(BadInput, match="is not a debug bundle"):
            host_report.take(cluster, "worker-0", folder, place)
        with pytest.raises(BadInput, match="is not a debug bundle"):
            archive.pack(cluster, folder, place)
    with pytest.raises(BadInput, match="has no host"):
        host_report.take(cluster, "nobody", folder, folder.debug / "B")


def unpacked(archive: Path) -> dict[str, bytes]:
    from backports.zstd import tarfile

    with tarfile.open(archive, "r:zst") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers()}


def test_the_archive_is_gzip_where_this_python_has_no_zstd(
    cluster: Cluster, folder: JobFolder, node: NodePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(cluster, folder)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    packed, _ = archive.pack(cluster, folder, folder.debug / "B")
    assert packed == folder.debug / "B.tar.gz"
    with tarfile.open(packed, "r:gz") as tar:
        assert "job1/result.json" in tar.getnames()


def test_the_archive_holds_the_evidence_and_names_what_is_missing(cluster: Cluster, folder: JobFolder, node: NodePaths) -> None:
    folder.driver_log.write_text("export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\ncp: x: No space left on device\n")
    take(cluster, folder)
    packed, missing = archive.pack(cluster, folder, folder.debug / "B")
    held = unpacked(packed)
    assert packed == folder.debug / "B.tar.zst" and packed.stat().st_mode & 0o077 == 0
    wanted = {"result.json", "config/resolved.yaml", "logs/driver.log", "debug/B/bundle.json", "debug/B/hosts/worker-0/host.json"}
    assert {f"job1/{name}" for name in wanted} <= set(held)
    assert json.loads(held["job1/explanation.json"])["rule"] == "disk-full"
    assert held["job1/logs/driver.log"].startswith(b"export HF_TOKEN=***\n")
    assert {"Ray: nodes: no answer within 10 s", "head: no report from this host", "worker-1: no report from this host"} <= set(
        missing
    )
    assert held["job1/missing.txt"].decode().splitlines() == missing
    assert list(folder.debug.glob(".*")) == []


def test_the_archive_is_bounded(cluster: Cluster, folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST", 20_000)
    monkeypatch.setattr(archive, "LOG_TAIL", 8_000)
    folder.driver_log.write_text("a line\n" * 100_000)
    for number in range(5):
        (folder.debug / "B" / f"{number}.txt").write_bytes(os.urandom(3_000).hex().encode())
    packed, missing = archive.pack(cluster, folder, folder.debug / "B")
    held = unpacked(packed)
    assert sum(map(len, held.values())) < 21_000 and len(held["job1/logs/driver.log"]) < 8_100
    assert any("left out, the archive has" in what for what in missing)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HF_TOKEN=abc", "HF_TOKEN=***"),
        ('{"wandb_api_key": "a b", "n": 2}', '{"wandb_api_key": "***", "n": 2}'),
        ("run --token abcdefgh1234", "run --token ***"),
        ("https://me:pw12@hub/x", "https://***@hub/x"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer ***"),
        ("found hf_abcdefghijklmnopqrstuvwx here", "found *** here"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "***"),
        ("AWS_SECRET_ACCESS_KEY=a/b+c", "AWS_SECRET_ACCESS_KEY=***"),
        *((same, same) for same in (
            "max_tokens=4096 tokenizer=/models/x pad_token_id=5",
            "train/token_mult_prob_error:np.float64(1.02)",
            "RAY_AUTH_TOKEN_PATH=/state/ray_token",
            "the token passed quickly",
            "tokenizer.pad_token = tokenizer.eos_token",
            "password: null",
            "KeyError: 'embed_tokens.weight'",
        )),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked_and_nothing_else(text: str, shown: str) -> None:
    assert redact.text(text) == shown
    assert redact.text(shown) == shown


def test_bytes_that_are_no_text_survive_masking() -> None:
    assert redact.data(b"\xff\xfe HF_TOKEN=abc \x80") == b"\xff\xfe HF_TOKEN=*** \x80"
