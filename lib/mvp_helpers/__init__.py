"""The thinking half of the toolkit: JobSpecs, plans, job folders, evidence and verdicts. See shared-layout.md for every path."""

__version__ = "1.1.0"
