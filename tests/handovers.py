"""``python -m tests.handovers [REPEATS]``: from the revoke of a partition to its next owner.

One member owns twelve partitions of an idle topic, and a second joins, with cooperative-sticky:
librdkafka, librdkafka that is asked for metadata all the time, and Kafka's Java client, each with a
short heartbeat and with the default one. It prints the longest gap of each join, in seconds.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.embedded.broker import Broker
from lagbench.embedded.jars import BROKER, jar_paths
from lagbench.embedded.java import find_java
from localkube.processes import end_process, start_tied
from tests.eventually import eventually
from tests.integration.consumer_group import shares_out

PARTITIONS = 12
_ASKS_EVERY_SECONDS = 0.1
HEARTBEATS_MS = (200, 3000)
Moves = list[tuple[float, str, list[int]]]
"""When (unix seconds), ``revoked`` or ``assigned``, and which partitions."""
ASSIGNOR = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
LOGGING = """status=error
appender.o.type=Console
appender.o.name=o
appender.o.layout.type=PatternLayout
appender.o.layout.pattern=%d{UNIX_MILLIS} %m%n
rootLogger.level=info
rootLogger.appenderRef.o.ref=o
"""


def settings(servers: str, topic: str, heartbeat_ms: int) -> dict[str, str | int]:
    """Return what both clients have in common; the group has the topic's name."""
    return {
        "bootstrap.servers": servers,
        "group.id": topic,
        "heartbeat.interval.ms": heartbeat_ms,
        "session.timeout.ms": 10_000,
        "enable.auto.commit": "false",
    }


@contextmanager
def librdkafka(
    servers: str, topic: str, heartbeat_ms: int, _folder: Path, *, asks: bool = False
) -> Iterator[Callable[[], Moves]]:
    """Run a member in a thread; yields what reads its moves.

    ``asks``: it also asks for the topic's metadata all the time. An answer ends librdkafka's wait
    of 1 s between two joins, so the difference is that wait.
    """
    moves: Moves = []
    is_over = threading.Event()

    def note(what: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        return lambda _, places: moves.append((time.time(), what, [p.partition for p in places]))

    with closing(
        Consumer(
            settings(servers, topic, heartbeat_ms)
            | {"partition.assignment.strategy": "cooperative-sticky"}
        )
    ) as consumer:
        consumer.subscribe([topic], on_assign=note("assigned"), on_revoke=note("revoked"))

        def poll() -> None:
            asked_at = 0.0
            while not is_over.is_set():
                consumer.poll(0.02)
                if asks and time.monotonic() - asked_at > _ASKS_EVERY_SECONDS:
                    asked_at = time.monotonic()
                    consumer.list_topics(topic, 5)

        thread = threading.Thread(target=poll)
        thread.start()
        yield lambda: moves
        is_over.set()
        thread.join()


@contextmanager
def java(
    servers: str, topic: str, heartbeat_ms: int, folder: Path
) -> Iterator[Callable[[], Moves]]:
    """Run a member as Kafka's console consumer; its log says what it gives up and gets."""
    config, log_file = folder / "log4j2.properties", folder / f"{topic}-{uuid.uuid4().hex}.log"
    config.write_text(LOGGING, encoding="utf-8")
    jars = ":".join(str(jar) for jar in jar_paths(BROKER))
    command = [str(find_java().executable), "-Xmx128m", "-XX:TieredStopAtLevel=1"]
    command += [f"-Dlog4j2.configurationFile={config}", "-cp", jars]
    command += ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic]
    own = settings(servers, topic, heartbeat_ms)
    command += ["--bootstrap-server", str(own.pop("bootstrap.servers"))]
    for name, value in (own | {"partition.assignment.strategy": ASSIGNOR}).items():
        command += ["--command-property", f"{name}={value}"]

    def moves() -> Moves:
        found: Moves = []
        for line in log_file.read_text(encoding="utf-8").splitlines():
            said = re.match(r"(\d{13}) .*?(Adding newly assigned|Revok\w+ previously)", line)
            if said is not None:
                what = "assigned" if said[2].startswith("Adding") else "revoked"
                places = [int(p) for p in re.findall(rf"{re.escape(topic)}-(\d+)", line)]
                found.append((int(said[1]) / 1000, what, places))
        return found

    with log_file.open("wb") as log:
        process = start_tied(command, log=log)
    try:
        yield moves
    finally:
        end_process(process.pid, grace_seconds=10)
        process.wait(timeout=20)


def longest_gap(given_up: Moves, taken: Moves) -> float:
    """Return the seconds from the revoke of a partition to its assignment, the longest."""
    revoked_at = {
        place: at for at, what, places in given_up if what == "revoked" for place in places
    }
    return max(
        at - revoked_at[place]
        for at, what, places in taken
        if what == "assigned"
        for place in places
        if place in revoked_at
    )


Client = Callable[[str, str, int, Path], AbstractContextManager[Callable[[], Moves]]]


def gap_of_a_join(
    client: Client, admin: KafkaAdmin, servers: str, heartbeat_ms: int, folder: Path
) -> float:
    """Let a second member join a group of its own, and return its longest gap in seconds."""
    topic = f"idle-{uuid.uuid4().hex[:8]}"
    admin.create_topics([TopicSpec(topic, PARTITIONS, {})])
    with client(servers, topic, heartbeat_ms, folder) as first:
        eventually(lambda: shares_out(admin, topic, 1, PARTITIONS), "one member")
        with client(servers, topic, heartbeat_ms, folder) as second:
            eventually(lambda: shares_out(admin, topic, 2, PARTITIONS), "two members")
            eventually(lambda: any(places for *_, places in second()), "what it was given")
            return longest_gap(first(), second())


def main() -> None:
    """Let a second member join as often as asked, and print the gaps."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        broker = Broker(folder / "broker")
        broker.start()
        stack.callback(broker.stop)
        admin = stack.enter_context(KafkaAdmin(broker.bootstrap_servers))
        asking = partial(librdkafka, asks=True)
        clients = {"librdkafka": librdkafka, "librdkafka asking": asking, "java": java}
        for name, client in clients.items():
            for heartbeat_ms in HEARTBEATS_MS:
                own = (client, admin, broker.bootstrap_servers, heartbeat_ms, folder)
                gaps = [round(gap_of_a_join(*own), 3) for _ in range(repeats)]
                said = {"client": name, "heartbeat_ms": heartbeat_ms, "gaps": gaps}
                sys.stdout.write(json.dumps(said) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
