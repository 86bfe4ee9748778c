"""One file for each kind of step of an end-to-end run."""
