"""Spark's settings and submissions."""
