"""Extract the facts about a run's producer, pods and rebalances from its telemetry.

Stamps of pods are on the recorder's clock, as far as the pods' clocks are known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from lagbench.core.clocks import ClockSet, clock_set, on_recorders_clock
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.ownership.causes import CauseFinder, Commit, Instant
from lagbench.core.ownership.holdings import Holdings, Move, holdings
from lagbench.core.telemetry.records import TelemetryRecord, decode_record
from lagbench.core.telemetry.records_of_programs import (
    OffsetsCommitted,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStopped,
    Record,
    SigtermReceived,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import ClockOffset, PodSeen

_FACTS = (
    StreamStarted,
    StreamFinished,
    PartitionsAssigned,
    PartitionsRevoked,
    SigtermReceived,
    PodStopped,
    PodSeen,
    OffsetsCommitted,
    ClockOffset,
)
FACT_KINDS = tuple(str(record.__struct_config__.tag) for record in _FACTS)
# 128 + SIGKILL as a container runtime reports it; -9 as Python's subprocess does.
_KILLED_EXIT_CODES = frozenset({137, -9})
# rates and lengths are real numbers: the place of its last message is rounded.
_SLACK_MESSAGES, _SLACK_NS = 2, NS_PER_SECOND
Ranges = Sequence[tuple[int, int]]
Of = TypeVar("Of", bound=Record)


class StreamPlan(NamedTuple):
    """The limits of the stream: the seqs below ``seqs``, planned offsets up to ``offset_ns``.

    ``sample_ns`` is its planned window, without the tail. None: not reported.
    """

    seqs: int | None
    offset_ns: int | None
    sample_ns: int | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The producer's totals (None: it never finished) and the assignments of the pods.

    ``failed_seqs`` and ``unknown_seqs`` are ranges [first, last]; None: the seqs are not reported.
    """

    planned: int | None
    acked: int | None
    failed: int | None
    unknown: int | None
    failed_seqs: Ranges | None
    unknown_seqs: Ranges | None
    plan: StreamPlan
    first_partitions: int | None  # of the events topic at the stream's start; None: not reported
    producer: str | None
    clocks: ClockSet
    holdings: Holdings
    kills: Mapping[str, Sequence[int]]  # by pod, in order of time
    causes: CauseFinder
    strangers: int  # texts that are no record, or a record that cannot be

    @property
    def produced(self) -> int | None:
        """Return how many seqs the producer handed over; None: it never reported."""
        if self.acked is None:
            return None
        return self.acked + (self.failed or 0) + (self.unknown or 0)


def facts_of(
    texts: Iterable[str], *, fidelity: str | None = None, are_silent: bool = False
) -> RunFacts:
    """Return the facts in telemetry records (JSON) of the kinds in ``FACT_KINDS``.

    :param fidelity: where the run was; None: a run that is older than its record, on one machine.
    :param are_silent: the pods report nothing: their SIGTERM is when they were deleted.
    """
    decoded = [_record(text) for text in texts]
    known = sorted((r for r in decoded if r is not None), key=lambda record: record.at)
    clocks = clock_set(known, fidelity)
    records = on_recorders_clock(known, clocks)
    started = next(iter(_of(records, StreamStarted)[-1:]), None)
    finished = next(iter(_of(records, StreamFinished)[-1:]), None)
    fates, kills = _fates(records, are_silent=are_silent)
    planned = None if started is None else started.planned_total
    return RunFacts(
        planned=planned if finished is None else finished.planned,
        acked=None if finished is None else finished.acked,
        failed=None if finished is None else finished.failed,
        unknown=None if finished is None else finished.unknown,
        failed_seqs=_ranges(finished, "failed"),
        unknown_seqs=_ranges(finished, "unknown"),
        plan=_plan(started, finished),
        first_partitions=None if started is None else started.partitions,
        producer=None if started is None else started.source,
        clocks=clocks,
        holdings=holdings(_moves(records), _ends(records, kills)),
        kills=kills,
        causes=CauseFinder(
            rebalances=_rebalances(records),
            fates=fates,
            commits=_commits(_of(records, OffsetsCommitted)),
        ),
        strangers=decoded.count(None),
    )


def _record(text: str) -> TelemetryRecord | None:
    """Return the record in a text; None: it is none, or has a value that cannot be."""
    try:
        record = decode_record(text)
        if isinstance(record, OffsetsCommitted):
            [int(partition) for partition in record.offsets]
        elif isinstance(record, StreamStarted):
            _plan(record, None)  # a length beyond all numbers
    except (msgspec.DecodeError, ValueError, OverflowError):
        return None
    return record


def _of(records: Iterable[TelemetryRecord], kind: type[Of]) -> list[Of]:
    return [record for record in records if isinstance(record, kind)]


