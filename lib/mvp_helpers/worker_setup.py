"""What Ray runs first in every Ray worker of a job (its ``worker_process_setup_hook``), before anything of the job.

Imports the standard library alone, unless the job has secrets: a job starts many workers.
"""

import os


def of_job() -> None:
    """Mark this worker and whatever it starts as the job's, and mask its output where the job has secrets.

    Raises whatever prevents the masking: Ray then ends the worker.
    """
    from .base import processes

    processes.mark(os.environ["MVP_JOB_FOLDER"])
    if "MVP_SECRETS_FILE" in os.environ:
        from .job import job_secrets

        job_secrets.setup_worker()
