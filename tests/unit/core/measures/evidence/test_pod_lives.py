"""A pod whose name returns is a new pod; a container that restarts is not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.telemetry import SECOND, of, pod_seen

from lagbench.core.measures.evidence.pod_timeline import (
    PodLives,
    by_life,
    pod_lives,
    pod_of_life,
    pod_timelines,
)
from lagbench.core.measures.partition_work import PodRates, rates_by_life
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    GroupJoined,
    PartitionsAssigned,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    PodSeen,
    PodsListed,
)

SECOND_LIFE = "c-1 (life 2)"


def seen(
    at: float,
    created: float,
    gone: float | None = None,
    *,
    pod: str = "c-1",
    precision_ns: int = 1,
) -> PodSeen:
    """Return a report on a pod; instants in seconds."""
    instants = {"created": created, "ready": created + 2, "gone": gone, "at": at}
    return pod_seen(pod, **instants, precision_ns=precision_ns)


def joined(at: float, member_id: str, pod: str = "c-1") -> GroupJoined:
    """Return a pod's report that it joined."""
    return of(GroupJoined, at, pod, member_id=member_id)


TWO_LIVES: list[TelemetryRecord] = [
    seen(5, 5),
    joined(8, "m-1"),
    seen(20, 5, 20),
    seen(30, 30),
    joined(33, "m-2"),
    seen(50, 30, 50),
]


def test_an_action_names_the_lives_of_its_pods() -> None:
    """A restart begins on the first life and ends with the second one in its place."""
    started = of(ActionStarted, 10, targets=["c-1", "c-2"])
    ended = of(ActionEnded, 35, came=["c-1"])
    given = sorted([*TWO_LIVES, started, ended], key=lambda record: record.at)

    found = by_life(given)

    assert [r.targets for r in found if isinstance(r, ActionStarted)] == [["c-1", "c-2"]]
    assert [r.came for r in found if isinstance(r, ActionEnded)] == [[SECOND_LIFE]]


def test_one_life_changes_nothing() -> None:
    """A pod that is created once keeps its name, however often its container restarts."""
    records = [seen(5, 5), joined(8, "m-1"), joined(15, "m-2"), seen(20, 5, 20)]

    assert by_life(records) == records
    assert pod_lives(records) == PodLives()


def test_each_life_has_a_timeline_of_its_own() -> None:
    """The time between two lives is nobody's, and each has its own readiness."""
    timelines = pod_timelines(by_life(TWO_LIVES))

    spans = {
        name: (found.created_at // SECOND, found.ready_at, found.gone_at)
        for name, found in timelines.items()
    }
    assert spans == {
        "c-1": (5, 7 * SECOND, 20 * SECOND),
        SECOND_LIFE: (30, 32 * SECOND, 50 * SECOND),
    }
    whole = sum(found.seconds_between(0, 100 * SECOND) for found in timelines.values())
    assert whole == 35


def test_a_pod_s_own_records_belong_to_the_life_that_sent_them() -> None:
    """They are told apart by the instant; other sources keep their names."""
    assigned = of(PartitionsAssigned, 34, "c-1", member_id="m-2", owned=[3])
    records = sorted([*TWO_LIVES, assigned], key=lambda record: record.at)
    found = by_life([*records, joined(60, "m-9", pod="c-2")])

    assert [r.source for r in found if isinstance(r, PartitionsAssigned)] == [SECOND_LIFE]
    sources = [record.source for record in found if isinstance(record, GroupJoined)]
    assert sources == ["c-1", SECOND_LIFE, "c-2"]
    assert {record.source for record in found if isinstance(record, PodSeen)} == {"recorder"}


def test_members_are_known_by_their_ids() -> None:
    """A member of the earlier life may stay until its session ends; unknown ids go by time."""
    members = [
        GroupMember(member_id=name, client_id="c-1", host="h", partitions=[])
        for name in ("m-1", "m-2", "unknown")
    ]
    reported = of(GroupMembers, 40, members=members)
    records = sorted([*TWO_LIVES, reported], key=lambda record: record.at)

    (found,) = (record for record in by_life(records) if isinstance(record, GroupMembers))

    assert [m.client_id for m in found.members] == ["c-1", SECOND_LIFE, SECOND_LIFE]


@pytest.mark.parametrize(("at", "name"), [(10, "c-1"), (25, "c-1"), (31, SECOND_LIFE)])
def test_a_list_names_the_life_of_its_instant(at: int, name: str) -> None:
    """Between two lives a pod's name stands for the life before."""
    listed = of(PodsListed, at, pods=["c-1", "c-2"])
    records = sorted([*TWO_LIVES, listed], key=lambda record: record.at)

    (found,) = (record for record in by_life(records) if isinstance(record, PodsListed))

    assert found.pods == [name, "c-2"]


@pytest.mark.parametrize(
    ("gone", "began"),
    [
        (30.6, 30.6),  # in the second of the stamp: the end of the earlier life
        (29.0, 30.0),
        (35.0, 31.0),  # the watch showed the end late: at most the second of the stamp
    ],
)
def test_a_stamp_of_a_whole_second_begins_after_the_earlier_end(gone: float, began: float) -> None:
    """On a cluster a pod that is created in the second of the other's end is stamped before it."""
    records = [
        seen(5, 5, precision_ns=SECOND),
        seen(gone, 5, gone, precision_ns=SECOND),
        seen(31, 30, precision_ns=SECOND),
    ]

    lives = pod_lives(sorted(records, key=lambda record: record.at))

    assert lives.began_at == {"c-1": [5 * SECOND, round(began * SECOND)]}


def test_rates_are_split_by_life() -> None:
    """Each life has the messages of its seconds; a pod with one life keeps its row."""
    rates = PodRates(("c-1", "c-2"), np.array([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=np.int32))
    lives = PodLives({"c-1": (0, 2 * SECOND + 1)}, {"c-1": (0, 2 * SECOND + 1)})

    found = rates_by_life(rates, lives, 0)

    assert found.pods == ("c-1", SECOND_LIFE, "c-2")
    assert [pod_of_life(name) for name in found.pods] == ["c-1", "c-1", "c-2"]
    assert found.done.tolist() == [[1, 2, 0, 0], [0, 0, 3, 4], [5, 6, 7, 8]]
