"""Where the values of secrets are masked: what a process prints, and in what bundles collect after the values are gone."""
