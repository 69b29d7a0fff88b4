"""Compare runs with each other."""
