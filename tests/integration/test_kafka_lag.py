"""Reading a group's offsets from a real broker: whole or not at all, never zero for unknown."""

from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.eventually import eventually
from tests.integration.autoscaler_setting import LagControl, make_topic

from lagbench.adapters.kafka.kafka_lag import (
    open_admin,
    read_group_lag,
    read_group_topics,
    read_offsets,
)
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady

pytestmark = pytest.mark.slow


def test_end_and_committed_offsets_of_all_partitions_are_read(broker: Broker) -> None:
    """A lag of 61 over 6 partitions is 11 in one and 10 in each other."""
    token = uuid4().hex[:8]
    control = LagControl(broker.bootstrap_servers, f"t-{token}", f"g-{token}", partitions=6)
    control.prepare()
    control.set_lag(61)
    admin = open_admin(broker.bootstrap_servers)

    offsets = read_group_lag(admin, control.group, control.topic)

    assert [offsets[number].lag_records for number in range(6)] == [11, 10, 10, 10, 10, 10]
    assert read_group_topics(admin, control.group) == [control.topic]


def test_a_group_without_commits_has_no_offset_rather_than_zero(broker: Broker) -> None:
    """An unknown committed offset is None; the oldest one is read only where it is wanted."""
    topic = f"t-{uuid4().hex[:8]}"
    make_topic(broker.bootstrap_servers, topic, 2)
    admin = open_admin(broker.bootstrap_servers)
    places = [(topic, 0), (topic, 1)]

    def read() -> dict[tuple[str, int], PartitionOffsets] | None:
        try:
            return read_offsets(admin, "nobody", places, wants_earliest=lambda _: True)
        except NotReady:  # a topic made just now has no leader yet
            return None

    found = eventually(read, "a leader for each partition") or {}

    assert [(item.end, item.committed, item.earliest) for item in found.values()] == [
        (0, None, 0),
        (0, None, 0),
    ]


def test_offsets_in_an_open_transaction_are_waited_for_when_asked(broker: Broker) -> None:
    """A lag is read as it is by now; at a run's end the reading fails until it has ended."""
    token = uuid4().hex[:8]
    control = LagControl(broker.bootstrap_servers, f"t-{token}", f"g-{token}", partitions=6)
    control.prepare()
    control.set_lag(60)
    before = read_group_lag(open_admin(broker.bootstrap_servers), control.group, control.topic)
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer({**servers, "transactional.id": token})
    member = Consumer({**servers, "group.id": control.group})
    producer.init_transactions(30)
    producer.begin_transaction()
    offset = TopicPartition(control.topic, 0, before[0].end or 0)
    producer.send_offsets_to_transaction([offset], member.consumer_group_metadata(), 30)

    now = read_group_lag(open_admin(broker.bootstrap_servers), control.group, control.topic)
    patient = open_admin(broker.bootstrap_servers, awaits_transactions=True)
    with pytest.raises(NotReady):
        read_group_lag(patient, control.group, control.topic, timeout_seconds=1)
    producer.commit_transaction(30)
    after = read_group_lag(patient, control.group, control.topic)
    member.close()
    patient.close()

    assert now == before
    assert after[0].lag_records == 0
    assert {p: after[p] for p in range(1, 6)} == {p: before[p] for p in range(1, 6)}


def test_a_missing_topic_is_not_ready_and_is_not_created(broker: Broker) -> None:
    """Asking for a topic that is not there fails, twice: reading creates nothing."""
    admin = open_admin(broker.bootstrap_servers)

    for _ in range(2):
        with pytest.raises(NotReady, match="no-such-topic"):
            read_group_lag(admin, "g", "no-such-topic")


def test_a_broker_that_is_away_is_not_ready_within_the_limit() -> None:
    """Nothing listens there: the error comes within the bound and names it, no reading of zero."""
    admin = open_admin("127.0.0.1:1")

    with pytest.raises(NotReady, match=r"127\.0\.0\.1:1"):
        read_group_lag(admin, "g", "t", timeout_seconds=1.0)
