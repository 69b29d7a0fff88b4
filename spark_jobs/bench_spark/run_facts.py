"""What the telemetry of a run says about its producer, its pods and its rebalances.

These records are few (thousands), so they are read once into the driver; messages never are.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bench_spark.causes import CauseFinder, Commit, Instant

FACT_KINDS = (
    "stream_started",
    "stream_finished",
    "partitions_assigned",
    "partitions_revoked",
    "sigterm_received",
    "pod_stopped",
    "pod_seen",
    "offsets_committed",
)
# 128 + SIGKILL as a container runtime tells it; -9 as Python's subprocess does.
_KILLED_EXIT_CODES = frozenset({137, -9})


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The producer's totals (None: it never finished) and who was given what when."""

    planned: int | None
    acked: int | None
    failed: int | None
    unknown: int | None
    assignments: list[tuple[int, str, int]]  # partition, pod, at
    commits_moved_back: int
    causes: CauseFinder


def facts_of(records: Iterable[str]) -> RunFacts:
    """Return the facts in telemetry records (JSON) of the kinds in ``FACT_KINDS``."""
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for text in records:
        record = json.loads(text)
        by_kind[record["kind"]].append(record)
    for group in by_kind.values():
        group.sort(key=lambda record: record["at"])
    started = by_kind["stream_started"][-1] if by_kind["stream_started"] else {}
    finished = by_kind["stream_finished"][-1] if by_kind["stream_finished"] else {}
    commits, moved_back = _commits(by_kind["offsets_committed"])
    return RunFacts(
        planned=finished.get("planned", started.get("planned_total")),
        acked=finished.get("acked"),
        failed=finished.get("failed"),
        unknown=finished.get("unknown"),
        assignments=[
            (partition, record["source"], record["at"])
            for record in by_kind["partitions_assigned"]
            for partition in record["partitions"]
        ],
        commits_moved_back=moved_back,
        causes=CauseFinder(rebalances=_rebalances(by_kind), fates=_fates(by_kind), commits=commits),
    )


def _rebalances(by_kind: Mapping[str, list[dict[str, Any]]]) -> dict[int, list[Instant]]:
    moves: dict[int, list[Instant]] = defaultdict(list)
    for kind in ("partitions_assigned", "partitions_revoked"):
        for record in by_kind[kind]:
            for partition in record["partitions"]:
                moves[partition].append(Instant(record["at"], "rebalance", record["source"]))
    return {partition: sorted(instants) for partition, instants in moves.items()}


def _fates(by_kind: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[Instant]]:
    """Return each pod's SIGTERM and its death, when it was killed."""
    fates: dict[str, list[Instant]] = defaultdict(list)
    for record in by_kind["sigterm_received"]:
        fates[record["source"]].append(Instant(record["at"], "sigterm", record["source"]))
    ended_itself = {record["source"] for record in by_kind["pod_stopped"]} | set(fates)
    killed_at: dict[str, int] = {}
    for record in by_kind["pod_seen"]:
        pod, code = record["pod"], record["exit_code"]
        is_gone = code is not None or record["gone_at"] is not None
        is_gone = is_gone or record.get("phase") == "Failed"  # absent from older runs
        was_killed = code in _KILLED_EXIT_CODES or record["exit_reason"] == "OOMKilled"
        if was_killed or (is_gone and pod not in ended_itself):
            killed_at.setdefault(pod, record["gone_at"] or record["at"])
    for pod, at in killed_at.items():
        fates[pod].append(Instant(at, "killed", pod))
    return {pod: sorted(instants) for pod, instants in fates.items()}


def _commits(records: Iterable[dict[str, Any]]) -> tuple[dict[int, list[Commit]], int]:
    """Return the commits that moved a partition on, and how many moved one back."""
    forward: dict[int, list[Commit]] = defaultdict(list)
    moved_back = 0
    for record in records:
        for key, offset in record["offsets"].items():
            known = forward[int(key)]
            if not known or offset > known[-1].offset:
                known.append(Commit(offset, record["at"], record["source"]))
            elif offset < known[-1].offset:
                moved_back += 1
    return dict(forward), moved_back
