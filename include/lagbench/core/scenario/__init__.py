"""What is asked of a run: load, events, keys, timeouts, names."""
