"""The Spark side of a rehearsal: land a run's topics as tables, account for them, draw its time."""
