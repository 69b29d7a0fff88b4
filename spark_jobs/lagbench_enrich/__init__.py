"""The consumer under test on Spark: the same work and ledger as the stand-in, in micro-batches."""
