"""Measure the cost of rebalances and standstills."""
