"""Extract the facts about a run's producer, pods and rebalances from its telemetry.

These records are few (thousands), so they are read once into the driver; messages never are. A
record that lacks fields of its kind is a stranger: counted and left out. Stamps of pods are on the
recorder's clock, as far as the pods' clocks are known.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lagbench_spark.causes import CauseFinder, Commit, Instant
from lagbench_spark.holdings import Holdings, Move, holdings
from lagbench_spark.pod_clocks import ONE_CLOCK, PodClocks, pod_clocks

_NUMBER = (int, float)
_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "stream_started": {"stream_started_at": int, "planned_total": int, "planned_seconds": _NUMBER},
    "stream_finished": {"planned": int, "acked": int, "failed": int, "unknown": int},
    "partitions_assigned": {"partitions": list, "owned": list, "rebalance": int},
    "partitions_revoked": {"partitions": list, "owned": list, "rebalance": int},
    "sigterm_received": {},
    "pod_stopped": {},
    "pod_seen": {"pod": str},
    "offsets_committed": {"offsets": dict},
    "clock_offset": {"clock": str, "pods": list, "low_ns": int, "high_ns": int, "since_at": int},
}
FACT_KINDS = tuple(_FIELDS)
# 128 + SIGKILL as a container runtime reports it; -9 as Python's subprocess does.
_KILLED_EXIT_CODES = frozenset({137, -9})
_NANOSECONDS = 1_000_000_000
# rates and lengths are real numbers: the place of its last message is rounded.
_SLACK_MESSAGES, _SLACK_NS = 2, _NANOSECONDS

Ranges = Sequence[tuple[int, int]]
Records = Mapping[str, list[dict[str, Any]]]


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
    clocks: PodClocks
    holdings: Holdings
    kills: Mapping[str, Sequence[int]]  # by pod, in order of time
    causes: CauseFinder
    strangers: int  # records of a known kind that lack fields of the kind

    @property
    def produced(self) -> int | None:
        """Return how many seqs the producer handed over; None: it never reported."""
        if self.acked is None:
            return None
        return self.acked + (self.failed or 0) + (self.unknown or 0)


def facts_of(
    records: Iterable[str], *, fidelity: str | None = None, are_silent: bool = False
) -> RunFacts:
    """Return the facts in telemetry records (JSON) of the kinds in ``FACT_KINDS``.

    :param are_silent: the pods report nothing: their SIGTERM is when they were deleted.
    """
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    strangers = 0
    for text in records:
        record = _record(text)
        if record is None:
            strangers += 1
        else:
            by_kind[record["kind"]].append(record)
    asked, seen = by_kind["clock_offset"], by_kind["pod_seen"]
    clocks = pod_clocks(asked, fidelity, seen) if fidelity else ONE_CLOCK
    for group in by_kind.values():
        for record in group:
            record["at"] = clocks.on_recorders(record["at"], record["source"])
        group.sort(key=lambda record: record["at"])
    started = by_kind["stream_started"][-1] if by_kind["stream_started"] else {}
    finished = by_kind["stream_finished"][-1] if by_kind["stream_finished"] else {}
    fates, kills = _fates(by_kind, are_silent=are_silent)
    return RunFacts(
        planned=finished.get("planned", started.get("planned_total")),
        acked=finished.get("acked"),
        failed=finished.get("failed"),
        unknown=finished.get("unknown"),
        failed_seqs=_ranges(finished, "failed"),
        unknown_seqs=_ranges(finished, "unknown"),
        plan=_plan(started, finished),
        first_partitions=_count(started.get("partitions")),
        producer=started.get("source"),
        clocks=clocks,
        holdings=holdings(_moves(by_kind), _ends(by_kind, kills)),
        kills=kills,
        causes=CauseFinder(
            rebalances=_rebalances(by_kind),
            fates=fates,
            commits=_commits(by_kind["offsets_committed"]),
        ),
        strangers=strangers,
    )


def _record(text: str) -> dict[str, Any] | None:
    """Return a record with the fields of its kind; None: it is not one."""
    try:
        record = json.loads(text)
        fields = _FIELDS[record["kind"]]
        if not isinstance(record["at"], int) or not isinstance(record["source"], str):
            return None
        if not all(isinstance(record[name], kind) for name, kind in fields.items()):
            return None
        for name in ("partitions", "owned"):
            if fields.get(name) is list:
                record[name] = [int(partition) for partition in record[name]]
        offsets = record.get("offsets") or {}
        record["offsets"] = {int(key): int(offset) for key, offset in offsets.items()}
        for name in ("failed_seqs", "unknown_seqs"):
            if record.get(name) is not None:
                record[name] = [(int(first), int(last)) for first, last in record[name]]
        gone_at = record.get("gone_at")
        record["gone_at"] = None if gone_at is None else int(gone_at)
        if "pods" in fields:
            record["pods"] = [str(pod) for pod in record["pods"]]
        for name in ("planned_seconds", "tail_most_seconds", "tail_rate_per_second"):
            round(float(record.get(name) or 0.0) * _NANOSECONDS)  # rejects what is no length
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    found: dict[str, Any] = record
    return found


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _plan(started: Mapping[str, Any], finished: Mapping[str, Any]) -> StreamPlan:
    if not started:
        return StreamPlan(_handed_over(finished), None, None)
    planned_ns = round(started["planned_seconds"] * _NANOSECONDS)
    tail_seconds = float(started.get("tail_most_seconds") or 0.0)
    tail = round(float(started.get("tail_rate_per_second") or 0.0) * tail_seconds)
    most = started["planned_total"] + tail + _SLACK_MESSAGES
    handed_over = _handed_over(finished)
    return StreamPlan(
        seqs=most if handed_over is None else handed_over,
        offset_ns=planned_ns + round(tail_seconds * _NANOSECONDS) + _SLACK_NS,
        sample_ns=planned_ns,
    )


def _handed_over(finished: Mapping[str, Any]) -> int | None:
    if not finished:
        return None
    settled: int = finished["acked"] + finished["failed"] + finished["unknown"]
    return max(settled, int(finished.get("sent") or 0))


def _ranges(finished: Mapping[str, Any], outcome: str) -> Ranges | None:
    """Return the seqs with this outcome; empty if the count is 0."""
    reported = finished.get(f"{outcome}_seqs")
    if reported is not None:
        ranges: Ranges = reported
        return ranges
    return [] if finished.get(outcome) == 0 else None


def _moves(by_kind: Records) -> list[Move]:
    return [
        Move(
            at=record["at"],
            pod=record["source"],
            is_assignment=kind == "partitions_assigned",
            partitions=tuple(record["partitions"]),
            owned=frozenset(record["owned"]),
            is_incremental=bool(record.get("is_incremental")),
            number=record["rebalance"],
        )
        for kind in ("partitions_assigned", "partitions_revoked")
        for record in by_kind[kind]
    ]


def _ends(by_kind: Records, kills: Mapping[str, Sequence[int]]) -> dict[str, int]:
    stopped = {record["source"]: record["at"] for record in by_kind["pod_stopped"]}
    return stopped | {pod: instants[-1] for pod, instants in kills.items()}


def _rebalances(by_kind: Records) -> dict[int, list[Instant]]:
    moves: dict[int, list[Instant]] = defaultdict(list)
    for kind in ("partitions_assigned", "partitions_revoked"):
        for record in by_kind[kind]:
            for partition in record["partitions"]:
                moves[partition].append(Instant(record["at"], "rebalance", record["source"]))
    return {partition: sorted(instants) for partition, instants in moves.items()}


def _fates(
    by_kind: Records, *, are_silent: bool
) -> tuple[dict[str, list[Instant]], dict[str, list[int]]]:
    """Return each pod's SIGTERM and each time it was killed; and the kills alone."""
    fates: dict[str, list[Instant]] = defaultdict(list)
    for record in by_kind["sigterm_received"]:
        fates[record["source"]].append(Instant(record["at"], "sigterm", record["source"]))
    for pod, at in (_asked_to_end(by_kind) if are_silent else {}).items():
        fates[pod].append(Instant(at, "sigterm", pod))
    ended_itself = {record["source"] for record in by_kind["pod_stopped"]} | set(fates)
    kills = _kills(by_kind["pod_seen"], ended_itself)
    for pod, instants in kills.items():
        fates[pod] += [Instant(at, "killed", pod) for at in instants]
    return {pod: sorted(instants) for pod, instants in fates.items()}, kills


