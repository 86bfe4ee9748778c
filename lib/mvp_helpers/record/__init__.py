"""What a job leaves: its folder, state and evidence files."""
