"""From a JobSpec to a plan: everything a submission will do."""
