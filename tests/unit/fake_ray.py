"""A stand-in for Ray's dashboard on loopback: answers in the shapes that Ray 2.60 was seen to send, and nothing else."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mvp_helpers.cluster.ray_api import RayApi

HEAD_ID, WORKER_0_ID, WORKER_1_ID = "a8" * 28, "42" * 28, "86" * 28
STATUS_TEXT = """======== Autoscaler status: 2026-11-21 01:42:15.086932 ========
Node status
---------------------------------------------------------------
Active:
 1 node_421605de22b0029fb3886b5137e4f0b45b5d4518e8ef4015611624c7
Pending:
 (no pending nodes)
Recent failures:
 (no failures)

Resources
---------------------------------------------------------------
Total Usage:
 3.0/16.0 CPU
 0B/63.86GiB memory
 1.0/200.0 worker_node

From request_resources:
 (none)
Pending Demands:
 (no resource demands)"""


class FakeRay:
    """``answers`` maps a path (with its query; after ``POST`` or ``DELETE`` where that is meant) to a JSON value, a text, a
    status code, or a function that makes one.

    Leaving the ``with`` block fails when a path was asked for that has no answer.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.delays: dict[str, float] = {}
        """Seconds before a path is answered."""
        self.asked: list[str] = []
        self.unexpected: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    def __enter__(self) -> FakeRay:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.close()
        if kind is None:
            assert not self.unexpected, f"Ray was asked for what it does not have: {self.unexpected}"

    def close(self) -> None:
        """Be down from now on."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def api(self, timeout_s: float = 5.0) -> RayApi:
        return RayApi(self.address, timeout_s=timeout_s)

    def has_cluster(self) -> None:
        """Three nodes, their status, and the version."""
        self.answers["/api/version"] = {"ray_version": "2.60.0"}
        self.answers["/api/cluster_status?format=1"] = {"data": {"clusterStatus": STATUS_TEXT}}
        self.has_rows("nodes", node_rows())

    def has_rows(self, kind: str, rows: list[dict[str, Any]], total: int | None = None) -> None:
        found = {"result": rows, "total": len(rows) if total is None else total}
        self.answers[f"/api/v0/{kind}?detail=1&limit=10000"] = {"result": True, "msg": "", "data": {"result": found}}

    def has_reports(self, **at: float) -> None:
        """Nodes that are alive, and when each last reported."""
        summary = [{"now": seconds, "raylet": {"nodeId": node, "state": "ALIVE"}} for node, seconds in at.items()]
        self.answers["/nodes?view=summary"] = {"result": True, "msg": "", "data": {"summary": summary}}

    def has_job(self, name: str, status: str, **fields: Any) -> None:
        self.answers[f"/api/jobs/{name}"] = job_record(name, status, **fields)

    def lacks_job(self, name: str) -> None:
        self.answers[f"/api/jobs/{name}"] = 404

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        ray = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(self.path)

            def do_POST(self) -> None:
                self._answer(f"POST {self.path}")

            def do_DELETE(self) -> None:
                self._answer(f"DELETE {self.path}")

            def _answer(self, asked: str) -> None:
                ray.asked.append(asked)
                time.sleep(ray.delays.get(asked, 0))
                if asked not in ray.answers:
                    ray.unexpected.append(asked)
                answer = ray.answers.get(asked, 404)
                if callable(answer):
                    answer = answer()
                status, body = (answer, b"") if isinstance(answer, int) else (200, json.dumps(answer).encode())
                with contextlib.suppress(BrokenPipeError):  # a client that waited no longer
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def node_rows(ips: tuple[str, str, str] = ("127.0.0.10", "127.0.0.11", "127.0.0.12")) -> list[dict[str, Any]]:
    """Rows of the state API: a head without CPUs and two workers."""

    def row(node_id: str, ip: str, is_head: bool) -> dict[str, Any]:
        resources = {f"node:{ip}": 1.0, **({} if is_head else {"worker_node": 100.0, "CPU": 8.0})}
        return {"node_id": node_id, "node_ip": ip, "is_head_node": is_head, "state": "ALIVE", "resources_total": resources}

    return [row(node_id, ip, node_id == HEAD_ID) for node_id, ip in zip((HEAD_ID, WORKER_0_ID, WORKER_1_ID), ips, strict=True)]


def job_record(name: str, status: str, **fields: Any) -> dict[str, Any]:
    """A record of Ray's job list."""
    return {
        "type": "SUBMISSION",
        "job_id": "02000000",
        "submission_id": name,
        "driver_info": {"id": "02000000", "node_ip_address": "127.0.0.11", "pid": "4711"},
        "status": status,
        "entrypoint": "python3 -m mvp_helpers run-job /jobs/x",
        "message": "Job is currently running.",
        "error_type": None,
        "start_time": 1795225335657,
        "end_time": None,
        "metadata": {"owner": "s3cr3t-in-metadata"},
        "runtime_env": {"env_vars": {"API_KEY": "s3cr3t-in-env"}},
        "driver_agent_http_address": "http://127.0.0.11:52365",
        "driver_node_id": WORKER_0_ID,
        "driver_exit_code": None,
        **fields,
    }
