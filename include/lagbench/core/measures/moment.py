"""Format instants of a run for readers."""

from __future__ import annotations

from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS


def moment(measures: Measures, at: int | None) -> str:
    """Return an instant as seconds after the start of the stream."""
    origin = measures.load.stream_started_at
    if at is None or origin is None:
        return "at an unknown instant"
    return f"at {(at - origin) / NANOSECONDS:+.1f} s"
