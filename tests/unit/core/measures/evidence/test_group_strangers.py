"""Who in the consumer group is no pod of the run."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.telemetry import SECOND, of, pod_seen

from lagbench.core.measures.evidence.group_strangers import (
    GroupStranger,
    group_gaps,
    group_strangers,
    left_behind_text,
    with_pods_of_members,
)
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    PartitionsAssigned,
    PodStarted,
    PodStopped,
    SigtermReceived,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    GroupSample,
    ReadGap,
    ReplicaSample,
)
from lagbench.core.verdict.verdict import judge, stranger_reasons

NS = SECOND
PODS = {"pod-a": [0, 1], "pod-b": [2, 3]}
Members = dict[str, list[int]]


def started(pod: str, second: float, instance_id: str | None = None) -> PodStarted:
    """Start a pod's process."""
    return of(PodStarted, second, pod, instance_id=instance_id)


def left(pod: str, second: float) -> list[TelemetryRecord]:
    """Let a pod leave the group in order."""
    return [of(SigtermReceived, second, pod), of(PodStopped, second, pod)]


def owns(pod: str, second: int, partitions: list[int]) -> PartitionsAssigned:
    """Let a pod tell what it owns."""
    return of(PartitionsAssigned, second, pod, member_id=f"{pod}-1", owned=partitions)


def reading(second: float, members: int) -> GroupSample:
    """Read the group's size."""
    return of(GroupSample, second, members=members)


def watched(*periods: tuple[int, Members], until: int) -> list[TelemetryRecord]:
    """Read the group each second; from each given second on it has those members."""
    records: list[TelemetryRecord] = []
    reported_at, reported = -100, None
    for second in range(until):
        members = [found for since, found in periods if since <= second][-1]
        records.append(reading(second, len(members)))
        if members != reported or second - reported_at >= 10:
            reported_at, reported = second, members
            found = [
                GroupMember(member_id=f"{name}-1", client_id=name, host="/10.0.0.9", partitions=own)
                for name, own in members.items()
            ]
            records.append(of(GroupMembers, second, members=found))
    return records


def visited(*, first: int = 20, last: int = 32, until: int = 60) -> list[TelemetryRecord]:
    """Let a second consumer into the group for some seconds."""
    shared = {"pod-a": [0, 1], "pod-b": [2], "canary": [3]}
    group = watched((0, PODS), (first, shared), (last, PODS), until=until)
    return [*map(pod_seen, PODS), *group]


def test_a_stranger_is_named_with_its_partitions_and_how_long_it_stayed() -> None:
    """12 s in the group: readings show 11 of them, and it may have been there a second each side.

    Without its name the verdict blamed what it committed on an innocent pod.
    """
    assert group_strangers(visited()) == (
        GroupStranger(
            client_id="canary",
            host="/10.0.0.9",
            members=1,
            partitions=(3,),
            first_seen_at=20 * NS,
            last_seen_at=31 * NS,
            seen_seconds=11.0,
            precision_seconds=2.0,
        ),
    )


def test_the_stays_of_a_stranger_are_added_up() -> None:
    """From the first to the last reading that showed it; one that stays is seen to the end."""
    both = {**PODS, "canary": [3]}
    group = watched((0, PODS), (10, both), (15, PODS), (30, both), (35, PODS), until=50)

    [found] = group_strangers([*map(pod_seen, PODS), *group])
    [stays] = group_strangers(visited(last=1000))

    assert (found.first_seen_at, found.last_seen_at) == (10 * NS, 34 * NS)
    assert (found.seen_seconds, found.precision_seconds) == (8.0, 4.0)
    assert (stays.last_seen_at, stays.seen_seconds, stays.precision_seconds) == (59 * NS, 39, 1)


@pytest.mark.parametrize("reported_by", ["watch", "pod"])
def test_the_runs_own_pods_are_no_strangers(reported_by: str) -> None:
    """However late a pod is told of, and whether the watch or the pod itself tells."""
    group = watched((0, PODS), until=30)
    late: list[TelemetryRecord] = [pod_seen(pod) for pod in PODS]
    if reported_by == "pod":
        late = [started(pod, 0) for pod in PODS]

    assert group_strangers([*group, *late]) == ()


def counted(*counts: int) -> list[TelemetryRecord]:
    """Read only the group's size, as folders of format 1 have it."""
    return [reading(second, count) for second, count in enumerate(counts)]


def test_without_names_the_number_of_members_reports() -> None:
    """Two pods and three members for 12 readings: somebody else was there."""
    [found] = group_strangers(
        [
            *map(pod_seen, PODS),
            *(owns(pod, 1, partitions) for pod, partitions in PODS.items()),
            owns("pod-b", 9, [2]),
            owns("pod-b", 25, [2, 3]),
            *counted(*[2] * 10, *[3] * 12, *[2] * 10),
        ]
    )

    assert (found.client_id, found.members, found.partitions) == (None, 1, (3,))
    assert (found.first_seen_at, found.last_seen_at) == (10 * NS, 21 * NS)
    assert (found.seen_seconds, found.precision_seconds) == (11.0, 2.0)


