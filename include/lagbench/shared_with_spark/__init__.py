"""What Spark's jobs know of lagbench: the bytes of an event, and the classes of messages."""
