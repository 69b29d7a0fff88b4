"""Define what the accounting lists beside its counts, as Spark wrote it."""

from __future__ import annotations

from lagbench.core.measures.model import MeasureModel


class StrangeRecord(MeasureModel):
    """A record in one of the run's topics that does not belong to the run."""

    topic: str  # events, processed or telemetry
    partition: int | None
    offset: int | None
    detail: str


class UnknownOwnership(MeasureModel):
    """A period with unknown ownership: a record of the pod's rebalances is missing."""

    pod: str
    from_at: int | None  # None: from its start
    until_at: int
    partitions: tuple[int, ...]


class UnledgeredWork(MeasureModel):
    """Upper bound of messages that a killed pod processed without a row in the ledger.

    ``messages`` None: no rate of work is known.
    """

    pod: str
    killed_at: int
    seconds: float
    messages: int | None


class MovedKeys(MeasureModel):
    """Keys whose partition changed when the topic grew, and the order of their messages.

    A message is overtaken if a later one of its key was begun before it in another partition.
    """

    keys: int
    messages: int  # of these keys, in the log
    overtaken_keys: int  # with at least one message overtaken
    overtaken: int
    overtaken_in_doubt: int  # too close for two clocks to decide
    most_seconds: float | None = None  # by which a message was overtaken; None: none was
