"""Compute how long a consumer pod waits before it joins, to imitate its start on a cluster.

A cluster pulls the image and sometimes starts a node first; a process on the embedded bench starts
in a tenth of a second. ``consumer.start_seconds`` is the mean of the delay that stands for this.
Each pod's own delay follows from the scenario's seed and the pod's number in its run, so the same
cell, a rerun and the simulation all give the n-th pod the same delay.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS, NS_PER_SECOND
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.errors import WrongInput

DEFAULT_START_SECONDS = 1.2
"""A pod's time from creation to Ready when each pod was an interpreter of its own."""
START_SPREAD = 0.25
"""A pod's delay is drawn evenly from the mean +- this share of it."""


@dataclass(frozen=True, slots=True)
class StartDelay:
    """The delays of a run's pods."""

    mean_seconds: float
    seed: int
    spread: float = START_SPREAD

    @property
    def longest_seconds(self) -> float:
        """Return the upper bound of the delays."""
        return self.mean_seconds * (1.0 + self.spread)

    def of_pod(self, number: int) -> float:
        """Return the delay in seconds of the pod that was created as number ``number``, from 0."""
        drawn = hashlib.blake2b(f"{self.seed} {number}".encode(), digest_size=8).digest()
        share = int.from_bytes(drawn, "big") / 2**64
        return self.mean_seconds * (1.0 + self.spread * (2.0 * share - 1.0))


def start_delay(settings: ConsumerSettings, seed: int, *, is_embedded: bool) -> StartDelay | None:
    """Return the delays of a run; None: its pods start without one."""
    if settings.start_seconds is None and not is_embedded:
        return None
    return StartDelay(mean_start_seconds(settings), seed)


def mean_start_seconds(settings: ConsumerSettings) -> float:
    """Return the mean delay on the embedded bench and in a simulation."""
    given = settings.start_seconds
    return DEFAULT_START_SECONDS if given is None else given


def stream_start_at_ns(*, sync_at_ns: int, phase_seconds: float, earliest_ns: int) -> int:
    """Return the first instant from ``earliest_ns`` on with a sync ``phase_seconds`` after it."""
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
