"""What a log says about how a run ended."""
