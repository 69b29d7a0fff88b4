"""The Spark side of a rehearsal: land a run's topics, account for them, draw its time."""
