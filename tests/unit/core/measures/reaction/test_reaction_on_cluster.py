"""The reaction chain of a cluster: no autoscaler reports, several clocks stamp."""

from __future__ import annotations

import pytest
from tests.unit.core.measures.reaction.test_reaction import (
    LOAD,
    RISE,
    TIMELINES,
    chain,
    ns,
    pod_records,
    silent_autoscaler,
)

from lagbench.core.clocks import API_SERVER, Clock, ClockSet, OffsetBound, on_recorders_clock
from lagbench.core.telemetry.records import HpaSample, LoadStep

MILLISECOND = 1_000_000


def status(second: float, total: float) -> HpaSample:
    """Return the HPA's status as the recorder saw it."""
    return HpaSample(
        at=ns(second),
        source="recorder",
        name="h",
        desired=2,
        current=2,
        metrics=[],
        conditions=[],
        totals={"lag": total},
    )


def clock(name: str, low_ms: int, high_ms: int) -> Clock:
    """Return a steady clock."""
    bound = OffsetBound(low_ms * MILLISECOND, high_ms * MILLISECOND)
    return Clock(name, bound, is_steady=True, answers=20)


def test_the_hpas_status_reports_what_it_read() -> None:
    """Below 2000 at 14.2 s, above at 15 s: read by then, known to 0.8 s; the chain is complete."""
    readings = [status(13, 1000), status(14.2, 1500), status(15, 2500), status(16, 9000)]

    found = chain(records=[*silent_autoscaler(), *readings])

    read = found.links[2]
    assert read.at == ns(15)
    assert read.precision_seconds == pytest.approx(0.8)
    assert found.is_complete
    assert found.parts_sum_to_total


def test_the_hpa_had_read_by_the_time_it_scaled() -> None:
    """It writes its status after the scale: the reading is placed at t3 with t3's precision."""
    change = RISE.model_copy(update={"precision_seconds": 0.4})

    found = chain(
        records=[*silent_autoscaler(), status(15.8, 1000), status(16.02, 9000)], changes=(change,)
    )

    assert found.links[2].at == found.links[3].at == ns(16)
    assert found.links[2].precision_seconds == pytest.approx(0.4)
    assert "t3" in found.links[2].note


def test_a_metric_that_crossed_before_the_load_did_is_not_the_reading() -> None:
    """A status from before the crossing shows an earlier lag."""
    found = chain(records=[*silent_autoscaler(), status(8, 0), status(9, 3000), status(15.5, 9000)])

    assert found.links[2].at == ns(15.5)


def test_keda_from_zero_is_known_by_its_scaling_alone() -> None:
    """The HPA is idle at zero replicas, and KEDA tells of no poll."""
    change = RISE.model_copy(update={"by": "keda", "precision_seconds": 0.3})

    found = chain(
        records=[*silent_autoscaler(), status(15, 0), status(15.5, 9000)],
        changes=(change,),
        replicas=0,
    )

    assert found.links[2].at == ns(16)


def test_a_pods_stamps_carry_the_skew_of_its_node() -> None:
    """Within -5 to +20 ms of ours: the stamps stay, 20 ms unknown; the clocks are stated."""
    clocks = ClockSet(
        is_one_clock=False,
        by_name={API_SERVER: clock(API_SERVER, -3, 4), "n1": clock("n1", -5, 20)},
        name_of_pod={"new-b": "n1", "new-a": "n1"},
    )

    found = chain(clocks=clocks)

    assert found.links[6].at == ns(18.5)
    assert found.links[6].precision_seconds == pytest.approx(0.02)
    assert found.clocks is not None
    bounds = [(found.low_seconds, found.high_seconds) for found in found.clocks.bounds]
    assert bounds == [(-0.003, 0.004), (-0.005, 0.02)]


def test_a_node_whose_clock_is_surely_ahead_is_put_right() -> None:
    """Ahead by 5 s: its pods' records are taken back where they are read, the raw stamps kept."""
    ahead = pod_records("new-b", joined=23.5, first=24, done=24.25)
    clocks = ClockSet(
        is_one_clock=False,
        by_name={"n1": clock("n1", 4990, 5010)},
        name_of_pod={"new-b": "n1"},
    )

    records = on_recorders_clock(ahead, clocks)
    found = chain(records=records, timelines=[TIMELINES[0], TIMELINES[2]], clocks=clocks)

    done = found.links[8]
    assert (done.at, done.stamped_at) == (ns(19.25), ns(24.25))
    assert done.precision_seconds == pytest.approx(0.01)
    assert "n1" in done.note
    assert "+5.000 s" in done.note


def test_a_pod_whose_clock_nobody_asked_has_no_precision() -> None:
    """What is not bounded is not exact, and the link says why; so for the producer's step."""
    step = LoadStep(
        at=LOAD.first_spike_started_at or 0,
        source="producer-x",
        step="spike_start",
        rate_before=1,
        rate_after=2,
    )

    found = chain(
        records=[step, *pod_records("new-b", 18.5, 19, 19.25)],
        clocks=ClockSet(is_one_clock=False),
    )

    assert found.links[0].precision_seconds is None
    assert found.links[8].precision_seconds is None
    assert found.links[8].note


def test_a_precision_beyond_its_part_is_said() -> None:
    """t1 is known to one sample, a second, and lies half a second after t0."""
    assert "1.000 s" in chain().links[1].note
    assert " s " not in chain().links[2].note
