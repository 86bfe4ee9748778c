"""What every room uses and no room decides."""
