"""The terminal's values are folded from telemetry, and missing stays missing."""

from __future__ import annotations

from lagbench.cli.live_figures import LiveFigures
from lagbench.cli.progress import sparkline
from lagbench.core.telemetry.records import (
    ConsumerProgress,
    LagSample,
    PodStopped,
    ProducerProgress,
    ReadGap,
    StreamFinished,
)

SECOND = 1_000_000_000


def pod(name: str, at: int, rate: float) -> ConsumerProgress:
    """Return a pod's report of its rate."""
    return ConsumerProgress(
        at=at,
        source=name,
        processed_total=0,
        consume_rate=rate,
        inflight=0,
        queued=0,
        assigned_partitions=1,
        cpu_seconds=0,
    )


def sent(at: int, count: int) -> ProducerProgress:
    """Return the producer's report of its total."""
    return ProducerProgress(
        at=at,
        source="producer",
        planned=count,
        sent=count,
        acked=count,
        failed=0,
        lateness_p50_ms=None,
        lateness_p99_ms=None,
        lateness_max_ms=None,
    )


def test_nothing_seen_is_not_zero() -> None:
    """Before any record every figure is None."""
    figures = LiveFigures()

    assert figures.total_lag is figures.consumed_per_second is figures.offered_per_second is None


def test_rates_are_differences_and_sums() -> None:
    """The offered rate is the producer's difference, the consumed rate the sum over fresh pods."""
    figures = LiveFigures()
    for record in (sent(SECOND, 100), sent(3 * SECOND, 700), pod("a", 3 * SECOND, 200.0)):
        figures.take(record)
    figures.take(pod("b", 3 * SECOND, 50.0))

    assert figures.offered_per_second == 300
    assert figures.consumed_per_second == 250


def test_a_silent_pod_stops_counting() -> None:
    """A pod that has not reported for more than 3 s, or has stopped, is left out."""
    figures = LiveFigures()
    figures.take(pod("silent", SECOND, 100.0))
    figures.take(pod("fresh", 6 * SECOND, 10.0))
    assert figures.consumed_per_second == 10

    figures.take(
        PodStopped(
            at=6 * SECOND,
            source="fresh",
            reason="sigterm",
            is_graceful=True,
            abandoned=0,
            processed_total=1,
        )
    )
    assert figures.consumed_per_second is None


def test_lag_of_unknown_partitions_is_left_out() -> None:
    """A partition without a committed offset adds nothing; none known at all is None."""
    figures = LiveFigures()
    figures.take(LagSample(at=1, source="r", partitions=[(0, 10, 4), (1, 9, None)]))
    assert figures.total_lag == 6

    figures.take(LagSample(at=2, source="r", partitions=[(0, 10, None)]))
    assert figures.total_lag is None


def test_a_failed_reading_is_shown_until_the_next_good_one() -> None:
    """A gap names what was not seen and why; the next lag sample clears it."""
    figures = LiveFigures()
    figures.take(ReadGap(at=1, source="r", what="lag", reason="broker away"))
    assert figures.gap == "lag: broker away"

    figures.take(LagSample(at=2, source="r", partitions=[(0, 1, 1)]))
    assert figures.gap == ""


def test_the_stream_ends_at_rate_zero() -> None:
    """After the stream has finished the offered rate is zero, not the last second's."""
    figures = LiveFigures()
    figures.take(sent(SECOND, 0))
    figures.take(sent(2 * SECOND, 600))
    figures.take(
        StreamFinished(
            at=3 * SECOND,
            source="producer",
            planned=600,
            sent=600,
            acked=600,
            failed=0,
            unknown=0,
            lateness_p50_ms=1,
            lateness_p99_ms=1,
            lateness_max_ms=1,
            fell_behind=False,
            reason="completed",
            stream_sha256="",
        )
    )

    assert figures.offered_per_second == 0


def test_a_sparkline_is_scaled_to_its_maximum() -> None:
    """The lowest value gets the lowest bar, the highest the highest, and all zero stays low."""
    assert sparkline([0, 50, 100]) == "▁▄█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""
