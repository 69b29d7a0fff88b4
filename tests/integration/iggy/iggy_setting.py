"""What the tests with an Iggy server share: servers in both layouts, and how to ask them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tests.fakes.iggy_answers import FakePartition, FakeTopic, IggyState

from lag_scaler.addresses import IggyServer
from lag_scaler.iggy_source import IggySource
from lag_scaler.offsets import GroupSample, GroupTopic

ORDERS = GroupTopic("enrich", "shop/orders")


class SkippedClock:
    """The monotonic clock, set forward by hand: a back-off passes without waiting."""

    def __init__(self, *, is_standing: bool = False) -> None:
        """Begin at the real time; one that stands goes forward by hand only."""
        self.skipped_seconds = 0.0
        self._stands_at = time.monotonic() if is_standing else None

    def __call__(self) -> float:
        """Return the time in seconds."""
        now = time.monotonic() if self._stands_at is None else self._stands_at
        return now + self.skipped_seconds


def state_of(version: str, partitions: Sequence[FakePartition], **stored: int) -> IggyState:
    """Return shop/orders with group enrich; ``p0=6``: partition 0 has stored offset 6."""
    offsets = {int(name.removeprefix("p")): offset for name, offset in stored.items()}
    topic = FakeTopic(partitions=list(partitions), groups={"enrich": offsets})
    return IggyState(version=version, topics={("shop", "orders"): topic})


def source_of(address: str, *, timeout_seconds: float = 60.0, **changes: Any) -> IggySource:
    """Return a source that logs in as iggy, unless told otherwise."""
    clock = changes.pop("clock", time.monotonic)
    login = {"username": "iggy", "password": "iggy"}
    if "access_token" in changes:
        login = {}
    server = IggyServer(server_address=address, **{**login, **changes})
    return IggySource(server, timeout_seconds=timeout_seconds, clock=clock)


def sampled(source: IggySource, wanted: GroupTopic = ORDERS) -> GroupSample:
    """Return one group's sample."""
    return source.sample([wanted])[wanted]


def offsets_of(sample: GroupSample) -> list[tuple[int, int, int, int]]:
    """Return (partition, end, committed, earliest) of a sample without an error."""
    if sample.error or sample.earliest is None:
        raise AssertionError(sample.error or "no earliest offsets")
    columns = (sample.partitions, sample.end, sample.committed, sample.earliest)
    return list(zip(*(column.tolist() for column in columns), strict=True))
