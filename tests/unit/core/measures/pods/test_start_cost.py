"""What starting costs, from the pods' timelines and their first words."""

from __future__ import annotations

import pytest
from tests.fakes.group_story import timeline

from lagbench.core.measures.pods.start_cost import StartCost, start_cost
from lagbench.core.telemetry.consumer import PodStarted


def started(pod: str, delay: float | None, cpu: float | None = 0.02) -> PodStarted:
    """Return what a pod says when it starts."""
    return PodStarted(
        at=0,
        source=pod,
        process_started_at=0,
        balancer="range",
        concurrency=1,
        process_ms=2.0,
        instance_id=None,
        start_delay_seconds=delay,
        start_cpu_seconds=cpu,
    )


def test_the_delay_is_no_cost() -> None:
    """Ready 1.3 and 1.6 s after creation, with delays of 1.2 and 1.0 s, is 0.1 and 0.6 s."""
    timelines = {"a": timeline("a", 10, 11.3), "b": timeline("b", 10, 11.6)}

    found = start_cost([started("a", 1.2), started("b", 1.0)], timelines)

    assert (found.pods, found.unreported_pods) == (2, 0)
    assert found.median_seconds == pytest.approx(0.35)
    assert found.max_seconds == pytest.approx(0.6)
    assert found.delay_mean_seconds == pytest.approx(1.1)
    assert found.cpu_seconds == pytest.approx(0.04)


def test_an_older_run_waited_for_nothing_and_reported_no_processor_time() -> None:
    """Without a delay in the record all of the way to Ready is cost; its CPU is unknown."""
    found = start_cost([started("a", None, None)], {"a": timeline("a", 10, 10.9)})

    assert found.max_seconds == pytest.approx(0.9)
    assert found.cpu_seconds is None


def test_a_missing_report_is_not_zero() -> None:
    """A pod that never was Ready is not counted; one without a record of its start is named."""
    found = start_cost([started("a", 1.2)], {"a": timeline("a", 10), "b": timeline("b", 10, 11)})

    assert found == StartCost(pods=0, unreported_pods=1)


def test_the_first_start_of_a_pod_counts() -> None:
    """A container that was started again tells of a delay that did not precede Ready."""
    found = start_cost([started("a", 0.4), started("a", 9.0)], {"a": timeline("a", 10, 10.5)})

    assert found.max_seconds == pytest.approx(0.1)
