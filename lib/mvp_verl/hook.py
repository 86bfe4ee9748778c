"""The module that verl imports: proves the import and arms the hooks in processes of a job of the toolkit, and only there.

Its import does next to nothing: verl imports it in every process, and only the process that constructs a trainer uses it.
"""

from __future__ import annotations

import os

from . import import_record, own_queue, rollouts, tracking, trainers

if job_folder := os.environ.get("MVP_JOB_FOLDER"):
    import_record.check(job_folder)
    trainers.arm(job_folder)
    tracking.arm(job_folder)
    own_queue.arm()
    rollouts.arm()
