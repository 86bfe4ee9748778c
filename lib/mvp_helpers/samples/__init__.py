"""What the model said: the rollouts that a job kept, chosen, shown across steps, and scored again (script 58)."""
