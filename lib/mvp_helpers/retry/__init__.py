"""Further attempts of a job that something outside of it ended: who is to blame, who starts them, how they are followed."""
