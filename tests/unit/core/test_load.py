"""Load window, generator and gaps."""

from typing import Literal

from lagbench.core.load import generator, load_window, telemetry_gaps, validity
from lagbench.core.telemetry import (
    LagSample,
    LoadStep,
    ProducerProgress,
    ReadGap,
    StreamFinished,
    StreamStarted,
    TelemetryRecord,
)

SECOND = 1_000_000_000


def finished(*, fell_behind: bool = False, failed: int = 0) -> StreamFinished:
    """Return the producer's last word."""
    return StreamFinished(
        at=99 * SECOND,
        source="producer",
        planned=100,
        sent=100,
        acked=100 - failed,
        failed=failed,
        unknown=0,
        lateness_p50_ms=1,
        lateness_p99_ms=2,
        lateness_max_ms=3,
        fell_behind=fell_behind,
        reason="p99 lateness 1.2 s" if fell_behind else "",
        stream_sha256="00",
    )


def step(second: int, kind: Literal["spike_start", "spike_end", "change"]) -> LoadStep:
    """Return a change of the offered rate."""
    rates = (600.0, 6000.0) if kind == "spike_start" else (6000.0, 600.0)
    return LoadStep(
        at=second * SECOND, source="producer", step=kind, rate_before=rates[0], rate_after=rates[1]
    )


def lag_sample(second: float) -> LagSample:
    """Return a reading of the recorder."""
    return LagSample(at=round(second * SECOND), source="recorder", partitions=[])


def read_gap(second: float) -> ReadGap:
    """Return a reading that failed."""
    return ReadGap(at=round(second * SECOND), source="recorder", what="lag", reason="broker away")


def test_a_sawtooth_runs_from_its_first_spike_to_its_last() -> None:
    """Two bursts: first start, last end."""
    records: list[TelemetryRecord] = [
        step(40, "spike_start"),
        step(20, "spike_end"),
        step(10, "spike_start"),
        step(50, "spike_end"),
        finished(),
    ]

    window = load_window(records)

    assert (window.first_spike_started_at, window.last_spike_ended_at) == (10 * SECOND, 50 * SECOND)
    assert (window.spikes, window.base_rate_per_second, window.spike_rate_per_second) == (
        2,
        600,
        6000,
    )
    assert window.stream_ended_at == 99 * SECOND


def test_a_stream_without_end_ends_as_planned() -> None:
    """The producer died: the plan says when it would have ended."""
    started = StreamStarted(
        at=1,
        source="producer",
        stream_started_at=5 * SECOND,
        seed=1,
        profile="steady",
        planned_total=10,
        planned_seconds=7.5,
        partitions=3,
    )

    assert load_window([started]).stream_ended_at == 12.5 * SECOND


def test_a_generator_that_fell_behind_invalidates_the_run() -> None:
    """And the reason is the producer's own."""
    found = validity(generator([finished(fell_behind=True)]), ())

    assert not found.is_valid
    assert found.reasons == ("the generator fell behind: p99 lateness 1.2 s",)


def test_a_producer_that_was_stopped_invalidates_the_run() -> None:
    """What it had planned so far is not the stream that was asked for."""
    started = StreamStarted(
        at=0,
        source="producer",
        stream_started_at=0,
        seed=1,
        profile="step",
        planned_total=400,
        planned_seconds=40,
        partitions=4,
    )

    made = generator([started, finished()])

    assert (made.planned, made.sent) == (400, 100)
    assert validity(made, ()).reasons == (
        "the generator ended after 100 of 400 planned events: no reason given",
    )


def test_a_producer_that_never_finished_invalidates_the_run() -> None:
    """Its progress is kept; what is unknown stays None."""
    progress = ProducerProgress(
        at=1,
        source="producer",
        planned=9,
        sent=8,
        acked=7,
        failed=0,
        lateness_p50_ms=None,
        lateness_p99_ms=None,
        lateness_max_ms=None,
    )

    made = generator([progress])

    assert (made.planned, made.fell_behind) == (9, None)
    assert validity(made, ()).reasons == ("the producer never reported that it finished",)
    assert generator([]).planned is None


def test_failed_messages_are_a_note() -> None:
    """A refused message is no consumer's fault and does not invalidate the run."""
    found = validity(generator([finished(failed=3)]), ())

    assert found.is_valid
    assert found.notes == ("3 messages were refused or timed out at the broker",)


def test_failed_readings_within_3_seconds_are_one_gap() -> None:
    """Fails at 10, 11, 12 s and again at 20 s: two gaps of lag."""
    records = [read_gap(second) for second in (10, 11, 12, 20)]
    seen = [lag_sample(second) for second in range(30)]

    gaps = telemetry_gaps([*records, *seen], from_at=0, until_at=None)

    assert [(gap.what, gap.gap_seconds) for gap in gaps] == [("lag", 2.0), ("lag", 0.0)]
    assert gaps[0].reason == "broker away"


def test_a_silent_recorder_is_a_gap() -> None:
    """Nothing from 3 s to 13 s."""
    seen = [lag_sample(second) for second in (1, 2, 3, 13, 14)]

    gaps = telemetry_gaps(seen, from_at=0, until_at=None)

    assert [(gap.what, gap.gap_seconds) for gap in gaps] == [("recorder", 10.0)]


def test_gaps_outside_the_measured_stretch_do_not_count() -> None:
    """The bench was being torn down."""
    assert telemetry_gaps([read_gap(50)], from_at=0, until_at=40 * SECOND) == ()
