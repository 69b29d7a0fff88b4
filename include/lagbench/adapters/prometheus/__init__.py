"""Prometheus' HTTP API."""
