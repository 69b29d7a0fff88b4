"""What the tests with an Iggy server share: servers in both layouts, and how to ask them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fakes.iggy_answers import FakePartition, FakeTopic, IggyState

from lag_scaler.addresses import IggyServer
from lag_scaler.iggy_source import IggySource
from lag_scaler.offsets import GroupSample, GroupTopic

ORDERS = GroupTopic("enrich", "shop/orders")


def state_of(version: str, partitions: Sequence[FakePartition], **stored: int) -> IggyState:
    """Return shop/orders with group enrich; ``p0=6``: partition 0 has stored offset 6."""
    offsets = {int(name.removeprefix("p")): offset for name, offset in stored.items()}
    topic = FakeTopic(partitions=list(partitions), groups={"enrich": offsets})
    return IggyState(version=version, topics={("shop", "orders"): topic})


def source_of(address: str, *, timeout_seconds: float = 60.0, **changes: Any) -> IggySource:
    """Return a source that logs in as iggy, unless told otherwise."""
    login = {"username": "iggy", "password": "iggy"}
    if "access_token" in changes:
        login = {}
    server = IggyServer(server_address=address, **{**login, **changes})
    return IggySource(server, timeout_seconds=timeout_seconds)


def sampled(source: IggySource, wanted: GroupTopic = ORDERS) -> GroupSample:
    """Return one group's sample."""
    return source.sample([wanted])[wanted]


def offsets_of(sample: GroupSample) -> list[tuple[int, int, int, int]]:
    """Return (partition, end, committed, earliest) of a sample without an error."""
    if sample.error or sample.earliest is None:
        raise AssertionError(sample.error or "no earliest offsets")
    columns = (sample.partitions, sample.end, sample.committed, sample.earliest)
    return list(zip(*(column.tolist() for column in columns), strict=True))
