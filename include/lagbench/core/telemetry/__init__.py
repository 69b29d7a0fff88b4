"""Define the records of a run's programs, and their encoding."""
