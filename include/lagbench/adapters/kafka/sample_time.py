"""Limit the time that reading a sample of offsets from Kafka may take."""

from __future__ import annotations

DEFAULT_TIMEOUT_SECONDS = 5.0
"""Of one request."""
MARGIN_SECONDS = 1.0
"""librdkafka may answer this much after the request's own timeout."""


def longest_sample_seconds(timeout_seconds: float) -> float:
    """Return how long a sample takes at most, however many requests of it go unanswered."""
    return 2 * (timeout_seconds + MARGIN_SECONDS)
