"""Data and models under the shared root."""
