"""The player of a run's actions."""
