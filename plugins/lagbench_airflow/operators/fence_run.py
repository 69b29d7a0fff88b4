"""End the measured part of a run and freeze the evidence for its verdict."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lagbench import project
from lagbench.adapters.kafka.telemetry_topic import read_records
from lagbench.core.telemetry.records_of_programs import ActionEnded
from lagbench.embedded.kept_log import note_fence
from lagbench.results.cell_run import CellRun
from lagbench.results.stopped_run import await_transactions_over, stop_scaling, stop_workloads
from lagbench_airflow.operators.start_companions import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

SWAPPED = "# swapped by actions."
"""Begins the part of a swap in ``policy.diff``; the number of the action follows."""
TOPICS = ("events", "processed", "telemetry")


class FenceRunOperator(CellOperator):
    """Stop the workloads of all groups in order, and write ``fence.json`` of each.

    After success: no part of the run writes any more, and ``fence.json`` has the end of every
    topic and the group's committed offsets; the pipeline reads up to there. The order matters: the
    player of actions first, the autoscaler next (it would start pods again), then producer,
    consumers (they shut down gracefully), recorder, and last the transactions that a killed pod has
    left open in the ledger, because nothing behind them can be read. On failure the
    stopped parts stay stopped. A retry repeats the rest and is safe.
    """

    is_of_run = True

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Stop, collect the logs, freeze."""
        groups = cell.groups
        with self.opened(cell) as place:
            stop_scaling(place.kube, cell)
            stop_workloads(place.kube, cell)
        if cell.swapped:
            keep_differences(cell, self.bootstrap_servers())
        fences = [self._fence(group) for group in groups]
        if place.is_embedded:
            # First in the bench's own folder: the disk of the run folders may be full.
            of_groups = zip(groups, fences, strict=True)
            noted = {group.folder.reference: fence for group, fence in of_groups}
            note_fence(project.state_dir(), cell.folder, noted)
        for group, fence in zip(groups, fences, strict=True):
            group.folder.write_json(group.folder.fence, fence)
        counted = [{topic: sum(fence[topic].values()) for topic in TOPICS} for fence in fences]
        return counted[0] if cell.second is None else {**counted[0], "second_group": counted[1]}

    def _fence(self, cell: CellRun) -> dict[str, Any]:
        from lagbench_airflow.hooks.kafka import KafkaHook

        hook, names = KafkaHook(), cell.names
        with hook.get_conn() as admin:
            await_transactions_over(admin, names.processed_topic)
            ends = {
                short: {str(p): end for p, end in sorted(admin.end_offsets(topic).items())}
                for short, topic in zip(TOPICS, names.topics, strict=True)
            }
        with closing(hook.open_lag_reader(awaits_transactions=True)) as reader:
            lag = reader.offsets(names.group, names.events_topic)
        of_headers = {} if cell.scenario.payload is None else {"identity_run_id": names.run_id}
        level = cell.scenario.consumer.accounting
        return {
            **ends,
            **of_headers,
            **({} if level is None else {"accounting": level}),
            "committed": {str(p): place.committed for p, place in sorted(lag.items())},
            "fenced_at": time.time_ns(),
            "stream_started_at": cell.noted("stream_started_at"),
        }


def keep_differences(cell: CellRun, bootstrap_servers: str) -> None:
    """Write the difference of each swap: all in ``policy.diff``, and each in a file of its own."""
    ended = {
        record.number: record
        for record in read_records(bootstrap_servers, cell.names.telemetry_topic)
        if isinstance(record, ActionEnded) and record.number in cell.swapped
    }
    at_start = cell.folder.path / "policy.diff"
    first = cell.folder.read_text(at_start) if at_start.exists() else ""
    parts = [first.partition(SWAPPED)[0].rstrip("\n")]
    for record in sorted(ended.values(), key=lambda record: record.at):
        cell.folder.write_text(f"policy-{record.number}.diff", record.detail)
        parts.append(f"{SWAPPED}{record.number}\n{record.detail}")
    cell.folder.write_text(at_start, "\n".join(part for part in parts if part))
