"""Gaps in which the desired replicas may have changed unobserved."""

from tests.fakes.replica_records import SECOND, samples, scaled

from lagbench.core.measures.replicas.coverage import replica_gaps
from lagbench.core.telemetry.autoscaler import HpaSync
from lagbench.core.telemetry.recorder import ReplicasWatched
from lagbench.core.telemetry.records import TelemetryRecord

END = 400 * SECOND


def sync(second: float, found: int = 2) -> HpaSync:
    """Return a sync of the embedded autoscaler that found a number of replicas."""
    return HpaSync(
        at=round(second * SECOND),
        source="autoscaler",
        hpa="h",
        spec_replicas=found,
        status_replicas=found,
        metrics={},
        proposal=found,
        desired=found,
        able_to_scale="",
        scaling_limited="",
        scaling_active="",
    )


WITH_GAP = [*samples([2] * 50), *samples([2] * 50, 351)]


def is_seen(*reported: TelemetryRecord) -> bool:
    """Return whether 302 s without samples are seen by what was told."""
    return not replica_gaps([*WITH_GAP, *reported], 0, END)


def test_a_time_without_samples_is_a_gap() -> None:
    """From the last sample before to the first one after."""
    (found,) = replica_gaps(WITH_GAP, 0, END)

    assert (found.started_at, found.ended_at) == (49 * SECOND, 351 * SECOND)
    assert replica_gaps(samples([2] * 401), 0, END) == []


def test_an_autoscaler_that_goes_on_reporting_sees_it() -> None:
    """A sync every 15 s, each with the replicas that the step before it left."""
    quiet = [sync(second) for second in range(45, 366, 15)]
    busy = [sync(second, 2 if second < 100 or second > 200 else 6) for second in range(45, 366, 15)]

    assert is_seen(*quiet)
    assert is_seen(*busy, scaled(95, 2, 6), scaled(199, 6, 2))


def test_silence_and_strange_replicas_are_not_seen() -> None:
    """Steps alone do not show that there were no more; a gap of 60 s, or replicas of others."""
    syncs = range(45, 366, 15)

    assert not is_seen(scaled(100, 2, 6), scaled(150, 6, 2))
    assert not is_seen(*[sync(second) for second in syncs if not 150 < second < 200])
    assert not is_seen(*[sync(second) for second in syncs if second > 50])
    assert not is_seen(*[sync(second) for second in syncs if second < 350])
    assert not is_seen(*[sync(second, 4 if second == 180 else 2) for second in syncs])


def watched(since: float, until: float) -> ReplicasWatched:
    """Return the word of a watch that was not broken."""
    return ReplicasWatched(
        at=round(until * SECOND), source="recorder", since_at=round(since * SECOND)
    )


def test_unbroken_watches_see_it() -> None:
    """One list after the other: between two watches lies less than a lost sample or two."""
    watches = [watched(second, second + 29.8) for second in range(40, 360, 30)]

    assert is_seen(*watches)
    assert not is_seen(*watches[:-1])
    assert not is_seen(*[watch for watch in watches if watch.since_at != 190 * SECOND])
