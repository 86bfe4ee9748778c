"""Gates: assertions about a job's metrics, absolute or relative to recorded runs, that can fail a regression."""
