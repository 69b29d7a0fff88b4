"""The SLOs' standing: what the run has shown of each so far."""

from __future__ import annotations

import pytest
from tests.fakes.telemetry import SECOND as S
from tests.fakes.telemetry import of, pod_seen
from tests.unit.core.live.test_course import course, lag, replicas, stream_started

from lagbench.core.live.live_line import SloStanding
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.telemetry.records_of_programs import PartitionsAssigned, Record, Scaled

SPIKE = (10.0, 30.0)
SLOS = Slos(drain_seconds=20, pod_minutes=1)


def standings(
    *records: Record, at: float, slos: Slos = SLOS, **kind: bool
) -> dict[str, SloStanding]:
    """Return the standings at a second of the stream."""
    found = course(stream_started(), *records, spikes=[SPIKE], slos=slos, **kind)
    return found.line(round(at * S)).standing


def above(second: float, total: int) -> Record:
    """Return a sample of that total lag."""
    return lag(second, (0, total, 0), (1, 0, 0))


def came(pod: str, *, created: float, ready: float, assigned: float) -> list[Record]:
    """Return what is seen of a pod that is created, gets Ready and has a partition."""
    seen = pod_seen(pod, created, ready, at=ready)
    return [seen, of(PartitionsAssigned, assigned, pod, owned=[1], rebalance=1)]


def each_second(until: int, *, spec: int = 1, total: int = 0, since: int = 0) -> list[Record]:
    """Return samples of replicas and lag; before ``since`` the lag is 0."""
    return [
        record
        for second in range(until)
        for record in (replicas(second, spec), above(second, total if second >= since else 0))
    ]


def scaled(*steps: tuple[float, int, int]) -> list[Record]:
    """Return one replica, then steps of the autoscaler with the sample after each."""
    found: list[Record] = [replicas(1, 1)]
    for second, before, after in steps:
        moved = {"replicas_before": before, "replicas_after": after}
        found += [of(Scaled, second, "autoscaler", **moved), replicas(second + 0.5, after)]
    return found


NEEDED = each_second(29, total=500, since=12)
REACTED = [*scaled((13, 1, 2))[1:], *came("consumer-2", created=14, ready=16, assigned=18)]
OLD = came("old", created=1, ready=2, assigned=13)
TWO_PODS = [*came("a", created=0, ready=1, assigned=2), *came("b", created=0, ready=1, assigned=2)]


@pytest.mark.parametrize(
    ("slo", "records", "at", "standing"),
    [
        ("lost", [], 5, (None, "at_end")),  # no telemetry shows it
        ("standstill_seconds", [], 5, (None, "at_end")),
        ("flips", [], 5, (None, "open")),
        ("flips", scaled(), 5, (0, "holds")),  # a limit of zero is a limit
        ("flips", scaled((12, 1, 2), (15, 2, 1), (20, 1, 3)), 22, (2, "broken")),
        ("flips", scaled((12, 1, 2), (40, 2, 1)), 45, (0, "holds")),  # the return is no flip
        ("reaction_seconds", each_second(29, total=90), 29, (None, "open")),  # no need
        ("reaction_seconds", NEEDED[:30], 15, (None, "open")),  # a sync may still use it
        ("reaction_seconds", NEEDED, 29, (19.0, "open")),
        ("reaction_seconds", [*NEEDED[:36], *REACTED], 18, (8.0, "holds")),
        ("reaction_seconds", [*NEEDED, *OLD], 29, (19.0, "open")),  # of before the spike
        ("drain_seconds", [above(5, 0)], 9, (None, "open")),
        ("drain_seconds", [above(31, 500)], 35, (5.0, "open")),
        ("drain_seconds", [above(31, 500), above(42, 100)], 60, (12.0, "holds")),
        ("drain_seconds", [above(31, 500)], 51, (21.0, "broken")),
        ("baseline_at_floor", [], 5, (None, "open")),
        ("baseline_at_floor", each_second(5), 5, (None, "holds")),
        ("baseline_at_floor", [replicas(5, 2)], 20, (None, "broken")),
        ("baseline_at_floor", [*each_second(10), replicas(15, 2)], 20, (None, "holds")),
        ("pod_minutes", [], 5, (None, "open")),
        ("pod_minutes", TWO_PODS, 100, (2.0, "broken")),  # of the planned 60 s
    ],
)
def test_a_standing_is_the_measure_of_the_records_so_far(
    slo: str, records: list[Record], at: float, standing: SloStanding
) -> None:
    """A wait counts from the spike's start, a drain from its end, by the clock until it ended."""
    in_order = sorted(records, key=lambda record: record.at)
    assert standings(*in_order, at=at)[slo] == standing


def test_only_a_changed_standing_is_told() -> None:
    """The second line repeats nothing that has not changed."""
    found = course(stream_started(), replicas(1, 1), spikes=[SPIKE], slos=SLOS)
    assert found.line(2 * S).standing

    assert found.line(3 * S).standing.keys() <= {"pod_minutes"}


@pytest.mark.parametrize(
    ("reports_owners", "standing"), [(True, (19.0, "broken")), (False, (None, "at_end"))]
)
def test_a_reaction_that_no_pod_reports_is_left_to_the_end(
    reports_owners: bool, standing: SloStanding
) -> None:
    """Workers of Spark and consumers of a user report no partitions: late is not broken there."""
    slos = Slos(reaction_seconds=5)
    shown = standings(*NEEDED, at=29, slos=slos, reports_owners=reports_owners)

    assert shown["reaction_seconds"] == standing
