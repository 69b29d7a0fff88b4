"""A consumer group that knows nothing of lagbench: members that come and go, and its traffic."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec

_WORK_SECONDS = 0.005


class Member(threading.Thread):
    """A consumer as the client's documentation shows it: it polls, works, and commits by itself."""

    def __init__(self, settings: Mapping[str, str], group: str, topic: str) -> None:
        """Join the group once started."""
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {
                **settings,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1000,
                "session.timeout.ms": 6000,
            }
        )
        self._topic = topic
        self._leaving = threading.Event()
        self.has_work = threading.Event()

    def run(self) -> None:
        """Consume until told to leave."""
        self._consumer.subscribe([self._topic])
        while not self._leaving.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.has_work.set()
                time.sleep(_WORK_SECONDS)  # the work itself, not a wait for something
        self._consumer.close()

    def leave(self) -> None:
        """Leave the group and wait for the end."""
        self._leaving.set()
        self.join(120)


@dataclass
class ForeignGroup:
    """The group, its topic, and the means to change its members."""

    settings: Mapping[str, str]
    group: str
    topic: str
    members: list[Member] = field(default_factory=list)

    def add(self) -> Member:
        """Start a member; return when it has work."""
        member = Member(self.settings, self.group, self.topic)
        member.start()
        self.members.append(member)
        assert member.has_work.wait(180)
        return member

    def remove(self) -> None:
        """End the newest member."""
        self.members.pop().leave()


@contextmanager
def foreign_group(
    servers: str, group: str, topic: str, *, partitions: int = 4, rate: int = 60
) -> Iterator[ForeignGroup]:
    """Run a group with one member on a topic that gets ``rate`` messages a second."""
    settings = {"bootstrap.servers": servers}
    with KafkaAdmin(servers) as admin:
        admin.create_topics([TopicSpec(topic, partitions)])
    ended = threading.Event()

    def produce() -> None:
        producer, sent = Producer(settings), 0
        while not ended.wait(1 / rate):
            producer.produce(topic, b"x", key=str(sent).encode())
            producer.poll(0)
            sent += 1
        producer.flush(60)

    traffic = threading.Thread(target=produce, daemon=True)
    traffic.start()
    there = ForeignGroup(settings, group, topic)
    try:
        there.add()
        yield there
    finally:
        ended.set()
        traffic.join(120)
        for member in there.members:
            with contextlib.suppress(RuntimeError):
                member.leave()