CLOSE = [reading(2 + number / 5, 3) for number in range(5)]


@pytest.mark.parametrize(
    "readings_of_group",
    [counted(2, 2, 3, 3, 2, 2, 3, 2), [*counted(2, 2), *CLOSE, reading(3, 2)]],
    ids=["two readings", "five in 0.8 s, as a group in a rebalance is read"],
)
def test_an_overlap_of_two_pods_is_no_stranger(readings_of_group: list[TelemetryRecord]) -> None:
    """A pod that comes as another goes stands beside it for a moment."""
    assert group_strangers([*map(pod_seen, PODS), *readings_of_group]) == ()


def test_members_that_are_replicas_are_no_strangers() -> None:
    """Four pods exist and two are told of: records are lost, nobody is foreign. A fifth is."""
    replicas = [of(ReplicaSample, second, current=4) for second in range(30)]

    assert group_strangers([*map(pod_seen, PODS), *replicas, *counted(*[4] * 30)]) == ()
    [found] = group_strangers([*map(pod_seen, PODS), *replicas, *counted(*[5] * 30)])
    assert found.members == 1


def test_a_pod_that_was_killed_stays_a_member_until_its_session_ends() -> None:
    """45 s at most: no stranger; who is there longer is one."""
    gone = [pod_seen("pod-a"), pod_seen("pod-b", gone=10)]

    assert group_strangers([*gone, *counted(*[2] * 55, *[1] * 10)]) == ()
    [found] = group_strangers([*gone, *counted(*[2] * 70)])
    assert found.first_seen_at > 55 * NS


def test_a_pod_that_left_in_order_is_no_member_any_more() -> None:
    """Who is there in its stead is a stranger; a static member stays for its session."""
    reported = [started("pod-a", 0), started("pod-b", 0), *left("pod-b", 10)]
    static = [started("pod-a", 0), started("pod-b", 0, "b"), *left("pod-b", 10)]
    members = counted(*[2] * 30)

    [found] = group_strangers([*reported, *members])
    assert found.first_seen_at == 14 * NS
    assert group_strangers([*static, *members]) == ()


def test_a_member_whose_leave_was_lost_is_the_pods_until_its_session_ends() -> None:
    """The coordinator names it by the pod's own id; a note says how long it stayed."""
    joined = [owns(pod, 1, partitions) for pod, partitions in PODS.items()]
    reported = [started("pod-a", 0), started("pod-b", 0), *left("pod-b", 10), *joined]
    group = watched((0, PODS), (20, {"pod-a": [0, 1, 2, 3]}), until=30)
    records = [*reported, *group]

    assert group_strangers(records) == ()
    assert left_behind_text(records).endswith("10.0 s at most: pod-b")
    assert left_behind_text([*reported, *watched((0, PODS), (12, {"pod-a": []}), until=30)]) == ""


def test_a_container_that_starts_again_is_a_second_member_for_a_while() -> None:
    """The group hears of the first one's end by its session."""
    again = [pod_seen("pod-a"), started("pod-a", 0), started("pod-a", 20)]

    assert group_strangers([*again, *counted(*[1] * 20, *[2] * 30, *[1] * 30)]) == ()


def again(*, reports_it: bool) -> list[TelemetryRecord]:
    """Show pod-a for 10 s beside its earlier membership, which the coordinator still holds."""
    ids = ("pod-a-1", "pod-a-2")
    two = [
        GroupMember(member_id=i, client_id="pod-a", host="/10.0.0.9", partitions=[]) for i in ids
    ]
    one = [GroupMember(member_id=ids[1], client_id="pod-a", host="/10.0.0.9", partitions=[0])]
    records: list[TelemetryRecord] = [pod_seen("pod-a"), owns("pod-a", 1, [0])]
    records += [reading(second, 2 if 20 <= second < 30 else 1) for second in range(40)]
    records += [
        of(GroupMembers, 20, members=two),
        of(GroupMembers, 30, members=one),
    ]
    if reports_it:
        records.append(msgspec.structs.replace(owns("pod-a", 30, [0]), member_id=ids[1]))
    return records


def test_a_pod_that_joins_again_is_no_stranger_to_itself() -> None:
    """After an outage of Kafka its earlier membership stands until the session ends.

    A member under a pod's name whose id that pod never reported is somebody else.
    """
    assert group_strangers(again(reports_it=True)) == ()

    [found] = group_strangers(again(reports_it=False))
    assert (found.client_id, found.members, found.seen_seconds) == (None, 1, 9.0)


