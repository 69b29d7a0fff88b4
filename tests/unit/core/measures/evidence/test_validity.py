"""Load window, generator and gaps."""

import pytest

from lagbench.core.measures.evidence.gaps import gaps_between
from lagbench.core.measures.evidence.load_window import LoadWindow, load_window
from lagbench.core.measures.evidence.validity import generator, telemetry_gaps, validity
from lagbench.core.scenario.profiles import BurstyProfile, Profile
from lagbench.core.scenario.stream.profile import offered_load
from lagbench.core.scenario.stream.spikes import load_spikes
from lagbench.core.telemetry.records import (
    LagSample,
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
        reason="1.2 s" if fell_behind else "",
        stream_sha256="00",
    )


def lag_sample(second: float) -> LagSample:
    """Return a reading of the recorder."""
    return LagSample(at=round(second * SECOND), source="recorder", partitions=[])


def read_gap(second: float) -> ReadGap:
    """Return a reading that failed."""
    return ReadGap(at=round(second * SECOND), source="recorder", what="lag", reason="broker away")


SAWTOOTH = BurstyProfile(
    kind="bursty",
    rate_per_second=600,
    spike_mult=10,
    quiet_seconds=10,
    spike_hold_seconds=20,
    bursts=2,
    after_seconds=5,
)


def window_of(profile: Profile, *records: TelemetryRecord, start: int | None = None) -> LoadWindow:
    """Return the load window of ``profile``."""
    load = offered_load(profile)
    spikes = load_spikes(load, started_replicas=1, pod_rate=1000)
    return load_window(records, load, spikes, recorded_start_at=start)


def started(at: int = 5 * SECOND) -> StreamStarted:
    """Return the producer's first word."""
    return StreamStarted(
        at=at,
        source="producer",
        stream_started_at=at,
        seed=1,
        profile="bursty",
        planned_total=400,
        planned_seconds=40,
        partitions=4,
    )


def test_a_sawtooth_runs_from_its_first_spike_to_its_last() -> None:
    """Two bursts: first start, last end; the producer says when it had flushed."""
    window = window_of(SAWTOOTH, started(), finished())

    assert (window.first_spike_started_at, window.last_spike_ended_at) == (15 * SECOND, 65 * SECOND)
    assert (window.spikes, window.base_rate_per_second, window.spike_rate_per_second) == (
        2,
        600,
        6000,
    )
    assert [spike.started_at for spike in window.spike_windows] == [15 * SECOND, 45 * SECOND]
    assert (window.planned_until_at, window.stream_ended_at) == (70 * SECOND, 99 * SECOND)


def test_the_scenario_says_when_the_load_changed() -> None:
    """No record of a step survived, nor the producer's first word: the manifest has the start."""
    window = window_of(SAWTOOTH, start=5 * SECOND)

    assert (window.first_spike_started_at, window.last_spike_ended_at) == (15 * SECOND, 65 * SECOND)
    assert window.stream_ended_at == 70 * SECOND


def test_without_a_start_the_spikes_are_planned_but_nowhere() -> None:
    """Their instants are not known, which is not that there are none."""
    window = window_of(SAWTOOTH)

    assert (window.spikes, window.first_spike_started_at) == (2, None)


def test_a_generator_that_fell_behind_invalidates_the_run() -> None:
    """And the reason is the producer's own."""
    found = validity(generator([finished(fell_behind=True)]), ())

    assert not found.is_valid
    (reason,) = found.reasons
    assert "1.2 s" in reason


def test_a_producer_that_was_stopped_invalidates_the_run() -> None:
    """What it had planned so far is not the stream that was asked for."""
    made = generator([started(), finished()])

    assert (made.planned, made.sent) == (400, 100)
    (reason,) = validity(made, ()).reasons
    assert "100 of 400" in reason


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

    assert (made.planned, made.fell_behind, made.most_waiting) == (9, None, 1)
    assert not validity(made, ()).is_valid
    assert generator([]).planned is None


def test_refused_messages_invalidate_the_run() -> None:
    """The load that Kafka took is not the planned one."""
    found = validity(generator([finished(failed=3)]), ())

    assert not found.is_valid
    assert "97 of 100" in found.reasons[0]


def test_failed_readings_close_together_are_one_gap() -> None:
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


@pytest.mark.parametrize("seconds", [3.2, 3.6])
def test_each_gap_has_the_same_threshold(seconds: float) -> None:
    """3.2 s without a reading are no gap, in the report as for an SLO; 3.6 s are one in both."""
    seen = [lag_sample(second) for second in (0, seconds)]
    instants = [record.at for record in seen]

    reported = telemetry_gaps(seen, from_at=0, until_at=None)

    assert len(reported) == len(gaps_between(instants, 0, instants[-1])) == int(seconds > 3.5)


def test_gaps_outside_the_measurement_window_do_not_count() -> None:
    """The bench was being torn down."""
    assert telemetry_gaps([read_gap(50)], from_at=0, until_at=40 * SECOND) == ()
