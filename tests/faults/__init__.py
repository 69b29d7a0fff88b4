"""Faults that a test must notice: the guard of each change that removes code or tests."""
