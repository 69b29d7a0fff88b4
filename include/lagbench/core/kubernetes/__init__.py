"""Kubernetes' own formats: quantities, instants, fields, Go's texts."""
