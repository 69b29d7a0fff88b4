"""KEDA: its object, its triggers, its loops, its formulas."""
