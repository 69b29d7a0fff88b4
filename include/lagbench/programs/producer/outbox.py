"""Send the load to Kafka: idempotent, acknowledged by all replicas, every message accounted for.

A delivery callback runs for failures only: successes cost no Python. Messages that the client took
and that have neither failed nor wait in its queue are acknowledged; after a flush that is exact.
Failed messages, and those without an answer, are known by their seq. Messages are handed over in
the order of seq, from 0 on. A thread makes the messages of the next blocks: lagbench's own events,
or a user's samples.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from queue import Full, Queue
from typing import Self

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.measures.evidence.producer_report import SeqRanges
from lagbench.core.scenario.event_stream import (
    EventBlock,
    EventStream,
    StreamDigest,
    partition_of_key,
    planned_partitions,
)
from lagbench.core.scenario.payload import Samples
from lagbench.core.scenario.scenario import PartitionPlan
from lagbench.errors import LagbenchError, NotReady, WrongInput
from lagbench.shared_with_spark.event import (
    PAYLOAD_BYTES,
    Headers,
    event_values,
    identity_headers,
    record_keys,
    seq_of_value,
)
from pod_program.kafka_settings import RECOVERY, own_settings

log = logging.getLogger(__name__)

# An outage of 10 s at 60,000/s queues 600,000 messages of 264 B: room for 1.6 times that.
_QUEUE_MESSAGES = 1_000_000
_QUEUE_KBYTES = 1_048_576

# Longer than any outage that a rehearsal stages; a message older than this has failed.
MESSAGE_TIMEOUT_SECONDS = 300

# How long librdkafka gathers a batch: below the 5 ms tick of the sender a batch holds one tick.
_LINGER_MS = 5
_FULL_QUEUE_WAIT_SECONDS = 0.01
_METADATA_TIMEOUT_SECONDS = 15.0
_LOOK_TIMEOUT_SECONDS = 1.0
_GIVEN_UP = ("_PURGE_QUEUE", "_PURGE_INFLIGHT")

# Only callbacks are left then: those of a full queue of 1,000,000 took 2.0 s.
_GIVE_UP_SECONDS = 10.0


class Outbox:
    """Hands events to librdkafka and counts what became of them."""

    def __init__(self, bootstrap_servers: str, topic: str, *, client_id: str) -> None:
        """Open the client; nothing is sent, and an unreachable broker is fine."""
        self._servers, self._topic = bootstrap_servers, topic
        self.sent = 0
        self.failed_seqs, self.unknown_seqs = SeqRanges(), SeqRanges()
        self.first_failure = ""
        self._producer = Producer(
            {
                **own_settings(bootstrap_servers),
                "client.id": client_id,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "lz4",
                "linger.ms": _LINGER_MS,
                "queue.buffering.max.messages": _QUEUE_MESSAGES,
                "queue.buffering.max.kbytes": _QUEUE_KBYTES,
                "message.timeout.ms": MESSAGE_TIMEOUT_SECONDS * 1000,
                **RECOVERY,
                "delivery.report.only.error": True,
                "on_delivery": self._note_failure,
                "log_level": 3,
            }
        )

    @property
    def failed(self) -> int:
        """Return how many messages have failed."""
        return self.failed_seqs.count

    @property
    def waiting(self) -> int:
        """Return how many messages are neither acknowledged nor failed, nor given up."""
        return len(self._producer)

    @property
    def unknown(self) -> int:
        """Return how many messages were given up: the broker may have them or not."""
        return self.unknown_seqs.count

    @property
    def acked(self) -> int:
        """Return how many messages are acknowledged; exact once nothing waits."""
        return max(0, self.sent - self.failed - self.unknown - self.waiting)

    def partition_count(self) -> int:
        """Return the topic's partitions."""
        try:
            metadata = self._producer.list_topics(self._topic, timeout=_METADATA_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise NotReady(f"the broker did not answer for topic {self._topic}: {error}") from error
        topic = metadata.topics[self._topic]
        if topic.error is not None:
            raise NotReady(
                f"topic {self._topic} cannot be used: {topic.error}; create it before the producer"
            )
        return len(topic.partitions)

    def require_partitions(self, wanted: int | None) -> int:
        """Return the topic's partitions; ``WrongInput`` when ``wanted`` says another number."""
        found = self.partition_count()
        if wanted is not None and wanted != found:
            allowed = f"{found}, as many as topic {self._topic} has"
            raise WrongInput(where="producer", field="--partitions", value=wanted, allowed=allowed)
        return found

    def has_partitions(self, wanted: int) -> bool:
        """Return whether the client knows ``wanted`` partitions and a leader of each answers."""
        try:
            metadata = self._producer.list_topics(self._topic, timeout=_LOOK_TIMEOUT_SECONDS)
            if len(metadata.topics[self._topic].partitions) < wanted:
                return False
            return self._admin.leaders_answer(self._topic, wanted)[0]
        except (KafkaException, NotReady):
            return False  # an outage: the next look may succeed

    def hand_over(
        self,
        values: Sequence[bytes],
        keys: Sequence[bytes],
        partitions: Sequence[int],
        headers: Sequence[Headers] | None,
        timestamps_ms: Sequence[int],
    ) -> int:
        """Hand events to the client in order; returns how many it took before its queue was full.

        ``headers`` carry the identity of each; None: its value does.

        ``produce_batch`` takes no timestamps (confluent-kafka 2.16), so each is a call of its own:
        330,000/s here, with the failure callback.
        """
        produce, topic, taken = self._producer.produce, self._topic, 0
        try:
            # By position (keywords cost 15 %): two callbacks, then the timestamp.
            if headers is None:
                for value, key, partition, timestamp in zip(
                    values, keys, partitions, timestamps_ms, strict=True
                ):
                    produce(topic, value, key, partition, None, None, timestamp)
                    taken += 1
            else:
                for value, key, partition, timestamp, header in zip(
                    values, keys, partitions, timestamps_ms, headers, strict=True
                ):
                    # A report of a failure has no headers: its callback knows the seq.
                    failed = partial(self._note_failure_of, self.sent + taken)
                    produce(topic, value, key, partition, failed, None, timestamp, header)
                    taken += 1
        except BufferError:
            pass  # what is left is handed over again when there is room; its lateness shows it
        except KafkaException as error:
            raise NotReady(f"the client rejected an event for {self._topic}: {error}") from error
        finally:
            self.sent += taken
        return taken

    def serve(self) -> None:
        """Take in failures that have been reported; returns at once."""
        self._producer.poll(0)

    def await_room(self) -> None:
        """Wait a moment for the full queue to move."""
        self._producer.poll(_FULL_QUEUE_WAIT_SECONDS)

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until nothing waits; False if the time limit passes first."""
        return int(self._producer.flush(timeout_seconds)) == 0

    def give_up(self) -> None:
        """Give up what still waits: from here on each such message is one of unknown outcome."""
        self._producer.purge()
        self._producer.flush(_GIVE_UP_SECONDS)

    @cached_property
    def _admin(self) -> KafkaAdmin:
        return KafkaAdmin(self._servers, timeout_seconds=_LOOK_TIMEOUT_SECONDS)

    def _note_failure(self, error: KafkaError | None, message: Message) -> None:
        self._note_failure_of(seq_of_value(message.value() or b""), error, message)

    def _note_failure_of(self, seq: int, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            return
        if error.name() in _GIVEN_UP:
            self.unknown_seqs.add(seq)
            return
        self.failed_seqs.add(seq)
        if not self.first_failure:
            self.first_failure = str(error)
            log.error("an event was not delivered: %s", error)


_DRAW_BYTES = 8  # of an event's random bytes, which draw its sample


@dataclass(frozen=True, slots=True)
class Bodies:
    """The messages of one block; with ``headers`` the identity is there and not in the value."""

    events: EventBlock
    values: list[bytes]
    keys: list[bytes]
    partitions: list[int]
    headers: list[Headers] | None = None


class MessageBodies:
    """Makes messages of events."""

    def __init__(self, partitions: PartitionPlan) -> None:
        """Place keys by ``partitions``."""
        self._partitions = partitions

    def of(self, events: EventBlock) -> Bodies:
        """Return the messages of ``events``: their own bytes, keyed by entity."""
        return Bodies(events, event_values(events), record_keys(events), self._places(events))

    def _places(self, events: EventBlock) -> list[int]:
        entities, planned = events["entity_id"], events["planned_offset_ns"]
        places: list[int] = planned_partitions(entities, planned, self._partitions).tolist()
        return places


class SampleBodies(MessageBodies):
    """Makes messages of a user's samples: each event is one of them, drawn by its random bytes.

    With keys of their own the entity of an event is the number of its key, in the order in which
    the keys appear in the file.
    """

    def __init__(self, partitions: PartitionPlan, samples: Samples, *, run_id: str) -> None:
        """Send ``samples`` as messages of the run."""
        super().__init__(partitions)
        self._samples, self._run_id = samples, run_id
        numbers: dict[bytes, int] = {}
        keys = samples.keys or ()
        self._entities = np.array([numbers.setdefault(k, len(numbers)) for k in keys], np.uint64)
        self._key_places = [partition_of_key(key, partitions.first) for key in keys]

    def of(self, events: EventBlock) -> Bodies:
        """Return the samples that are sent for ``events``."""
        random = events["payload"].view((np.uint8, PAYLOAD_BYTES))[:, :_DRAW_BYTES]
        drawn = np.ascontiguousarray(random).view("<u8")[:, 0] % np.uint64(
            len(self._samples.values)
        )
        chosen = drawn.tolist()
        values = [self._samples.values[number] for number in chosen]
        if self._samples.keys is None:
            keys, places = record_keys(events), self._places(events)
        else:
            events["entity_id"] = self._entities[drawn]
            keys = [self._samples.keys[number] for number in chosen]
            places = [self._key_places[number] for number in chosen]
        return Bodies(events, values, keys, places, identity_headers(events, self._run_id))


# 8 blocks of 8192 are 1.1 s at 60,000/s, and about 35 MB.
_BLOCKS_AHEAD = 8
_WAIT_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class ReadyBlock:
    """One block as the client wants it; ``digest`` covers the planned window up to this block."""

    bodies: Bodies
    planned_ns: npt.NDArray[np.int64]
    digest: StreamDigest


class GenerationFailed(LagbenchError):
    """The thread that makes the events ended with an error."""


class BlockFeed:
    """Iterates over the blocks of a stream while a thread makes the next ones."""

    def __init__(
        self, stream: EventStream, *, blocks: int, bodies: MessageBodies, digested_events: int
    ) -> None:
        """Prepare the thread; ``with`` starts it. ``digested_events``: without the tail's."""
        self._stream, self._blocks, self._bodies = stream, blocks, bodies
        self._digested_events = digested_events
        self._ready: Queue[ReadyBlock | Exception] = Queue(maxsize=_BLOCKS_AHEAD)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._make, name="event-blocks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def blocks(self) -> Iterator[ReadyBlock]:
        """Yield the blocks in order; waits when the thread has not made one yet."""
        for _ in range(self._blocks):
            block = self._ready.get()
            if isinstance(block, Exception):
                raise GenerationFailed(f"the event stream could not be made: {block}") from block
            yield block

    def _make(self) -> None:
        digest = StreamDigest(seq_to=self._digested_events)
        try:
            for index in range(self._blocks):
                bodies = self._bodies.of(self._stream.block(index))
                planned = np.ascontiguousarray(bodies.events["planned_offset_ns"])
                block = ReadyBlock(bodies, planned, digest.copy())
                digest.add(bodies.events)
                if not self._hand_over(block):
                    return
        except Exception as error:
            self._hand_over(error)

    def _hand_over(self, item: ReadyBlock | Exception) -> bool:
        while not self._stopping.is_set():
            try:
                self._ready.put(item, timeout=_WAIT_SECONDS)
            except Full:
                continue
            return True
        return False
