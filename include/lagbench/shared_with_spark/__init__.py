"""Definitions shared with Spark's jobs: the bytes of an event, and the classes of messages."""
