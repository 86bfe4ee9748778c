"""Run the end-to-end procedure as a Ray job (workload ``e2e``). ``E2E_ARGUMENTS`` contains its arguments, a JSON list."""

from __future__ import annotations

import json
import os
import sys

if __name__ == "__main__":
    # The trainer joins the cluster that runs this job; with this variable Ray would take it for this job's own driver.
    os.environ.pop("RAY_JOB_CONFIG_JSON_ENV_VAR", None)
    os.execv(sys.executable, [sys.executable, "-m", "mvp_helpers", "e2e", *json.loads(os.environ["E2E_ARGUMENTS"])])
