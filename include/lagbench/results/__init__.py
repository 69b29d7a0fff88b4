"""Compute measures, verdict and comparison from a run folder's tables."""
