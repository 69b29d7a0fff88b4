"""Which members of a group can be the pods of a user's own consumers."""

from __future__ import annotations

import pytest

from lagbench.adapters.kafka.kafka_groups import GroupMember
from lagbench_airflow.triggers.run_group import RunGroupStableTrigger


def trigger(client_id: str | None) -> RunGroupStableTrigger:
    """Return the trigger of a run whose members have that client id."""
    return RunGroupStableTrigger(
        run_id="r",
        workload="Deployment",
        client_id=client_id,
        kafka_conn_id="k",
        kubernetes_conn_id="c",
        deadline_at=0,
        hold_seconds=1,
        poll_seconds=1,
    )


def seen(client_id: str) -> GroupMember:
    """Return a member of that client id."""
    return GroupMember(
        member_id="m", client_id=client_id, instance_id=None, host="/h", partitions=()
    )


@pytest.mark.parametrize(
    ("client_id", "member", "may_be_own"),
    [
        (None, "consumer-7d-x2", True),
        (None, "rdkafka", False),
        ("", "rdkafka", True),
        ("orders", "anything", True),
        ("orders-{pod}", "orders-consumer-7d-x2", True),
        ("orders-{pod}", "orders-other-7d-x2", False),
        ("orders-{pod}", "consumer-7d-x2", False),
    ],
)
def test_a_member_is_told_by_its_client_id(
    client_id: str | None, member: str, may_be_own: bool
) -> None:
    """Only an id with {pod} tells; without it the number of members does."""
    assert trigger(client_id)._may_be_own(seen(member), "consumer-") is may_be_own


@pytest.mark.parametrize(
    ("client_id", "member", "pod"),
    [
        (None, "consumer-7d-x2", "consumer-7d-x2"),
        ("orders", "anything", None),
        ("orders-{pod}", "orders-consumer-7d-x2", "consumer-7d-x2"),
        ("orders-{pod}", "rdkafka", "rdkafka"),
    ],
)
def test_the_message_of_a_wait_knows_the_pod_of_a_member(
    client_id: str | None, member: str, pod: str | None
) -> None:
    """Members of existing pods are not named as those without one, whatever their client id."""
    assert trigger(client_id)._pod_of(seen(member)) == pod
