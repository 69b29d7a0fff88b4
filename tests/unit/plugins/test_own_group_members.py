"""Which members of a group can be the pods of a user's own consumers."""

from __future__ import annotations

import pytest

from lagbench.adapters.kafka.kafka_groups import GroupMember
from lagbench_airflow.triggers.run_group import RunGroupStableTrigger


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
    trigger = RunGroupStableTrigger(
        run_id="r",
        workload="Deployment",
        client_id=client_id,
        kafka_conn_id="k",
        kubernetes_conn_id="c",
        deadline_at=0,
        hold_seconds=1,
        poll_seconds=1,
    )
    found = GroupMember(member_id="m", client_id=member, instance_id=None, host="/h", partitions=())

    assert trigger._may_be_own(found, "consumer-") is may_be_own
