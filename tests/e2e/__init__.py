"""The whole rehearsal as a user runs it."""
