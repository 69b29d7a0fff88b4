"""Define the assumptions of a simulation, each with its source: durations and phases."""

from __future__ import annotations

from dataclasses import dataclass

from lagbench.core.hpa.state import HpaSettings
from lagbench.core.scenario.start_delay import START_SPREAD


@dataclass(frozen=True, slots=True)
class SimulatedEnvironment:
    """Times of pods, group and clocks; the defaults are those measured on the embedded bench."""

    hpa_sync_seconds: float = 15.015
    """A processed HPA is due again 15 s later; with the work of a sync 15.015 s (measured)."""
    hpa_sync_at_seconds: float | None = None
    """An instant of one of the HPA's syncs, from the stream's start; None: drawn by the seed."""
    start_up_seconds: float | None = None
    """From a pod's creation to Ready, on average; None: the scenario's ``start_seconds``, beyond
    which a process takes a tenth of a second. 10 to 20 s are usual on a cluster."""
    start_up_spread: float = START_SPREAD
    """Each pod's start-up is drawn from the mean +- this share of it."""
    handover_seconds: float = 0.4
    """From joined (or left) to the new owner's first work: 0.3 to 0.5 s with 12 partitions."""
    metadata_seconds: float = 10.0
    """The time between two looks of a consumer at the topic's partitions, as its client is set."""
    stop_seconds: float = 0.5
    """From the order to stop a pod until its end; the time is paid, and no work is done in it."""
    status_seconds: float = 0.2
    """Until status.replicas follows spec.replicas."""
    commit_seconds: float = 1.0
    """The consumers' commit interval: at rest the lag is what arrived since the last commit."""
    scrape_seconds: float = 2.0
    """Prometheus' scrape interval on the embedded bench (k8s/base/prometheus)."""
    scrape_delay_seconds: float = 0.5
    """From the recorder's reading of the lag, once a second, to the scrape that sees it."""
    lead_seconds: float = 120.0
    """The time for which the policy is in force before the stream starts, without traffic."""
    tail_seconds: float = 900.0
    """The time that is watched after the planned window: the same for every policy, as is the base
    load that continues in it. (A run ends it once the replicas are settled.)
    """
    cpu_idle_millicores: float = 5.0
    cpu_busy_millicores: float = 45.0
    """A pod at its full rate, without the work of ``consumer.cpu_ms``."""
    starts_at_seconds: int = 1_767_571_200
    """Unix time of the stream's start (2026-01-05 00:00 UTC, a Monday), for cron triggers."""
    hpa: HpaSettings = HpaSettings()  # noqa: RUF009 - frozen