def _plan(started: StreamStarted | None, finished: StreamFinished | None) -> StreamPlan:
    handed_over = None
    if finished is not None:
        settled = finished.acked + finished.failed + finished.unknown
        handed_over = max(settled, finished.sent)
    if started is None:
        return StreamPlan(handed_over, None, None)
    planned_ns = round(started.planned_seconds * NS_PER_SECOND)
    tail = round(started.tail_rate_per_second * started.tail_most_seconds)
    most = started.planned_total + tail + _SLACK_MESSAGES
    tail_ns = round(started.tail_most_seconds * NS_PER_SECOND)
    return StreamPlan(
        seqs=most if handed_over is None else handed_over,
        offset_ns=planned_ns + tail_ns + _SLACK_NS,
        sample_ns=planned_ns,
    )


def _ranges(finished: StreamFinished | None, outcome: str) -> Ranges | None:
    """Return the seqs with this outcome; empty if the count is 0."""
    if finished is None:
        return None
    reported: Ranges | None = getattr(finished, f"{outcome}_seqs")
    if reported is not None:
        return reported
    return [] if getattr(finished, outcome) == 0 else None


def _moves(records: Sequence[TelemetryRecord]) -> list[Move]:
    assigned, revoked = _of(records, PartitionsAssigned), _of(records, PartitionsRevoked)
    every: list[PartitionsAssigned | PartitionsRevoked] = [*assigned, *revoked]
    return [
        Move(
            at=record.at,
            pod=record.source,
            is_assignment=isinstance(record, PartitionsAssigned),
            partitions=tuple(record.partitions),
            owned=frozenset(record.owned),
            is_incremental=isinstance(record, PartitionsAssigned) and record.is_incremental,
            number=record.rebalance,
        )
        for record in every
    ]


def _ends(records: Sequence[TelemetryRecord], kills: Mapping[str, Sequence[int]]) -> dict[str, int]:
    stopped = {record.source: record.at for record in _of(records, PodStopped)}
    return stopped | {pod: instants[-1] for pod, instants in kills.items()}


def _rebalances(records: Sequence[TelemetryRecord]) -> dict[int, list[Instant]]:
    moves: dict[int, list[Instant]] = defaultdict(list)
    for record in records:
        if isinstance(record, PartitionsAssigned | PartitionsRevoked):
            for partition in record.partitions:
                moves[partition].append(Instant(record.at, "rebalance", record.source))
    return {partition: sorted(instants) for partition, instants in moves.items()}


def _fates(
    records: Sequence[TelemetryRecord], *, are_silent: bool
) -> tuple[dict[str, list[Instant]], dict[str, list[int]]]:
    """Return each pod's SIGTERM and each time it was killed; and the kills alone."""
    fates: dict[str, list[Instant]] = defaultdict(list)
    for record in _of(records, SigtermReceived):
        fates[record.source].append(Instant(record.at, "sigterm", record.source))
    seen = _of(records, PodSeen)
    for pod, at in (_asked_to_end(seen) if are_silent else {}).items():
        fates[pod].append(Instant(at, "sigterm", pod))
    ended_itself = {record.source for record in _of(records, PodStopped)} | set(fates)
    kills = _kills(seen, ended_itself)
    for pod, instants in kills.items():
        fates[pod] += [Instant(at, "killed", pod) for at in instants]
    return {pod: sorted(instants) for pod, instants in fates.items()}, kills


def _kills(seen: Iterable[PodSeen], ended_itself: Collection[str]) -> dict[str, list[int]]:
    """Return when each pod was killed: a container that is started again may be killed again.

    Older records do not say how many containers have ended: one kill of each pod object counts.
    """
    kills: dict[str, list[int]] = defaultdict(list)
    ended_of: dict[tuple[str, Any], int] = {}
    were_killed: set[tuple[str, Any]] = set()
    for record in seen:
        life = record.pod, record.created_at
        before, ended = ended_of.get(life, 0), record.containers_ended or 0
        ended_of[life] = max(before, ended)
        is_gone = record.exit_code is not None or record.gone_at is not None
        is_gone = is_gone or record.phase == "Failed"  # absent from older runs
        was_killed = record.exit_code in _KILLED_EXIT_CODES or record.exit_reason == "OOMKilled"
        is_new = ended > before or life not in were_killed
        if is_new and (was_killed or (is_gone and record.pod not in ended_itself)):
            were_killed.add(life)
            kills[record.pod].append(record.gone_at or record.at)
    return {pod: sorted(instants) for pod, instants in kills.items()}


def _asked_to_end(seen: Iterable[PodSeen]) -> dict[str, int]:
    """Return when each pod was deleted, which sends it a SIGTERM."""
    asked: dict[str, int] = {}
    for record in seen:
        if record.deleted_at is not None:
            asked.setdefault(record.pod, record.deleted_at)
    return asked


def _commits(records: Iterable[OffsetsCommitted]) -> dict[int, list[Commit]]:
    """Return the commits that moved a partition forward.

    Instants are those of the client's callbacks, which may overtake each other. A commit that moved
    the group back is therefore not visible here, but in the offsets that the recorder read.
    """
    forward: dict[int, list[Commit]] = defaultdict(list)
    for record in records:
        for partition, offset in record.offsets.items():
            known = forward[int(partition)]
            if not known or offset > known[-1].offset:
                known.append(Commit(offset, record.at, record.source))
    return dict(forward)
