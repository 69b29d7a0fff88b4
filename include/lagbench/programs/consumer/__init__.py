"""The workload under test: a member of the consumer group whose every message costs a write.

Two threads. The poll thread (main) fetches, serves rebalances and commits, and never works. The
worker thread takes from bounded per-partition queues, does the simulated downstream writes and
reports each finished batch to the ledger. So the partitions that a member keeps are processed while
an incremental rebalance moves others.
"""
