"""The controller that replaces KEDA on a cluster."""
