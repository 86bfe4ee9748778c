"""What a run's metrics show of its learning."""
