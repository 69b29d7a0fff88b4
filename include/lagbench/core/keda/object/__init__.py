"""A ScaledObject as KEDA parses it."""