def _kills(
    seen: Iterable[Mapping[str, Any]], ended_itself: Collection[str]
) -> dict[str, list[int]]:
    """Return when each pod was killed: a container that is started again may be killed again.

    Older records do not say how many containers have ended: one kill of each pod object counts.
    """
    kills: dict[str, list[int]] = defaultdict(list)
    ended_of: dict[tuple[str, Any], int] = {}
    were_killed: set[tuple[str, Any]] = set()
    for record in seen:
        pod, code, gone_at = record["pod"], record.get("exit_code"), record.get("gone_at")
        life = pod, record.get("created_at")
        before, ended = ended_of.get(life, 0), _count(record.get("containers_ended")) or 0
        ended_of[life] = max(before, ended)
        is_gone = code is not None or gone_at is not None
        is_gone = is_gone or record.get("phase") == "Failed"  # absent from older runs
        was_killed = code in _KILLED_EXIT_CODES or record.get("exit_reason") == "OOMKilled"
        is_new = ended > before or life not in were_killed
        if is_new and (was_killed or (is_gone and pod not in ended_itself)):
            were_killed.add(life)
            kills[pod].append(gone_at or record["at"])
    return {pod: sorted(instants) for pod, instants in kills.items()}


def _asked_to_end(by_kind: Records) -> dict[str, int]:
    """Return when each pod was deleted, which sends it a SIGTERM."""
    asked: dict[str, int] = {}
    for record in by_kind["pod_seen"]:
        deleted_at = record.get("deleted_at")
        if isinstance(deleted_at, int):
            asked.setdefault(record["pod"], deleted_at)
    return asked


def _commits(records: Iterable[dict[str, Any]]) -> dict[int, list[Commit]]:
    """Return the commits that moved a partition forward.

    Instants are those of the client's callbacks, which may overtake each other. A commit that moved
    the group back is therefore not visible here, but in the offsets that the recorder read.
    """
    forward: dict[int, list[Commit]] = defaultdict(list)
    for record in records:
        for partition, offset in record["offsets"].items():
            known = forward[partition]
            if not known or offset > known[-1].offset:
                known.append(Commit(offset, record["at"], record["source"]))
    return dict(forward)
