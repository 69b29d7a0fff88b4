"""Fix the phase of the HPA's sync: start the stream a planned time before a sync.

The HPA's clock stays as it is. The stream waits for it, because the phase is a difference of two
instants, and only the start of the stream is ours to choose.
"""

from __future__ import annotations

from lagbench.core.kubernetes.control_loops import HPA_SYNC_SECONDS
from lagbench.core.kubernetes.instants import NS_PER_SECOND
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import WrongInput


def stream_start_at_ns(*, sync_at_ns: int, phase_seconds: float, earliest_ns: int) -> int:
    """Return the first instant from ``earliest_ns`` on with a sync ``phase_seconds`` after it.

    :param sync_at_ns: a known sync (unix ns); further ones come every 15 s.
    """
    period_ns = round(HPA_SYNC_SECONDS * NS_PER_SECOND)
    first = sync_at_ns - round(phase_seconds * NS_PER_SECOND)
    return earliest_ns + (first - earliest_ns) % period_ns


def phase_distance_seconds(first: float, second: float) -> float:
    """Return how far two phases are apart, at most half a period."""
    apart = abs(first - second) % HPA_SYNC_SECONDS
    return min(apart, HPA_SYNC_SECONDS - apart)


def require_known_hpa(scenario: Scenario, *, is_embedded: bool) -> None:
    """Reject a fixed phase if the target does not report the HPA's syncs."""
    if scenario.hpa_sync_at_seconds is not None and not is_embedded:
        raise WrongInput(
            where=f"scenario {scenario.name}",
            field="hpa_sync_at_seconds",
            value=scenario.hpa_sync_at_seconds,
            allowed="no value on a cluster: its HPA controller does not report its syncs",
        )
