"""A Hugging Face hub: the routes that ``snapshot_download`` and ``datasets.load_dataset`` ask, with faults to order."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c" * 40
PROXIED = "http://hub.invalid"
"""An address that no name server knows."""


class FakeHub(ThreadingHTTPServer):
    """``repos`` maps ``datasets/<name>`` or ``models/<name>`` to files; ``fetched`` lists file GETs as (name, Range header)."""

    daemon_threads = True

    def __init__(self, repos: dict[str, dict[str, bytes]], address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__(address, _Handler)
        self.repos = repos
        self.refs = {"main": COMMIT}
        """Branches and tags; all commits have the same files."""
        self.token = ""
        """Without this token everything answers 401, as for a private repository."""
        self.login = ""
        """USER:PASSWORD: with it the hub is at PROXIED, and only through a proxy with this login: itself. Else it answers 407."""
        self.gated: set[str] = set()
        """Repositories whose files answer 403 to everyone."""
        self.refusals: list[int] = []
        """Statuses of the next answers, such as 429."""
        self.asked: list[str] = []
        """Paths of all requests to the API."""
        self.fetched: list[tuple[str, str | None]] = []
        self.break_after: dict[str, list[int]] = {}
        """Bytes after which the next downloads of a file break off, one entry for each download."""
        self.altered: set[str] = set()
        """Files that arrive with a flipped bit, as through a bad proxy."""
        self.shortened: set[str] = set()
        """Files that lack their last byte, in an answer that is whole by itself."""
        self.url = f"http://{address[0]}:{self.server_port}"


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


def _is_below(path: str, folder: str, recursive: bool) -> bool:
    rest = path.removeprefix(f"{folder}/" if folder else "")
    return (not folder or rest != path) and (recursive or "/" not in rest)


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
        path, query = unquote(urlsplit(self.path).path).lstrip("/"), urlsplit(self.path).query
        if self.server.login and not self._came_through_the_proxy():
            self._send(407, b"{}", {"Proxy-Authenticate": 'Basic realm="proxy"'})
        elif self.server.refusals:
            status = self.server.refusals.pop(0)
            self._send(status, b"{}", {"Retry-After": "0"} if status == 429 else {})
        elif self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            wrong = {"X-Error-Message": "Invalid credentials in Authorization header"}
            self._send(401, b"{}", wrong if self.headers.get("Authorization") else {"X-Error-Code": "RepoNotFound"})
        elif path.startswith("api/"):
            self.server.asked.append(path)
            self._api(path.removeprefix("api/"), form.get("paths", []), "recursive=true" in query.lower())
        elif "/resolve/" in path:
            repo, _, rest = path.partition("/resolve/")
            revision, _, name = rest.partition("/")
            self._file(repo if repo.startswith("datasets/") else f"models/{repo}", revision, name)
        else:
            self._send(404, b"{}")

    def _came_through_the_proxy(self) -> bool:
        login = base64.b64encode(self.server.login.encode()).decode()
        return self.path.startswith(f"{PROXIED}/") and self.headers.get("Proxy-Authorization") == f"Basic {login}"

    def _api(self, path: str, paths: list[str], recursive: bool) -> None:
        for repo, files in self.server.repos.items():
            if path != repo and not path.startswith(f"{repo}/"):
                continue
            what, _, rest = path.removeprefix(repo).lstrip("/").partition("/")
            revision, _, folder = rest.partition("/")
            commit = self._commit(revision or "main")
            if commit is None:
                return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            entries = [_published(name, data) for name, data in files.items()]
            if what not in ("tree", "paths-info"):
                about = {"id": repo.partition("/")[2], "sha": commit, "siblings": entries, "private": False, "downloads": 0}
                return self._send(200, json.dumps(about).encode())
            parents = {name.rpartition("/")[0] for name in files if "/" in name}
            entries += [{"path": name, "type": "directory", "oid": "0" * 40} for name in sorted(parents)]
            if what == "paths-info":
                chosen = [entry for entry in entries if entry["path"] in paths]
            else:
                chosen = [entry for entry in entries if _is_below(str(entry["path"]), folder, recursive)]
            return self._send(200, json.dumps(chosen).encode())
        self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _commit(self, revision: str) -> str | None:
        return self.server.refs.get(revision) or (revision if revision in (COMMIT, *self.server.refs.values()) else None)

    def _file(self, repo: str, revision: str, name: str) -> None:
        data = self.server.repos.get(repo, {}).get(name)
        commit = self._commit(revision)
        if data is None or commit is None:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound" if commit else "RevisionNotFound"})
        if repo in self.server.gated:
            return self._send(403, b"", {"X-Error-Code": "GatedRepo"})
        facts = _published(name, data)
        lfs = facts.get("lfs")
        etag = lfs["sha256"] if isinstance(lfs, dict) else facts["oid"]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if self.command == "HEAD":
            return self._send(200, data, headers)
        asked = self.headers.get("Range")
        self.server.fetched.append((name, asked))
        if name in self.server.altered:
            data = bytes([data[0] ^ 1]) + data[1:]
        if name in self.server.shortened:
            data = data[:-1]
        first, _, last = asked.removeprefix("bytes=").partition("-") if asked else ("0", "", "")
        start, end = int(first), min(int(last), len(data) - 1) if last else len(data) - 1
        if asked:
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
        breaks = self.server.break_after.get(name)
        self._send(206 if asked else 200, data[start : end + 1], headers, cut=breaks.pop(0) if breaks else None)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(body)), "Content-Type": "application/json"} | (headers or {})).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True
            self.connection.close()
