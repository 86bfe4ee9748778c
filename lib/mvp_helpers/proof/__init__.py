"""What a finished job's evidence proves."""
