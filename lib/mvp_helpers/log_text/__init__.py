"""What the text of a log says before anything is judged: its lines, tracebacks, steps, and words that speak against success."""
