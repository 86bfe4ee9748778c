"""Everything known about each trainer, one module per trainer."""
