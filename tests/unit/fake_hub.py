"""A Hugging Face hub on loopback: the few routes ``snapshot_download`` asks, with faults to order."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40


class FakeHub(ThreadingHTTPServer):
    """``repos`` maps ``datasets/<name>`` or ``models/<name>`` to files; ``fetched`` lists file GETs as (name, Range header)."""

    daemon_threads = True

    def __init__(self, repos: dict[str, dict[str, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repos = repos
        self.fetched: list[tuple[str, str | None]] = []
        self.break_after: dict[str, list[int]] = {}
        """Bytes after which the next downloads of a file break off, one entry for each download."""
        self.altered: set[str] = set()
        """Files that arrive with a flipped bit, as through a bad proxy."""
        self.shortened: set[str] = set()
        """Files that lack their last byte, in an answer that is whole by itself."""
        self.url = f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running(repos: dict[str, dict[str, bytes]]) -> Iterator[FakeHub]:
    with FakeHub(repos) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def _published(name: str, data: bytes) -> dict[str, object]:
    """What the hub says of a file: git's blob hash, and for large (LFS) files a SHA-256, which then is the ETag."""
    facts: dict[str, object] = {"path": name, "rfilename": name, "type": "file", "size": len(data)}
    facts["oid"] = facts["blobId"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    if name.endswith((".safetensors", ".parquet")):
        digest = hashlib.sha256(data).hexdigest()
        facts["oid"] = facts["blobId"] = hashlib.sha1(b"a pointer file").hexdigest()
        facts["lfs"] = {"oid": digest, "sha256": digest, "size": len(data), "pointerSize": 130}
    return facts


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        if path.startswith("api/"):
            self._api(path.removeprefix("api/"))
        elif "/resolve/" in path:
            repo, _, rest = path.partition("/resolve/")
            self._file(repo if repo.startswith("datasets/") else f"models/{repo}", *rest.split("/", 1))
        else:
            self._send(404, b"{}")

    def _api(self, path: str) -> None:
        for repo, files in self.server.repos.items():
            for kind in ("revision", "tree"):
                if path == f"{repo}/{kind}/{COMMIT}":
                    siblings = [_published(name, data) for name, data in files.items()]
                    about = {"id": repo.partition("/")[2], "sha": COMMIT, "siblings": siblings, "private": False, "downloads": 0}
                    return self._send(200, json.dumps(about if kind == "revision" else siblings).encode())
            if path.startswith(f"{repo}/"):
                return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _file(self, repo: str, commit: str, name: str) -> None:
        data = self.server.repos[repo][name]
        facts = _published(name, data)
        lfs = facts.get("lfs")
        etag = lfs["sha256"] if isinstance(lfs, dict) else facts["oid"]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if self.command == "HEAD":
            return self._send(200, data, headers)
        asked = self.headers.get("Range")
        self.server.fetched.append((name, asked))
        if name in self.server.altered:
            data = bytes([data[0] ^ 1]) + data[1:]
        if name in self.server.shortened:
            data = data[:-1]
        start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else 0
        if asked:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        breaks = self.server.break_after.get(name)
        self._send(206 if asked else 200, data[start:], headers, cut=breaks.pop(0) if breaks else None)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(body)), "Content-Type": "application/json"} | (headers or {})).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True
            self.connection.close()
