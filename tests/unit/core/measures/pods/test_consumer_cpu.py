"""CPU of the consumer pods over time."""

from __future__ import annotations

import numpy as np
from tests.fakes.group_story import SECOND

from lagbench.core.measures.pods.consumer_cpu import consumer_cpu
from lagbench.core.telemetry.consumer import ConsumerProgress


def report(pod: str, second: float, cpu_seconds: float) -> ConsumerProgress:
    """Return what a pod tells once a second."""
    return ConsumerProgress(
        at=round(second * SECOND),
        source=pod,
        processed_total=0,
        consume_rate=0,
        inflight=0,
        queued=0,
        assigned_partitions=1,
        cpu_seconds=cpu_seconds,
    )


def test_use_is_cpu_time_by_time_between_reports() -> None:
    """One pod uses 0.25 cores; a second one, there from 2 s on, uses 0.75."""
    calm = [report("a", second, 1 + 0.25 * second) for second in range(5)]
    busy = [report("b", second, 0.75 * second) for second in range(2, 5)]

    found = consumer_cpu([*busy, *calm])

    assert (found.at / SECOND).tolist() == [1, 2, 3, 4]
    assert found.mean.tolist() == [0.25, 0.25, 0.5, 0.5]
    assert found.highest.tolist() == [0.25, 0.25, 0.75, 0.75]


def test_reports_that_come_late_break_no_line() -> None:
    """A report every 1.3 s tells of each second in between."""
    found = consumer_cpu([report("a", 1.3 * number, 0.13 * number) for number in range(10)])

    assert np.allclose(found.mean, 0.1)


def test_a_time_without_reports_is_unknown() -> None:
    """Nobody told of 1 to 6 s: a gap, and no mean over it."""
    found = consumer_cpu([report("a", second, float(second)) for second in (0, 1, 6, 7)])

    assert found.mean[0] == found.mean[-1] == 1
    assert np.isnan(found.mean[1:6]).all()
    assert np.isnan(found.highest[1:6]).all()


def test_a_container_that_was_started_again_uses_nothing_negative() -> None:
    """CPU time fell from 9 s to 0.1 s: what it spent in between is not known."""
    found = consumer_cpu([report("a", 0, 8.5), report("a", 1, 9), report("a", 2, 0.1)])

    assert found.mean[0] == 0.5
    assert np.isnan(found.mean[1])


def test_a_single_report_reports_nothing() -> None:
    """A running total alone is no use of CPU."""
    assert consumer_cpu([report("a", 1, 5.0)]).at.size == 0
