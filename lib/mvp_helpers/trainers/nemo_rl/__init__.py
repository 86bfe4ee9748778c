"""NeMo-RL, a trainer of several modules: ``trainer`` has its ``TRAINER``."""
