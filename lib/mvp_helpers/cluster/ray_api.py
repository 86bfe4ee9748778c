"""The only module that talks to a running Ray: its dashboard's REST calls, 10 to 25 ms (Ray's own commands: 0.7 s)."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import Blocked
from .cluster_file import Cluster

ENDED = frozenset({"STOPPED", "FAILED", "SUCCEEDED"})
"""Final states of a Ray job."""
STATE_API_LIMIT = 10_000
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
            urllib.error.HTTPError: Ray answered with an error status.
            Blocked: nothing answers at that address, or it refuses the token.
        """
        request = urllib.request.Request(self.address + path, method=method)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise Blocked(
                    f"Ray at {self.address} refuses the token of this cluster",
                    hint="another cluster may hold that port; ./scripts/50_status.sh, or ./scripts/02_down.sh and 01_up.sh",
                ) from None
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise Blocked(f"the Ray cluster does not answer at {self.address}: {reason}", hint="./scripts/01_up.sh") from None

    def get(self, path: str, method: str = "GET") -> Any:
        """Return the decoded JSON of one call; raises like ``get_text``."""
        text = self.get_text(path, method)
        try:
            return json.loads(text)
        except ValueError:
            raise Blocked(f"{self.address}{path} did not return JSON: {text[:80]!r}") from None

    def version(self) -> str:
        return str(self.get("/api/version")["ray_version"])

    def state_rows(self, kind: str) -> tuple[list[dict[str, Any]], int]:
        """Return rows of Ray's state API (``nodes``, ``actors``, ``placement_groups`` …) and their total number."""
        answer = self.get(f"/api/v0/{kind}?detail=1&limit={STATE_API_LIMIT}")
        if not answer.get("result"):
            raise Blocked(f"Ray cannot list its {kind}: {answer.get('msg', '')}")
        found = answer["data"]["result"]
        rows: list[dict[str, Any]] = found["result"]
        return rows, int(found.get("total", len(rows)))

    def nodes(self) -> list[Node]:
        """Return all nodes in Ray's node table, including dead ones."""
        return [
            Node(
                node_id=row["node_id"],
                ip=row["node_ip"],
                alive=row["state"] == "ALIVE",
                is_head=bool(row["is_head_node"]),
                resources=row.get("resources_total") or {},
            )
            for row in self.state_rows("nodes")[0]
        ]

    def cluster_status(self) -> str:
        """Return the text that ``ray status`` prints."""
        return str(self.get("/api/cluster_status?format=1")["data"]["clusterStatus"])

    def job(self, submission_id: str) -> dict[str, Any] | None:
        """Return Ray's record of one job, or None when Ray has none."""
        try:
            record: dict[str, Any] = self.get(f"/api/jobs/{urllib.parse.quote(submission_id, safe='')}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise Blocked(f"Ray cannot read its record of job '{submission_id}': HTTP {error.code}") from None
        return record

    def jobs(self) -> list[dict[str, Any]]:
        """Return Ray's records of all jobs. Takes 3 s for 10,000 jobs, so do not call it while a person waits."""
        records: list[dict[str, Any]] = self.get("/api/jobs/")
        return records

    def stop_job(self, submission_id: str) -> bool | None:
        """Ask Ray to stop a job; return False when it had already ended, None when Ray has no record of it."""
        try:
            answer = self.get(f"/api/jobs/{urllib.parse.quote(submission_id, safe='')}/stop", method="POST")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise Blocked(f"Ray cannot stop job '{submission_id}': HTTP {error.code}", hint="./scripts/50_status.sh") from None
        return bool(answer["stopped"])

    def delete_job(self, submission_id: str) -> None:
        """Remove the record of a job that has ended; do nothing when Ray has none. Raises Blocked."""
        try:
            self.get(f"/api/jobs/{urllib.parse.quote(submission_id, safe='')}", method="DELETE")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise Blocked(f"Ray cannot remove its record of job '{submission_id}': HTTP {error.code}") from None


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
