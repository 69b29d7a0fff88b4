"""The controller that stands in for KEDA on a cluster."""
