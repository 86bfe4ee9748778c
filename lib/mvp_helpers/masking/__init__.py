"""Where the values of secrets are masked: what a process prints, and what is collected when the values are gone."""
