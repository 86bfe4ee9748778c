"""Bisection: find the commit from which on a gate fails; each commit that is tested is a real job."""
