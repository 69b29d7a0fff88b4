"""Define a live line: one second of a run while it is in progress, as ``live.jsonl`` has it.

The first line of a file has ``run``: the facts about the cell that a reader needs. The others have
the newest figures, and what has happened since the line before. A reader adds them up from the
first line on. A figure that was not renewed in time is None, never 0.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SloState = Literal["holds", "broken", "open", "at_end"]
"""``open``: its occasion has not come or is in progress. ``at_end``: the accounting decides it."""
SloStanding = tuple[float | None, SloState]
"""The value of an SLO so far, and how it stands. It is not a verdict."""


class LiveSlo(msgspec.Struct, kw_only=True, frozen=True):
    """An SLO of the run with a limit."""

    name: str  # the field of ``scenario.slos``
    title: str
    limit: str  # in words, with its unit
    unit: str
    number: float | None = None  # the limit; None: a claim, which has none


class LiveSpike(msgspec.Struct, kw_only=True, frozen=True):
    """A planned spike, in seconds of the stream."""

    start_seconds: float
    end_seconds: float


class LiveCourse(msgspec.Struct, kw_only=True, frozen=True):
    """The predicted lag and replicas, at even steps from the stream's start."""

    every_seconds: float
    lag: list[int]
    replicas: list[int]


class LiveCell(msgspec.Struct, kw_only=True, frozen=True):
    """Facts about the run's cell that a reader needs."""

    run_id: str
    scenario: str
    policy: str
    partitions: int
    planned_seconds: float  # length of the planned window
    settled_seconds: float | None  # last change of replicas, as predicted; None: not predicted
    floor_replicas: int
    ceiling_replicas: int
    spikes: list[LiveSpike]
    slos: list[LiveSlo]
    group: Literal["first", "second"] | None = None  # of two; None: the run has one
    pod_rate_per_second: float | None = None  # of one pod; None: not known
    predicted: LiveCourse | None = None  # None: not predicted


class LivePhase(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A phase of the run began, came further, ended or failed."""

    at: int
    name: str
    state: Literal["started", "progress", "finished", "failed"]
    detail: str = ""  # how far it is, or why it failed


class LiveAction(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """An action began or ended; ``error`` is why it was not played as planned."""

    at: int
    number: int
    action: str
    state: Literal["started", "ended"]
    targets: list[str] = []
    error: str = ""


class LiveLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line of ``live.jsonl``; ``at`` is in unix nanoseconds of the follower's clock."""

    at: int
    run: LiveCell | None = None  # in the first line only
    second: float | None = None  # of the stream; None: it has not started
    state: str | None = None  # what the run does, in words
    lag: int | None = None  # of all partitions, in messages
    lag_by_partition: list[int | None] | None = None  # by number of the partition
    time_lag_seconds: float | None = None  # age of the oldest message that is not committed
    replicas: tuple[int, int] | None = None  # desired (spec), ready
    planned_per_second: float | None = None
    produced_per_second: float | None = None  # taken by Kafka
    processed_per_second: float | None = None
    assigned: dict[str, list[int] | None] | None = None  # that changed: [] is idle, None has left
    phases: list[LivePhase] = []
    actions: list[LiveAction] = []
    standing: dict[str, SloStanding] = {}  # by name of the SLO: those that have changed
    verdict: str | None = None  # pass, fail or undetermined, once the run has one
    is_last: bool = False


LINES_EACH_SECOND = 7_200
"""Two hours. A line of a group with 24 partitions has about 400 bytes."""
LATER_SECONDS = 10
MOST_BYTES = 64 * 1024 * 1024


def seconds_to_next_line(lines: int) -> int:
    """Return the time from line number ``lines`` to the next: the file of a long run is bounded."""
    return 1 if lines < LINES_EACH_SECOND else LATER_SECONDS


def has_room(size_bytes: int, line: bytes) -> bool:
    """Return whether another line fits into a file of ``size_bytes``."""
    return size_bytes + len(line) <= MOST_BYTES


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LiveLine)


def encode_line(line: LiveLine) -> bytes:
    """Return the line as JSON, with its line end."""
    return _encoder.encode(line) + b"\n"


def decode_line(data: bytes) -> LiveLine:
    """Return the line in ``data``.

    :raises msgspec.DecodeError: it is not a live line.
    """
    return _decoder.decode(data)
