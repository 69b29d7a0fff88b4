"""Predict how long a run takes."""

from __future__ import annotations

from lagbench.core.kubernetes import HPA_SYNC_SECONDS
from lagbench.core.scenario import Scenario
from lagbench.core.scenario.stream import offered_load
from lagbench.core.simulation.prediction import Prediction

AROUND_SECONDS = 108
"""quick_spike on 2 cores: 375 s in total, less 267 s from the stream's start to the last change of
replicas (measured). The rest is bench up, Airflow, pipeline and report.
"""


def expected_run_seconds(scenario: Scenario, predicted: Prediction) -> float:
    """Return how long the run takes; its tail ends with the last change of replicas.

    A stream that waits for its phase of the HPA's sync starts up to a period later.
    """
    stream = offered_load(scenario.profile).duration_seconds
    ended = min(predicted.settled_seconds, stream + scenario.timeouts.settle_seconds)
    waits = 0.0 if scenario.hpa_sync_at_seconds is None else HPA_SYNC_SECONDS
    return ended + AROUND_SECONDS + waits
