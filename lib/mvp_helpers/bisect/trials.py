"""A commit's trial: its code under the shared root, a real job with it, and the verdict of the gates on that job."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..base import git
from ..base.errors import BadInput, Blocked, MvpError
from ..base.paths import JobFolder, SharedRoot
from ..base.shared_storage import remove_tree, writing
from ..base.verdict import Check
from ..cluster import ray_api
from ..cluster.cluster_file import Cluster
from ..gates import assertions, gates, of_job
from ..gates import baseline as baselines
from ..gates.baseline import Baseline
from ..gates.gates import Gates
from ..job import follow, submit
from ..plan import jobspec, plan, planning
from ..prepare import snapshot
from ..record import job_folder
from ..record.job_folder import Result
from ..retry import follow as follow_chain
from .record import Request
from .search import CannotRun

Say = Callable[[str], None]
VERL, TOOLKIT = "verl/__init__.py", "lib/mvp_helpers/__main__.py"
"""A file by which a commit of either repository is known."""
JOBS_ARE_MADE_OF = ("lib", "templates")
"""What a job takes from this project."""


class JobTrials:
    """Trials by real jobs on a cluster. ``environment`` has the values of the JobSpec's secrets."""

    def __init__(
        self, request: Request, place: Path, cluster: Cluster, found: Gates, environment: Mapping[str, str], say: Say
    ) -> None:
        self.request, self.place, self.cluster, self.gates = request, place, cluster, found
        self.environment, self.say = environment, say
        self.shared, self.repository = SharedRoot(Path(cluster.shared_root)), Path(request.repository)
        self.api = ray_api.of(cluster)

    def code_of(self, commit: str) -> str:
        """Make a snapshot of verl, or a folder of this project, from the commit. Raises CannotRun; Blocked for the storage."""
        if not git.listing(self.repository, commit, VERL if self.request.kind == "verl" else TOOLKIT):
            raise CannotRun(f"the commit lacks {VERL if self.request.kind == 'verl' else TOOLKIT}")
        return self._snapshot(commit) if self.request.kind == "verl" else self._toolkit(commit)

    def run(self, commit: str, code_id: str, job: str) -> str:
        """Submit the job unless it exists, and follow it and its further attempts to the end.

        Raises:
            CannotRun: the JobSpec does not fit that code, or the job did not succeed.
            Blocked: the cluster runs no job.
        """
        folder = self.shared.job(job)
        if not folder.path.exists():
            if self.request.kind == "verl":
                self._submit(job, code_id)
            else:
                self._submit_with_toolkit(job, self._tree(commit))

        def follow_one(each: JobFolder, left_s: float | None) -> Result:
            return follow.follow(each, self.api, timeout_s=left_s, pending_timeout_s=None, say=self.say)

        folder, result = follow_chain.to_the_end(folder, follow_one, self.say)
        if result.state != "SUCCEEDED":
            when = f"after {result.steps_done} steps" if result.steps_done else "before it trained"
            raise CannotRun(f"job {folder.submission_id} is {result.state} {when}: {result.reason}")
        return folder.submission_id

    def baseline(self, jobs: Sequence[str]) -> Baseline:
        """Return the baseline of jobs with the same code and JobSpec. Raises BadInput when a relative gate has no value."""
        folders = [self.shared.job(job) for job in jobs]
        values = [gates.values(self.gates, self._data(folder)) for folder in folders]
        hardware = baselines.together([of_job.hardware(folder, plan.read(folder)) for folder in folders])
        by_gate = {gate: [each[gate] for each in values] for gate in values[0]}
        return baselines.make("good-end", self.gates.workload, jobs, hardware, of_job.versions(folders[0]), by_gate)

    def judge(self, job: str, recorded: Baseline | None) -> list[Check]:
        """Return the verdict of each gate. Raises BadInput."""
        folder = self.shared.job(job)
        own = self.request.baseline is None  # of this cluster: a short job may lack a fact that another has
        return gates.judge(self.gates, self._data(folder), recorded, of_job.hardware(folder, plan.read(folder)), any_hardware=own)

    def _data(self, folder: JobFolder) -> assertions.Data:
        return of_job.data(folder, job_folder.read(folder), self.gates.metrics)

    def _snapshot(self, commit: str) -> str:
        tree = self.place / "tree"
        about: dict[str, Any] = {
            "kind": "git",
            "path": str(self.repository),
            "git": {"commit": commit, "dirty": False, "changed": []},
        }
        with writing(tree):
            remove_tree(tree)
            git.export(self.repository, commit, tree)
        try:
            return snapshot.snapshot(snapshot.Source(path=tree, about=about), self.shared, say=self.say).code_id
        except BadInput as error:
            raise CannotRun(f"no snapshot can be made: {error.what}", error) from None
        finally:
            remove_tree(tree)

    def _tree(self, commit: str) -> Path:
        return self.place / "toolkit" / commit

    def _toolkit(self, commit: str) -> str:
        tree = self._tree(commit)
        if not tree.is_dir():
            unfinished = tree.with_name(f".{commit}")
            with writing(tree):
                remove_tree(unfinished)
                git.export(self.repository, commit, unfinished)
                unfinished.rename(tree)
        content = git.listing(self.repository, commit, *JOBS_ARE_MADE_OF)
        return f"toolkit-{hashlib.sha256(content.encode()).hexdigest()[:8]}"

    def _spec(self, fields: Mapping[str, str]) -> bytes:
        return jobspec.with_fields(self.request.spec.encode(), self.request.spec_name, fields)

    def _submit(self, job: str, code_id: str) -> None:
        code_path = str((self.shared.verl_code / code_id).relative_to(self.shared.root))
        data = self._spec({"submission_id": job, "code_path": code_path})
        try:
            planning.make(data, self.request.spec_name, self.cluster)
        except (BadInput, Blocked) as error:
            raise CannotRun(f"the JobSpec does not fit it: {error.what}", error) from None
        submit.submit(data, self.request.spec_name, self.cluster, self.say, self.environment)

    def _submit_with_toolkit(self, job: str, tree: Path) -> None:
        """Submit with the toolkit of a commit, which also runs the job on the workers."""
        cluster = msgspec.structs.replace(self.cluster, tools_dir=str(tree))
        environment = {**os.environ, **self.environment, "PYTHONPATH": str(tree / "lib"), "MVP_CLUSTER_JSON": cluster.to_json()}
        done = subprocess.run(
            [sys.executable, "-m", "mvp_helpers", "submit", "--spec-name", self.request.spec_name],
            input=self._spec({"submission_id": job}),
            env=environment,
            cwd=tree,
            capture_output=True,
            check=False,
        )
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        if done.returncode == Blocked.exit_code:
            raise Blocked(f"the toolkit of {tree.name}: {lines[0].removeprefix('blocked: ')}", hint="./scripts/50_status.sh")
        if done.returncode:
            problem = next((line for line in lines if line.startswith(("bad input:", "failed:"))), lines[-1])
            error: MvpError = BadInput(f"the toolkit of {tree.name}: {problem}")
            raise CannotRun(f"its submission ended with exit code {done.returncode}: {problem}", error)
