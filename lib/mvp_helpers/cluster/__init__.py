"""A cluster's hosts and their Ray nodes."""
