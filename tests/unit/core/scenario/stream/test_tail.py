"""The base load behind the planned window."""

from typing import Any

import numpy as np
import pytest

from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import list_scenarios
from lagbench.core.scenario.scenario import Keys, Scenario
from lagbench.core.scenario.stream.event_stream import EventStream, StreamDigest
from lagbench.core.scenario.stream.profile import offered_load
from lagbench.core.scenario.stream.tail import Tail, resting_lag_records, resting_replicas, tail_of

STEP = {
    "kind": "step",
    "rate_per_second": 1000,
    "before_seconds": 3,
    "spike_hold_seconds": 2,
    "after_seconds": 1.2345,
}


def scenario(profile: dict[str, Any], **others: Any) -> Scenario:
    """Return a scenario with this load; one pod does 500/s."""
    fields = {"name": "mine", "description": "x", "partitions": 4, "policy": "lag-quick"}
    return Scenario.model_validate(fields | {"profile": profile} | others)


def trace_of(*rates: float) -> dict[str, Any]:
    """Return a trace_of with a second of each rate."""
    points = [{"second": at, "rate_per_second": rate} for at, rate in enumerate((*rates, 0))]
    return {"kind": "trace", "file": "t.csv", "points": points}


def rate_of(profile: dict[str, Any], **others: Any) -> float | None:
    """Return the tail's rate with two pods at the floor; None: no tail."""
    tail = tail_of(scenario(profile, **others), started_replicas=2)
    return None if tail is None else tail.rate_per_second


def test_the_planned_window_is_the_same_stream_with_and_without_a_tail() -> None:
    """Byte for byte: seqs, instants, keys and payload of what the scenario plans."""
    planned = offered_load(scenario(STEP).profile)
    whole = planned.with_tail(777.7, 10)

    alone = EventStream(planned, Keys(), seed=7).events(0, planned.total)
    with_tail = EventStream(whole, Keys(), seed=7).events(0, whole.total)

    assert len(with_tail) == whole.total == planned.total + 7777
    assert with_tail[: planned.total].tobytes() == alone.tobytes()
    first = int(with_tail["planned_offset_ns"][planned.total])
    assert planned.duration_ns < first <= planned.duration_ns + 1e9 / 777.7 + 1


@pytest.mark.parametrize("name", list_scenarios())
def test_the_catalogs_streams_keep_their_instants(name: str) -> None:
    """Around the end of each planned window, where the tail begins, no instant moves."""
    cell = checked_cell(name)
    planned = offered_load(cell.scenario.profile)
    started = cell.policy.limits.started_replicas
    tail = tail_of(cell.scenario, started_replicas=started) or Tail(planned.base_rate, 10)
    whole, total = tail.after(planned), planned.total

    assert (
        whole.planned_times(total - 10_000, total) == planned.planned_times(total - 10_000, total)
    ).all()
    assert whole.planned_count_at(planned.duration_ns) == total
    assert [step.at_ns for step in whole.steps] == [step.at_ns for step in planned.steps]


def test_a_digest_is_of_the_planned_window_alone() -> None:
    """However long the tail was, the digest is the one of the scenario's own events."""
    planned = offered_load(scenario(STEP).profile)
    events = EventStream(planned.with_tail(1000, 10), Keys(), seed=7).events(0, 10**9)
    digests = set()
    for end in (planned.total, planned.total + 1, len(events)):
        digest = StreamDigest(seq_to=planned.total)
        for part in np.array_split(events[:end], 5):
            digest.add(part)
        digests.add(digest.hexdigest())

    alone = StreamDigest(seq_to=planned.total)
    alone.add(events[: planned.total])
    assert digests == {alone.hexdigest()}


def test_a_step_goes_on_at_its_base_rate() -> None:
    """Also when it ends with its spike; the bound covers drain, settling and the way between."""
    timeouts = {"drain_seconds": 50, "settle_seconds": 70}

    assert tail_of(scenario(STEP, timeouts=timeouts), started_replicas=2) == Tail(1000, 240)
    assert rate_of(STEP | {"after_seconds": 0}) == 1000


def test_steady_load_and_none_have_no_tail() -> None:
    """A steady profile is base load all along."""
    steady = {"kind": "steady", "rate_per_second": 5, "duration_seconds": 5}

    assert rate_of(steady) is None
    assert rate_of(STEP, tail="none") is None


def test_a_trace_goes_on_at_its_last_rate_unless_that_is_a_spike() -> None:
    """Two pods do 1,000/s: what is above that is a spike, and then the lowest rate continues."""
    assert rate_of(trace_of(300, 4000, 700)) == 700
    assert rate_of(trace_of(300, 700, 4000)) == 300
    assert rate_of(trace_of(300, 700, 0)) is None


def test_lag_at_rest_is_never_zero_under_load() -> None:
    """The policy's threshold, or two seconds of the base load where that is more."""
    assert resting_lag_records(Tail(600, 10), lag_threshold=500) == 1200
    assert resting_lag_records(Tail(600, 10), lag_threshold=5000) == 5000
    assert resting_lag_records(None, lag_threshold=500) == 500


@pytest.mark.parametrize(
    ("rate", "floor", "at_rest"),
    [(900, 2, (2, 2)), (900, 0, (1, 2)), (1600, 2, (2, 4)), (9000, 2, (2, 12))],
)
def test_replicas_at_rest_hold_the_base_load(
    rate: float, floor: int, at_rest: tuple[int, int]
) -> None:
    """The floor, at least one pod, and up to what the load needs where the floor cannot do it."""
    found = resting_replicas(
        scenario(STEP), Tail(rate, 10), floor_replicas=floor, ceiling_replicas=12
    )

    assert found == at_rest


def test_without_load_the_policy_rests_at_its_floor() -> None:
    """Also at 0."""
    assert resting_replicas(scenario(STEP), None, floor_replicas=0, ceiling_replicas=12) == (0, 0)
