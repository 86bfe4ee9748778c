"""The end-to-end procedure as a Ray job (workload ``e2e``): its arguments come in an environment variable, as a JSON list."""

from __future__ import annotations

import json
import os
import sys

from .. import cli

if __name__ == "__main__":
    # The trainer joins the cluster that runs this job, and is not taken for this job's own driver.
    os.environ.pop("RAY_JOB_CONFIG_JSON_ENV_VAR", None)
    sys.exit(cli.main(["e2e", *json.loads(os.environ["E2E_ARGUMENTS"])]))
