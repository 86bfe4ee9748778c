"""Seals: signed statements of the files in the folder of a job that has ended (docs/evidence.md)."""
