"""The node: pods as processes, their environment, logs, probes and metrics."""
