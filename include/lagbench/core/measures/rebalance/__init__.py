"""What rebalances and standstills cost."""
