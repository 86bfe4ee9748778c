"""What proves that a run succeeded, and what in its log contradicts that."""
