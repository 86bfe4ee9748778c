"""Script 56: what jobs did, and how they differ, as one HTML file that needs nothing else."""
