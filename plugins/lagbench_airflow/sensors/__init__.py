"""Tasks that wait for a state of the bench."""
