"""The only module that talks to a running Ray: its dashboard's REST calls, 10 to 25 ms (Ray's own commands: 0.7 s)."""

from __future__ import annotations

import contextlib
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.documents import MOST_BYTES, Damaged, from_json
from ..base.errors import Blocked
from .cluster_file import Cluster

ENDED = frozenset({"STOPPED", "FAILED", "SUCCEEDED"})
"""Final states of a Ray job."""
STATE_API_LIMIT = 10_000
PATIENCE = 5
"""How many times as long as its begin the whole of an answer may take."""
"""The most rows that Ray's state API returns; a larger limit is an error."""


@dataclass(frozen=True)
class Node:
    """A row of Ray's node table. ``resources`` are totals."""

    node_id: str
    ip: str
    alive: bool
    is_head: bool
    resources: Mapping[str, float]

    def total(self, name: str) -> float:
        return float(self.resources.get(name, 0))


class NotKnown(Blocked):
    """Ray has not what it was asked for (HTTP 404)."""


class RayApi:
    """REST calls to one cluster's dashboard (``address`` like ``http://127.0.0.10:8265``)."""

    def __init__(self, address: str, token: str = "", timeout_s: float = 10.0) -> None:
        self.address = address.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        # The dashboard is on the cluster's own network: never use a proxy from the environment.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get_text(self, path: str, method: str = "GET") -> str:
        """Return the body of one call.

        Raises:
            NotKnown: Ray does not know what was asked for.
            Blocked: nothing answers at that address, or not as Ray does, or it refuses the token.
        """
        request = urllib.request.Request(self.address + path, method=method)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return self._body(answer).decode()
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise Blocked(
                    f"Ray at {self.address} refuses the token of this cluster",
                    hint="another cluster may hold that port; ./scripts/50_status.sh, or ./scripts/02_down.sh and 01_up.sh",
                ) from None
            if error.code == 404:
                raise NotKnown(f"{self.address} has no {path}") from None
            raise Blocked(f"Ray at {self.address} answers {path} with HTTP {error.code}", hint="./scripts/50_status.sh") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            reason = " ".join(str(reason).split())[:200]  # of a program that is not Ray: whatever it sent
            raise Blocked(f"the Ray cluster does not answer at {self.address}: {reason}", hint="./scripts/01_up.sh") from None

    def _body(self, answer: http.client.HTTPResponse) -> bytes:
        """Return a whole answer. Raises OSError for one that does not end, and IncompleteRead for one that ends too early."""
        due, end = int(answer.headers.get("Content-Length") or -1), time.monotonic() + PATIENCE * self._timeout_s
        data = bytearray()
        while len(data) != due and (piece := answer.read1(1 << 16)):
            data += piece
            if len(data) > MOST_BYTES or time.monotonic() > end:
                raise OSError(f"its answer has no end: {len(data)} bytes so far")
        if len(data) < due:
            raise http.client.IncompleteRead(bytes(data[:80]), due - len(data))
        return bytes(data)

    def get(self, path: str, method: str = "GET") -> Any:
        """Return the decoded JSON of one call; raises like ``get_text``."""
        text = self.get_text(path, method)
        try:
            return from_json(text.encode())
        except Damaged:
            raise Blocked(f"{self.address}{path} did not return JSON: {text[:80]!r}") from None

    @contextlib.contextmanager
    def _shape(self, path: str) -> Iterator[None]:
        """Raise Blocked when the block finds another shape than Ray's: any program may have that port."""
        try:
            yield
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise Blocked(
                f"{self.address}{path} did not answer as Ray does ({type(error).__name__}: {error})",
                hint="another program may have that port: ray.dashboard_port in the cluster file",
            ) from None

    def version(self) -> str:
        with self._shape(path := "/api/version"):
            return str(self.get(path)["ray_version"])

    def state_rows(self, kind: str) -> tuple[list[dict[str, Any]], int]:
        """Return rows of Ray's state API (``nodes``, ``actors``, ``placement_groups`` …) and their total number."""
        with self._shape(path := f"/api/v0/{kind}"):
            answer = self.get(f"{path}?detail=1&limit={STATE_API_LIMIT}")
            if not answer.get("result"):
                raise Blocked(f"Ray at {self.address} cannot list its {kind}: {answer.get('msg', '')}")
            listing = answer["data"]["result"]
            rows = [{**row} for row in listing["result"]]
            return rows, int(listing.get("total", len(rows)))

    def nodes(self) -> list[Node]:
        """Return all nodes in Ray's node table, including dead ones."""
        rows, _ = self.state_rows("nodes")
        with self._shape("/api/v0/nodes"):
            return [
                Node(
                    node_id=str(row["node_id"]),
                    ip=str(row["node_ip"]),
                    alive=row["state"] == "ALIVE",
                    is_head=bool(row["is_head_node"]),
                    resources={**(row.get("resources_total") or {})},
                )
                for row in rows
            ]

    def node_reports(self) -> dict[str, float]:
        """Return when each node that Ray lists as alive last reported, by node id: seconds of that node's own clock, or 0.0."""
        with self._shape(path := "/nodes?view=summary"):
            return {
                str(row["raylet"]["nodeId"]): float(row.get("now", 0.0))
                for row in self.get(path)["data"]["summary"]
                if row["raylet"].get("state") == "ALIVE"
            }

    def cluster_status(self) -> str:
        """Return the text that ``ray status`` prints."""
        with self._shape(path := "/api/cluster_status?format=1"):
            return str(self.get(path)["data"]["clusterStatus"])

    def job(self, submission_id: str) -> dict[str, Any] | None:
        """Return Ray's record of one job, or None when Ray has none."""
        with self._shape(path := _job(submission_id)), contextlib.suppress(NotKnown):
            return {**self.get(path)}
        return None

    def jobs(self) -> list[dict[str, Any]]:
        """Return Ray's records of all jobs. Takes 3 s for 10,000 jobs, so do not call it while a person waits."""
        with self._shape(path := "/api/jobs/"):
            return [{**record} for record in self.get(path)]

    def stop_job(self, submission_id: str) -> bool | None:
        """Ask Ray to stop a job; return False when it had already ended, None when Ray has no record of it."""
        with self._shape(path := f"{_job(submission_id)}/stop"), contextlib.suppress(NotKnown):
            return bool(self.get(path, method="POST")["stopped"])
        return None

    def delete_job(self, submission_id: str) -> None:
        """Remove the record of a job that has ended; do nothing when Ray has none. Raises Blocked."""
        with contextlib.suppress(NotKnown):
            self.get(_job(submission_id), method="DELETE")


