"""What this machine can do: producer, consumers, rebalances, Spark, pod starts, Dag overhead."""
