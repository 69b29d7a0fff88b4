"""Offsets of consumer groups from one Apache Iggy server, as the lag scaler wants them.

Nothing joins a group or changes the server: reads over one connection that all objects of the
server share. A sample is whole or it has an error: an outage is the error of all samples, a
stream, topic or group that does not exist that of its own; neither ever looks like a group
without offsets.

Iggy reports the offset of the last message for a partition and of the last processed message for a
group; a ``GroupSample`` holds the next one of both. An empty partition also has offset 0: the
message count distinguishes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lag_scaler import iggy_wire as wire
from lag_scaler.addresses import IggyServer
from lag_scaler.iggy_channel import ConnectionLost, IggyChannel
from lag_scaler.offsets import NO_OFFSET, GroupSample, GroupTopic, failed_sample
from pod_program.errors import NotReady

DEFAULT_TIMEOUT_SECONDS = 5.0
# The longest stays below the scaler's default interval: no sample is left out for waiting alone.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 8.0
# The first round may only find out the partitions, a second one may see them change.
_ROUNDS = 3


class IggySource:
    """A ``LagSource`` for one server; used by one thread at a time."""

    def __init__(
        self,
        server: IggyServer,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Connect at the first sample; a sample, connect included, takes at most the timeout."""
        self.server = server
        self._timeout_seconds, self._now_ns = timeout_seconds, now_ns
        self._channel: IggyChannel | None = None
        self._failures, self._next_try, self._reason = 0, 0.0, ""
        self._partitions: dict[str, tuple[int, ...]] = {}  # by stream/topic

    @property
    def protocol_version(self) -> str:
        """Return the server's frame layout, ``0.8`` or ``0.9``; empty while not connected."""
        return "" if self._channel is None else self._channel.layout.version

    def sample(self, wanted: Sequence[GroupTopic]) -> Mapping[GroupTopic, GroupSample]:
        """Return a sample per requested group; an outage gives all of them the same error."""
        try:
            if self._channel is not None:
                try:
                    self._channel.begin()
                    return self._read(self._channel, wanted)
                except ConnectionLost:
                    pass  # closed while idle: a server that was restarted costs no sample
            return self._opened_and_read(wanted)
        except NotReady as error:
            at_ns = self._now_ns()
            return {item: failed_sample(at_ns, str(error)) for item in wanted}

    def close(self) -> None:
        """Close the connection; a later sample would open it again."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _opened_and_read(self, wanted: Sequence[GroupTopic]) -> dict[GroupTopic, GroupSample]:
        """Try again; after failures only some seconds later, with the same words until then."""
        if time.monotonic() < self._next_try:
            raise NotReady(self._reason)
        try:
            self._channel = IggyChannel(self.server, self._timeout_seconds)
            samples = self._read(self._channel, wanted)
        except NotReady as error:
            pause_seconds = min(_FIRST_PAUSE_SECONDS * 2**self._failures, _LONGEST_PAUSE_SECONDS)
            self._failures = min(self._failures + 1, 16)
            self._next_try, self._reason = time.monotonic() + pause_seconds, str(error)
            raise
        self._failures = 0
        return samples

    def _read(
        self, channel: IggyChannel, wanted: Sequence[GroupTopic]
    ) -> dict[GroupTopic, GroupSample]:
        """Read all groups: one round trip if the known partitions are still the right ones."""
        samples: dict[GroupTopic, GroupSample] = {}
        pending: dict[str, list[GroupTopic]] = {}
        for item in wanted:
            problem = _problem(item)
            if problem:
                samples[item] = failed_sample(self._now_ns(), problem)
            else:
                pending.setdefault(item.topic, []).append(item)
        try:
            for _ in range(_ROUNDS):
                samples |= self._round(channel, pending)
        except BaseException:
            self.close()  # replies may still be under way: this connection is out of step
            raise
        for topic, items in pending.items():
            error = f"the partitions of {topic} changed while they were read"
            samples.update({item: failed_sample(self._now_ns(), error) for item in items})
        return samples

    def _round(
        self, channel: IggyChannel, pending: dict[str, list[GroupTopic]]
    ) -> dict[GroupTopic, GroupSample]:
        """Request all that is pending; take out and return what was answered."""
        asked = {topic: self._partitions.get(topic, ()) for topic in pending}
        requests = [
            request
            for topic, items in pending.items()
            for request in _requests(topic, items, asked[topic])
        ]
        replies = iter(channel.ask(requests))
        at_ns = self._now_ns()
        samples: dict[GroupTopic, GroupSample] = {}
        for topic, items in list(pending.items()):
            numbers = asked[topic]
            found = [(item, next(replies), [next(replies) for _ in numbers]) for item in items]
            problem = ""
            states: tuple[wire.PartitionState, ...] = ()
            try:
                states = channel.layout.parse_topic(next(replies).ok_body())
            except wire.IggyRefused as refused:
                problem = _said(refused)
            else:
                self._partitions[topic] = tuple(state.number for state in states)
                if not states:
                    problem = (
                        f"there is no stream and topic {topic!r}. Check streamId and topicId; all "
                        "digits are taken as a numeric id"
                    )
                elif self._partitions[topic] != numbers:
                    continue  # ask again, for the partitions that it has
            del pending[topic]
            for item, group, offsets in found:
                try:
                    samples[item] = (
                        failed_sample(at_ns, problem)
                        if problem
                        else _sample(at_ns, item, group, states, offsets)
                    )
                except wire.IggyRefused as refused:
                    samples[item] = failed_sample(at_ns, _said(refused))
        return samples


def next_offset(state: wire.PartitionState, stored: int | None) -> int:
    """Return the offset that the partition's next message will get.

    Messages that expired keep their offsets taken. Offset 0 in an empty partition: never written
    (or emptied by a purge, which forgets the groups' offsets too), unless a group has processed
    message 0, which then is the one that expired.
    """
    if state.messages_count or state.current_offset:
        return state.current_offset + 1
    return 1 if stored == 0 else 0


def _problem(item: GroupTopic) -> str:
    """Return why a group cannot be asked for; empty: it can."""
    stream, _, topic = item.topic.partition("/")
    for what, name in (("stream", stream), ("topic", topic), ("consumer group", item.group)):
        if not wire.is_identifier(name):
            return (
                f"{name!r} cannot be an Iggy {what}; allowed: 1 to 255 bytes, or a number below "
                "2^32 (the topic is written stream/topic)"
            )
    return ""


def _requests(
    topic: str, items: Sequence[GroupTopic], numbers: Sequence[int]
) -> list[tuple[int, bytes]]:
    """Return a topic's requests. Its state comes last: an end is never older than a commit."""
    stream, _, name = topic.partition("/")
    requests = []
    for item in items:
        requests.append((wire.GET_CONSUMER_GROUP, wire.idents(stream, name, item.group)))
        for number in numbers:
            query = wire.offset_query(item.group, stream, name, number)
            requests.append((wire.GET_CONSUMER_OFFSET, query))
    return [*requests, (wire.GET_TOPIC, wire.idents(stream, name))]


def _sample(
    at_ns: int,
    item: GroupTopic,
    group: wire.Reply,
    states: Sequence[wire.PartitionState],
    offsets: Sequence[wire.Reply],
) -> GroupSample:
    if not group.ok_body():
        return failed_sample(
            at_ns,
            f"there is no consumer group {item.group!r} on {item.topic}. Create it, or start "
            "a consumer once; all digits are taken as a numeric id",
        )
    stored = [
        wire.parse_stored_offset(reply.ok_body(), state.number)
        for state, reply in zip(states, offsets, strict=True)
    ]
    end = np.array([next_offset(*pair) for pair in zip(states, stored, strict=True)], np.int64)
    committed = [NO_OFFSET if offset is None else offset + 1 for offset in stored]
    kept = np.array([state.messages_count for state in states], np.int64)
    return GroupSample(
        at_ns=at_ns,
        partitions=np.array([state.number for state in states], dtype=np.int32),
        end=end,
        committed=np.array(committed, dtype=np.int64),
        earliest=np.maximum(end - kept, 0),
    )


def _said(refused: wire.IggyRefused) -> str:
    """Return the text for one sample; a lost login is the connection's error, so raise that."""
    if refused.status == wire.UNAUTHENTICATED:
        raise refused
    return str(refused)
