"""The first messages to a partition that was added a moment ago, on a real broker."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.integration.proxied_broker import ProxiedBroker, proxied_broker

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.programs.producer.outbox import Outbox

pytestmark = pytest.mark.slow
GROWN = 300  # the broker opens their logs one after the other: the last one long after the first
MESSAGES = 60
ROUNDS = 6
LATENCY_MS = 60
"""Several messages are under way before the client hears of the first."""


def test_no_acknowledged_message_is_lost_in_a_new_partition(tmp_path: Path) -> None:
    """What the producer calls acknowledged is in the log, also when it wrote as early as it could.

    With only the metadata asked, three of eight such topics lost one or two messages each: the
    broker refuses the first and takes the second; the client then takes the first for a duplicate.
    """
    with proxied_broker(tmp_path) as proxied:
        lost = [lost_in_a_new_partition(proxied, f"grows-{turn}") for turn in range(ROUNDS)]

    assert lost == [0] * ROUNDS


def lost_in_a_new_partition(proxied: ProxiedBroker, topic: str) -> int:
    """Return how many messages are acknowledged, and not in the last of the partitions added."""
    with KafkaAdmin(proxied.broker.bootstrap_servers) as admin:
        admin.create_topics([TopicSpec(topic, 1)])
        outbox = Outbox(proxied.listener.bootstrap_servers, topic, client_id="load")
        assert outbox.has_partitions(1)
        proxied.obey(mode="latency", latency_ms=LATENCY_MS)
        growth = threading.Thread(target=admin.grow_topic, args=(topic, GROWN))
        growth.start()
        eventually(lambda: outbox.has_partitions(GROWN), "the new partitions")
        for number in range(MESSAGES):
            value, now_ms = number.to_bytes(8, "little"), time.time_ns() // 1_000_000
            assert outbox.hand_over([value], [b"key"], [GROWN - 1], None, [now_ms]) == 1
            outbox.serve()
            time.sleep(0.02)  # the pace of the load
        assert outbox.flush(60)
        growth.join()
        proxied.obey(mode="pass")
        assert outbox.acked == MESSAGES
        return outbox.acked - admin.end_offsets(topic)[GROWN - 1]