def _job(submission_id: str) -> str:
    return f"/api/jobs/{urllib.parse.quote(submission_id, safe='')}"


def read_token(cluster: Cluster) -> str:
    """Return the cluster's token, or an empty string when it has none. Raises Blocked when the token cannot be read."""
    if cluster.ray.auth == "none":
        return ""
    try:
        return cluster.token_file.read_text().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Blocked(f"cannot read the Ray token {cluster.token_file}: {error.strerror}") from None


def of(cluster: Cluster, timeout_s: float = 10.0) -> RayApi:
    """Return the REST client of a cluster, with its token."""
    return RayApi(cluster.dashboard, read_token(cluster), timeout_s)


def inherited(address: str) -> RayApi:
    """Return the REST client at ``address`` with the token that Ray's own processes on this host use."""
    token = os.environ.get("RAY_AUTH_TOKEN", "")
    if not token and (path := os.environ.get("RAY_AUTH_TOKEN_PATH")) and os.environ.get("RAY_AUTH_MODE") == "token":
        try:
            token = Path(path).read_text().strip()
        except OSError:
            token = ""  # Ray will refuse the calls; the job itself can go on.
    return RayApi(address, token)


def environment(cluster: Cluster) -> dict[str, str]:
    """Return variables that make Ray's own processes and commands use this cluster's token; never the token itself."""
    base = {"RAY_USAGE_STATS_ENABLED": "0"}
    if cluster.ray.auth == "none":
        # Set explicitly: Ray enables token authentication by itself when it finds a token in the user's home.
        return base | {"RAY_AUTH_MODE": "disabled"}
    return base | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(Path(os.path.abspath(cluster.token_file)))}


def command_environment(cluster: Cluster) -> dict[str, str]:
    """Return what Ray's commands and SDK need in addition to the caller's variables.

    They would send the dashboard's requests, with the token, through a proxy of HTTP_PROXY.
    """
    return environment(cluster) | {"no_proxy": "*"}