def test_members_that_nobody_named_for_long_are_not_known() -> None:
    """A folder that should name them and does not; in format 1 the readings are enough."""
    records = visited()
    nameless = [record for record in records if not isinstance(record, GroupMembers)]
    within = {"from_at": 0, "until_at": 59 * NS}

    assert group_gaps(records, **within) == ()
    [gap] = group_gaps(nameless, **within)
    assert gap.gap_seconds == 59
    cut = [r for r in records if not (isinstance(r, GroupMembers) and 18 * NS < r.at < 50 * NS)]
    [gap] = group_gaps(cut, **within)
    assert gap.gap_seconds > 15


@pytest.mark.parametrize(("away_seconds", "gaps"), [(10, 0), (30, 1)])
def test_a_short_outage_of_the_broker_leaves_the_members_known(
    away_seconds: int, gaps: int
) -> None:
    """Ten seconds without a reading are as many as two records may be apart; thirty are not."""
    back = 20 + away_seconds
    records = [r for r in watched((0, PODS), until=80) if not 20 * NS <= r.at < back * NS]
    records += [of(ReadGap, 21, what="group"), of(GroupMembers, back)]

    assert len(group_gaps(records, from_at=0, until_at=79 * NS)) == gaps


def test_a_run_with_a_stranger_is_undetermined_and_says_who() -> None:
    """Whatever its SLOs say, and once per stranger."""
    good = quick_spike_measures().model_copy(update={"group_strangers": (), "group_gaps": ()})
    origin = good.load.stream_started_at or 0
    [canary] = group_strangers(visited())
    at = {"first_seen_at": origin + 20 * NS, "last_seen_at": origin + 31 * NS}
    canary = canary.model_copy(update={**at, "partitions": (3, 7)})
    slos = Slos(drain_seconds=120)
    assert stranger_reasons(good) == []

    verdict = judge(good.model_copy(update={"group_strangers": (canary,)}), slos)
    assert verdict.status == "undetermined"
    for named in ("canary", "/10.0.0.9", "3, 7", "11.0 to 13.0 s", "+0.0 s"):
        assert named in verdict.reasons[0]

    lossy = good.accounting.model_copy(update={"lost": 2773})
    lost = judge(good.model_copy(update={"group_strangers": (canary,), "accounting": lossy}), slos)
    assert lost.status == "undetermined"
    assert {slo.status for slo in lost.slos} <= {"undetermined", "not_judged"}
    assert lost.reasons[0] == verdict.reasons[0]

    nameless = canary.model_copy(update={"client_id": None, "host": None, "partitions": ()})
    [reason] = stranger_reasons(good.model_copy(update={"group_strangers": (nameless,)}))
    assert re.findall(r"[\d.]+", reason) == ["1", "11.0", "13.0", "0.0"]


def readings(*client_ids: str) -> list[Any]:
    """Return ten readings of a group with these members."""
    members = [GroupMember(f"m-{n}", name, "/h", [n]) for n, name in enumerate(client_ids)]
    found: list[Any] = [pod_seen(name) for name in PODS]
    for second in range(20, 30):
        found += [of(GroupMembers, second, members=members), reading(second, len(members))]
    return found


def strangers(records: list[Any], **settings: Any) -> list[tuple[str | None, int]]:
    """Return client id and number of each stranger."""
    consumer = ConsumerSettings.model_validate(settings)
    found = group_strangers(
        with_pods_of_members(records, consumer), members_per_pod=consumer.members_per_pod
    )
    return [(one.client_id, one.members) for one in found]


def test_a_member_is_a_pods_by_the_name_in_its_client_id() -> None:
    """An id that holds no pod of the run is foreign."""
    records = readings("orders-pod-a", "orders-pod-b", "orders-pod-z")

    assert strangers(records, client_id="orders-{pod}") == [("orders-pod-z", 1)]


def test_a_pod_may_have_several_members() -> None:
    """Two threads of two pods are four members."""
    records = readings("rdkafka", "rdkafka", "rdkafka", "rdkafka")

    assert strangers(records, members_per_pod=2) == []
    named = readings("t-pod-a", "t-pod-a", "t-pod-b", "t-pod-b", "other")
    assert strangers(named, members_per_pod=2, client_id="t-{pod}") == [("other", 1)]


def test_a_dead_pod_stays_a_member_for_the_session_of_its_scenario() -> None:
    """A member 100 s after its pod has gone is foreign at 45 s, and not at 120 s."""
    records = [pod_seen("pod-a"), pod_seen("pod-b", gone=1)]
    records += [reading(second, 2) for second in range(90, 110)]

    assert [one.members for one in group_strangers(records)] == [1]
    assert group_strangers(records, session_seconds=120.0) == ()
