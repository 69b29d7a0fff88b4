"""Members of a group of the user's own consumers: told by name, or by number."""

from __future__ import annotations

from typing import Any

from lagbench.core.measures.evidence.group_strangers import group_strangers
from lagbench.core.measures.evidence.own_members import with_pods_of_members
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.telemetry.recorder import GroupMember, GroupMembers, GroupSample, PodSeen

SECOND = 1_000_000_000
PODS = ("consumer-a", "consumer-b")


def pod(name: str, *, gone_at: int | None = None) -> PodSeen:
    """Return a pod that was there all the time, or until ``gone_at``."""
    return PodSeen(
        at=0,
        source="recorder",
        pod=name,
        created_at=0,
        started_at=1,
        ready_at=2,
        deleted_at=None,
        gone_at=gone_at,
        exit_code=None,
        exit_reason="",
        precision_ns=0,
    )


def readings(*client_ids: str) -> list[Any]:
    """Return ten readings of a group with these members."""
    found: list[Any] = [pod(name) for name in PODS]
    for second in range(20, 30):
        at = second * SECOND
        members = [GroupMember(f"m-{n}", name, "/h", [n]) for n, name in enumerate(client_ids)]
        found.append(GroupMembers(at=at, source="recorder", members=members))
        sample = GroupSample(
            at=at,
            source="recorder",
            state="STABLE",
            members=len(members),
            members_without_partitions=0,
        )
        found.append(sample)
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
    records = readings("orders-consumer-a", "orders-consumer-b", "orders-consumer-z")

    assert strangers(records, client_id="orders-{pod}") == [("orders-consumer-z", 1)]


def test_without_names_the_number_tells() -> None:
    """As many members as pods are the run's; one more is foreign."""
    assert strangers(readings("rdkafka", "rdkafka")) == []
    assert strangers(readings("rdkafka", "rdkafka", "rdkafka")) == [(None, 1)]


def test_a_pod_may_have_several_members() -> None:
    """Two threads of two pods are four members."""
    records = readings("rdkafka", "rdkafka", "rdkafka", "rdkafka")

    assert strangers(records, members_per_pod=2) == []
    named = readings("t-consumer-a", "t-consumer-a", "t-consumer-b", "t-consumer-b", "other")
    assert strangers(named, members_per_pod=2, client_id="t-{pod}") == [("other", 1)]


def test_a_dead_pod_stays_a_member_for_the_session_of_its_scenario() -> None:
    """A member 100 s after its pod has gone is foreign at 45 s, and not at 120 s."""
    records = [pod("consumer-a"), pod("consumer-b", gone_at=SECOND)]
    records += [
        GroupSample(
            at=second * SECOND,
            source="recorder",
            state="stable",
            members=2,
            members_without_partitions=0,
        )
        for second in range(90, 110)
    ]

    assert [one.members for one in group_strangers(records)] == [1]
    assert group_strangers(records, session_seconds=120.0) == ()
