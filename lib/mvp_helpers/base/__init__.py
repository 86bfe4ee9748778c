"""Helpers that every room uses; they decide nothing about jobs."""
