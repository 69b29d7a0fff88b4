"""Stop the base load that continues after the planned window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from lagbench.adapters.kafka.telemetry_read import first_record
from lagbench.adapters.kube.kube import Kube
from lagbench.core.scenario.stream.profile import offered_load
from lagbench.core.scenario.stream.tail import Tail
from lagbench.core.telemetry.producer import ProducerProgress, StreamFinished
from lagbench.errors import StillWaiting
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator
from lagbench_airflow.operators.fence_run import collect_pod_logs, wait_pods_gone
from lagbench_airflow.triggers.conditions import JobEnd, job_end

if TYPE_CHECKING:
    from airflow.sdk import Context

PLANNED_WINDOW_TIMEOUT_SECONDS = 60.0
PRODUCER_GRACE_SECONDS = 30.0
"""The Job's terminationGracePeriodSeconds; within it the producer flushes and reports."""

TailEnd = Literal["settled", "timeout", "bound", "failure"]


class StopTailOperator(CellOperator):
    """Delete the producer's Job in its tail and note the tail in the manifest.

    After success: no load is offered any more, the producer has flushed and reported it, and
    ``manifest.json`` has the tail: its rate, start, duration, number of messages and reason for its
    end. Without a tail nothing is done. The Job is deleted only after the producer has reported
    that the planned window is with the client: an earlier stop would cut the stream short. On
    failure the Job may already be deleted; a retry reads the producer's last report and is safe.

    :param is_settled: whether the replicas had settled, as reported by the task before it
        (templated).
    """

    is_of_run = True

    template_fields: Sequence[str] = (*CellOperator.template_fields, "is_settled")

    def __init__(self, *, is_settled: str = "True", **kwargs: Any) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        super().__init__(**kwargs)
        self.is_settled = is_settled

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Stop the producer, unless it has ended by itself, and read its report."""
        tail = cell.tail
        if tail is None:
            return {"tail": None}
        servers, job = self.bootstrap_servers(), cell.names.producer_job
        with self.opened(cell) as place:
            end = job_end(place.kube, job)
            if end is None:
                self._await_planned_window(place.kube, cell, servers)
                collect_pod_logs(place.kube, cell.folder)
                place.kube.delete("Job", job)
            if end in (None, "gone"):
                wait_pods_gone(place.kube, cell, job, PRODUCER_GRACE_SECONDS + 30)
        finished = first_record(servers, cell.names.telemetry_topic, StreamFinished)
        noted = self._noted(cell, tail, finished, end)
        cell.update_manifest(tail=noted)
        self.log.info("the tail ended: %s", noted)
        return {"tail": noted}

    def _await_planned_window(self, kube: Kube, cell: CellRun, servers: str) -> None:
        total, topic = offered_load(cell.scenario.profile).total, cell.names.telemetry_topic

        def is_sent(record: ProducerProgress) -> bool:
            return record.sent >= total

        def is_over(_: Kube) -> bool:
            return first_record(servers, topic, ProducerProgress, where=is_sent) is not None

        try:
            kube.wait_until(
                is_over,
                timeout_seconds=PLANNED_WINDOW_TIMEOUT_SECONDS,
                what="the producer to have sent the planned window",
            )
        except StillWaiting as late:  # the producer reports this cut: the run is invalid
            self.log.warning("%s; it is stopped anyway", late)

    def _noted(
        self, cell: CellRun, tail: Tail, finished: StreamFinished | None, end: JobEnd | None
    ) -> dict[str, Any]:
        planned_ns = offered_load(cell.scenario.profile).duration_ns
        stream_started_at = cell.folder.read_json(cell.folder.manifest).get("stream_started_at")
        ended_by: TailEnd = "settled" if self.is_settled == "True" else "timeout"
        if end == "complete":
            ended_by = "bound"
        elif end == "failed" or finished is None:
            ended_by = "failure"
        return {
            "rate_per_second": tail.rate_per_second,
            "most_seconds": tail.most_seconds,
            "started_at": stream_started_at and int(stream_started_at) + planned_ns,
            "seconds": finished and finished.tail_seconds,
            "sent": finished and finished.tail_sent,
            "ended_by": ended_by,
        }
