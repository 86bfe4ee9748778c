"""What ended jobs keep on the disk: checkpoints listed, pruned and exported; whole jobs removed (scripts 57 and 59)."""
