"""Measure this machine: producer, consumers, rebalances, Spark, pod starts, Dag overhead."""
