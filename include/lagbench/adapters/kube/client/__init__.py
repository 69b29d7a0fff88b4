"""Connect to a Kubernetes API: log in, find its kinds, list and watch, map errors."""
