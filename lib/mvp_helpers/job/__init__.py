"""A job from its submission to its end."""
