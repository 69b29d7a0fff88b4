"""Scenarios and policies by name."""
