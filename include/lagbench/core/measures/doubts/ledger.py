"""Check that the ledger is whole: one with holes proves no loss.

Each batch of the ledger has an offset of its own. An offset that no row has, a batch that landed
twice, or a pod that counted more than its rows, and messages count as lost or as done twice though
no pod lost or repeated them.
"""

from __future__ import annotations

from collections.abc import Iterator

from lagbench.core.measures.doubts.window import Window
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.telemetry import PodStopped


def holes(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the ledger's own offsets that no row has, and the rows that are there twice."""
    found = run.ledger
    if found is None:
        return
    if found.landed_twice:
        yield f"{found.landed_twice:,} rows of the ledger landed twice, under one offset"
    ends = (run.fence or {}).get("processed") or {}
    has_markers = run.scenario.consumer.commit == "transactional"
    for partition, end in sorted(ends.items()):
        missing = int(end) - found.batches.get(int(partition), 0)
        if missing > 0 and not has_markers:  # a transaction's end takes an offset, too
            yield (
                f"the ledger's partition {partition} ends at offset {end}, and {missing} of its"
                " batches have no row"
            )
            return


def pods_above_their_rows(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the first pod that finished in order and had counted more than the ledger has of it."""
    by_pod = (run.accounting or {}).get("by_pod") or {}
    for record in run.records:
        if not isinstance(record, PodStopped) or not record.is_graceful:
            continue
        rows, counted = (by_pod.get(record.source) or {}).get("processed"), record.processed_total
        if rows is not None and counted is not None and counted > rows:
            yield f"{record.source} had processed {counted:,} messages, the ledger has {rows:,}"
            return


def incomplete_fence(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the partitions of the topic that the fence lacks."""
    if run.fence is None or run.observation is not None:
        return
    for name in ("events", "committed"):
        known = {int(partition) for partition in run.fence.get(name) or {}}
        lacking = sorted(set(range(run.topic_partitions.last)) - known)
        if lacking:
            yield f"the fence has no {name} offset of partitions {lacking}"
            return
