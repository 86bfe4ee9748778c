"""What is known of a trainer, a module each."""
