"""Replicas over time: steps, flips, coverage."""
