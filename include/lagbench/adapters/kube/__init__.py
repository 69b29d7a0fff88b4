"""Kubernetes through its official client."""
