"""Generate the Grafana dashboard of a run; ``python -m lagbench.grafana`` writes it."""
