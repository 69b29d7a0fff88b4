"""Define the input of a run: load, events, keys, timeouts, names."""
