"""Generate the Grafana board of a run; ``python -m lagbench.grafana`` writes it."""
