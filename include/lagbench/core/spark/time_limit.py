"""State the longest that landing, accounting and drawing may take, by the size of the run."""

from __future__ import annotations

_START_SECONDS = 20 * 60
_SECONDS_PER_MILLION = 2 * 60


def time_limit_seconds(messages: int) -> float:
    """Return the limit of one try, in seconds: 20 minutes, and 2 minutes a million messages.

    The first part is for a start of Spark with images and volumes on a busy cluster. The second is
    ten times what two cores need.
    """
    return _START_SECONDS + messages / 1_000_000 * _SECONDS_PER_MILLION
