"""What is asked for: a procedure's description, its levels and variants, the checkouts, and what a change recommends."""
