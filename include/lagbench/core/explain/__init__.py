"""A metric's value worked out step by step."""
