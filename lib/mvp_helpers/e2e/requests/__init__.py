"""The request for a run: a procedure's description, its levels and variants, the checkouts, and what a change recommends."""
