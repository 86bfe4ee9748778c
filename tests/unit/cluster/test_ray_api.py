"""What has the dashboard's port need not be Ray: whatever it sends, one line says so."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from mvp_helpers.base.errors import Blocked
from mvp_helpers.cluster.ray_api import RayApi

ANSWERS = {
    "HTTP 500": (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "answers /api/version with HTTP 500"),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n", "does not answer at .*: SSH-2.0-OpenSSH_9.6$"),
    "nothing": (b"", "does not answer at "),
    "a page": (b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>", "did not return JSON: '<html></html>'"),
    "a list": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "did not answer as Ray does"),
    "bytes": (b"\xff\x00\x1b[2J\n\r\n" * 1_000, "does not answer at "),
    "half an answer": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "does not answer at "),
    "a flood": (b"HTTP/1.1 200 OK\r\n\r\n", "its answer has no end"),
    "drops": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", "its answer has no end"),
}
ENDLESS = {"a flood": b"[" * (1 << 20), "drops": b"["}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_port_that_is_not_rays_is_blocked_in_one_line(kind: str) -> None:
    answer, message = ANSWERS[kind]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)
                with contextlib.suppress(OSError):
                    while kind in ENDLESS:
                        connection.sendall(ENDLESS[kind])
                        time.sleep(0.01 if kind == "drops" else 0)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(Blocked, match=message) as refused:
            RayApi(f"http://127.0.0.1:{server.getsockname()[1]}", timeout_s=0.2 if kind == "drops" else 5).version()
    assert "\n" not in refused.value.what and len(refused.value.what) < 400
