"""Read a run's records on one clock, and decide whether they can be trusted."""
