"""Predict how long a run takes."""

from __future__ import annotations

from lagbench.core.kubernetes import HPA_SYNC_SECONDS, NS_PER_SECOND
from lagbench.core.scenario import Scenario
from lagbench.core.scenario.stream import offered_load
from lagbench.core.simulation.prediction import Prediction

AROUND_SECONDS = 108
"""quick_spike on 2 cores: 375 s in total, less 267 s from the stream's start to the last change of
replicas (measured). The rest is bench up, Airflow, pipeline and report.
"""
ACCOUNTING_SECONDS_PER_MESSAGE = 9e-6
"""Landing and accounting of 20 million messages took 181 s on two cores (docs/spark.md)."""


def expected_run_seconds(scenario: Scenario, predicted: Prediction) -> float:
    """Return how long the run takes; its tail ends with the last change of replicas.

    It does not end before the lag is drained, or before the wait for that has ended. A stream
    that waits for its phase of the HPA's sync starts up to a period later.
    """
    load = offered_load(scenario.profile)
    ended = min(predicted.settled_seconds, load.duration_seconds + scenario.timeouts.settle_seconds)
    spike_ends = [step.at_ns / NS_PER_SECOND for step in load.steps if step.step == "spike_end"]
    if spike_ends:
        drain = predicted.measures["drain_seconds"].median
        longest = scenario.timeouts.drain_seconds
        ended = max(ended, spike_ends[-1] + (longest if drain is None else min(drain, longest)))
    waits = 0.0 if scenario.hpa_sync_at_seconds is None else HPA_SYNC_SECONDS
    in_tail = load.base_rate * max(0.0, ended - load.duration_seconds)
    accounting = ACCOUNTING_SECONDS_PER_MESSAGE * (load.total + in_tail)
    return ended + AROUND_SECONDS + waits + accounting
