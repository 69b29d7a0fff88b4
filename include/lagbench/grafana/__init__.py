"""The board of a run for Grafana, generated: ``python -m lagbench.grafana`` writes it."""
