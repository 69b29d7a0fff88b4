"""One batch of reads: the offsets of many groups on many topics, all requests under way at once.

Iggy reports the offset of the last message for a partition and of the last processed message for a
group; a ``GroupSample`` holds the next one of both. An empty partition also has offset 0: the
message count distinguishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import NamedTuple

import numpy as np

from lagbench.adapters.iggy import iggy_wire as wire
from lagbench.adapters.iggy.iggy_channel import Deadline, IggyChannel, Request
from lagbench.adapters.iggy.iggy_frames import FrameLayout
from lagbench.core.lag_scaler import NO_OFFSET, GroupSample, GroupTopic, failed_sample

# The first round may only find out the partitions, a second one may see them change.
_ROUNDS = 3


class StreamTopic(NamedTuple):
    """A topic's full name."""

    stream: str
    topic: str


KnownPartitions = MutableMapping[StreamTopic, tuple[int, ...]]


def read_groups(
    channel: IggyChannel,
    wanted: Sequence[GroupTopic],
    known: KnownPartitions,
    deadline: Deadline,
    wall_clock_ns: Callable[[], int],
) -> dict[GroupTopic, GroupSample]:
    """Return a sample per wanted group; one round trip if ``known`` has the right partitions.

    Corrects ``known``. Raises what concerns the connection; anything else is a sample's error.
    """
    samples: dict[GroupTopic, GroupSample] = {}
    pending: dict[StreamTopic, list[GroupTopic]] = {}
    for item in wanted:
        place, error = _place(item)
        if error:
            samples[item] = failed_sample(wall_clock_ns(), error)
        else:
            pending.setdefault(place, []).append(item)
    for _ in range(_ROUNDS):
        if not pending:
            return samples
        asked = {place: known.get(place, ()) for place in pending}
        requests = [
            request for place in pending for request in _requests(place, asked[place], pending)
        ]
        replies = iter(channel.ask(requests, deadline))
        at_ns = wall_clock_ns()
        for place, items in list(pending.items()):
            read = _TopicRead(place, asked[place], items, replies, channel.layout)
            if read.partitions is not None:
                known[place] = read.partitions
            if read.is_final:
                samples.update(read.samples(at_ns))
                del pending[place]
    for place, items in pending.items():
        error = f"the partitions of {place.stream}/{place.topic} changed while they were read"
        samples.update({item: failed_sample(wall_clock_ns(), error) for item in items})
    return samples


def next_offset(state: wire.PartitionState, stored: wire.StoredOffset | None) -> int:
    """Return the offset that the partition's next message will get.

    Messages that expired keep their offsets taken. Offset 0 in an empty partition: never written
    (or emptied by a purge, which forgets the groups' offsets too), unless a group has processed
    message 0, which then is the one that expired.
    """
    if state.messages_count or state.current_offset:
        return state.current_offset + 1
    return 1 if stored is not None and stored.stored_offset == 0 else 0


def _place(item: GroupTopic) -> tuple[StreamTopic, str]:
    """Return the topic's full name and why it cannot be asked for (empty: it can)."""
    stream, _, topic = item.topic.partition("/")
    place = StreamTopic(stream, topic)
    for what, name in (("stream", stream), ("topic", topic), ("consumer group", item.group)):
        if not wire.is_identifier(name):
            return place, (
                f"{name!r} cannot be an Iggy {what}; allowed: 1 to 255 bytes, or a number below "
                "2^32 (the topic is written stream/topic)"
            )
    return place, ""


def _requests(
    place: StreamTopic,
    numbers: Sequence[int],
    pending: MutableMapping[StreamTopic, list[GroupTopic]],
) -> Iterator[Request]:
    """Yield a topic's requests. Its state comes last: an end is never older than a commit."""
    for item in pending[place]:
        yield wire.GET_CONSUMER_GROUP, wire.idents(*place, item.group)
        for number in numbers:
            yield wire.GET_CONSUMER_OFFSET, wire.offset_query(item.group, *place, number)
    yield wire.GET_TOPIC, wire.idents(*place)


class _TopicRead:
    """The replies that belong to one topic, in the order of ``_requests``."""

    def __init__(
        self,
        place: StreamTopic,
        asked: tuple[int, ...],
        items: Sequence[GroupTopic],
        replies: Iterator[wire.Reply],
        layout: FrameLayout,
    ) -> None:
        self._place, self._asked = place, asked
        self._replies = [(item, next(replies), [next(replies) for _ in asked]) for item in items]
        self._states: tuple[wire.PartitionState, ...] = ()
        self._error = ""
        self.partitions: tuple[int, ...] | None = None
        try:
            self._states = layout.parse_topic(next(replies).ok_body())
        except wire.IggyRefused as refused:
            self._error = _said(refused)
            return
        self.partitions = tuple(state.number for state in self._states)
        if not self._states:
            self._error = (
                f"stream {place.stream!r} has no topic {place.topic!r} (or there is no such "
                "stream). Check streamId and topicId; all digits are taken as a numeric id"
            )

    @property
    def is_final(self) -> bool:
        """Return whether the partitions that were asked for are those that the topic has."""
        return bool(self._error) or self.partitions == self._asked

    def samples(self, at_ns: int) -> Iterator[tuple[GroupTopic, GroupSample]]:
        """Yield a sample per group."""
        for item, group, offsets in self._replies:
            try:
                yield item, self._sample(at_ns, item, group, offsets)
            except wire.IggyRefused as refused:
                yield item, failed_sample(at_ns, _said(refused))

    def _sample(
        self, at_ns: int, item: GroupTopic, group: wire.Reply, offsets: Sequence[wire.Reply]
    ) -> GroupSample:
        if self._error:
            return failed_sample(at_ns, self._error)
        if not group.ok_body():
            return failed_sample(
                at_ns,
                f"there is no consumer group {item.group!r} on {item.topic}. Create it, or start "
                "a consumer once; all digits are taken as a numeric id",
            )
        stored = [wire.parse_stored_offset(reply.ok_body()) for reply in offsets]
        for number, offset in zip(self._asked, stored, strict=True):
            if offset is not None and offset.partition != number:
                raise wire.MalformedReply(
                    f"asked for partition {number}, the server answered for {offset.partition}"
                )
        ends = [next_offset(*pair) for pair in zip(self._states, stored, strict=True)]
        kept = [state.messages_count for state in self._states]
        return GroupSample(
            at_ns=at_ns,
            partitions=np.array(self._asked, dtype=np.int32),
            end=np.array(ends, dtype=np.int64),
            committed=np.array(
                [NO_OFFSET if offset is None else offset.stored_offset + 1 for offset in stored],
                dtype=np.int64,
            ),
            earliest=np.maximum(np.array(ends, dtype=np.int64) - np.array(kept, np.int64), 0),
        )


def _said(refused: wire.IggyRefused) -> str:
    """Return the text for one sample; a lost login is the connection's error, so raise that."""
    if refused.status == wire.UNAUTHENTICATED:
        raise refused
    return str(refused)
