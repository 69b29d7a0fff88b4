"""Predict how long a run takes."""

from __future__ import annotations

from lagbench.core.kubernetes import HPA_SYNC_SECONDS
from lagbench.core.scenario import Scenario
from lagbench.core.scenario.stream import load_spikes, offered_load
from lagbench.core.simulation.prediction import Prediction

AROUND_SECONDS = 108
"""quick_spike on 2 cores: 375 s in total, less 267 s from the stream's start to the last change of
replicas (measured). The rest is bench up, Airflow, pipeline and report.
"""
ACCOUNTING_SECONDS_PER_MESSAGE = 9e-6
"""Landing and accounting of 20 million messages took 181 s on two cores (docs/spark.md)."""


def expected_run_seconds(
    scenario: Scenario, predicted: Prediction, *, started_replicas: int
) -> float:
    """Return how long the run takes; its tail ends with the last change of replicas.

    It does not end before the lag is drained, or before the wait for that has ended. A stream
    that waits for its phase of the HPA's sync starts up to a period later.
    """
    load = offered_load(scenario.profile)
    ended = min(predicted.settled_seconds, load.duration_seconds + scenario.timeouts.settle_seconds)
    pod_rate = scenario.consumer.pod_rate_per_second
    spikes = load_spikes(load, started_replicas=started_replicas, pod_rate=pod_rate)
    if spikes:
        drain = predicted.measures["drain_seconds"].median
        longest = scenario.timeouts.drain_seconds
        ended = max(
            ended, spikes[-1].end_seconds + (longest if drain is None else min(drain, longest))
        )
    waits = 0.0 if scenario.hpa_sync_at_seconds is None else HPA_SYNC_SECONDS
    in_tail = load.base_rate * max(0.0, ended - load.duration_seconds)
    accounting = ACCOUNTING_SECONDS_PER_MESSAGE * (load.total + in_tail)
    return ended + AROUND_SECONDS + waits + accounting
