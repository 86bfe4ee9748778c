"""Seals: signed statements of what is in the folder of a job that has ended (docs/evidence.md)."""
