"""Instants of Kubernetes objects (RFC 3339, UTC) as integer nanoseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NS_PER_SECOND = 1_000_000_000


def parse_instant_ns(text: str) -> int:
    """Return an RFC 3339 instant in nanoseconds (microsecond resolution)."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1) * 1000


def format_instant(at_ns: int) -> str:
    """Return an instant as metav1.Time writes it: whole seconds, rounded down."""
    moment = _EPOCH + timedelta(seconds=at_ns // NS_PER_SECOND)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def floor_to_second_ns(at_ns: int) -> int:
    """Return the instant that is left after a round trip through metav1.Time."""
    return at_ns // NS_PER_SECOND * NS_PER_SECOND
