"""A scaling policy before it is applied: what it is, its limits."""
