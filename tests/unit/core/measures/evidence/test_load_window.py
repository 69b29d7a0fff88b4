"""When the load changed."""

from lagbench.core.measures.evidence.producer_report import LoadWindow, load_window
from lagbench.core.scenario.offered_load import load_spikes, offered_load
from lagbench.core.scenario.profiles import BurstyProfile, Profile
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import StreamFinished, StreamStarted

SECOND = 1_000_000_000
FLUSHED = StreamFinished(
    at=99 * SECOND,
    source="producer",
    planned=100,
    sent=100,
    acked=100,
    failed=0,
    unknown=0,
    lateness_p50_ms=1,
    lateness_p99_ms=2,
    lateness_max_ms=3,
    fell_behind=False,
    reason="",
    stream_sha256="00",
)
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
    window = window_of(SAWTOOTH, started(), FLUSHED)

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
