"""Trackers of experiments (``tracking`` of a JobSpec): what each needs, and how an attempt continues a run."""
