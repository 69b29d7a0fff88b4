"""Offer the load, once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk.exceptions import AirflowFailException

from lagbench.adapters.kafka.telemetry_topic import first_record, last_record
from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import last_words
from lagbench.core.cluster.run_jobs import (
    SAMPLES_FILE,
    producer_job_for_run,
    samples_for_run,
    with_samples_mounted,
)
from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.stream_start import stream_start_at_ns
from lagbench.core.scenario.stream_tail import Tail
from lagbench.core.telemetry.records_of_programs import (
    HpaSync,
    ProducerProgress,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.workload_state import JobEnd, job_end
from lagbench.errors import StillWaiting
from lagbench.results.cell_run import CellRun
from lagbench.results.seals import seal
from lagbench.results.stopped_run import collect_pod_logs, pods_of, wait_pods_gone
from lagbench_airflow.operators.start_companions import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

STREAM_AFTER_START_SECONDS = 30.0
"""From the producer's pod to the record of its stream's start."""

FIRST_SYNC_TIMEOUT_SECONDS = 4 * HPA_SYNC_SECONDS

PREPARATION_SECONDS = 8
"""The producer's pod starts and prepares its first events in less: 3 s on a busy machine."""

STORE_KEY = "spike"


class InjectSpikeOperator(CellOperator):
    """Create the producer's Job and return once its stream has started.

    After success: the stream runs, and its start is in the manifest. On failure the Job may run;
    the teardown deletes it. A retry, or a clear of the task, adopts the Job that the run
    has already created and never injects a second spike:

    * the Job's name comes from the run id, so creating it again is a conflict, and the Job is
      adopted, even if the worker died between the creation and its note;
    * the run id is noted in the task's state store, so a Job that has since disappeared is an
      error, not a reason for a new one.

    A scenario that fixes the phase of the HPA's sync has its stream start that much before a sync.
    """

    is_of_run = True

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:
        """Create or adopt the Job, note it, wait for the stream."""
        for group in cell.groups:
            seal(group.folder)
        store, job = context.get("task_state_store"), cell.names.producer_job
        noted = store.get(STORE_KEY) if store is not None else None
        is_noted = isinstance(noted, dict) and noted.get("run_id") == cell.names.run_id
        is_new = False
        with self.opened(cell) as place:
            if is_noted:
                self._require_job(place.kube, cell)
            else:
                # On the embedded bench a pod is a process, which reads the run folder.
                is_in_pod = cell.scenario.payload is not None and not place.is_embedded
                made = producer_job_for_run(
                    base_manifest("producer", "Job"),
                    place.target,
                    cell.scenario,
                    tail=cell.tail,
                    starts_at_ns=self._starts_at_ns(place.kube, cell),
                    payload_file=SAMPLES_FILE if is_in_pod else str(cell.folder.payload),
                )
                if is_in_pod:
                    samples = cell.folder.payload.read_bytes()
                    place.kube.apply(samples_for_run(samples, place.target))
                    made = with_samples_mounted(made, place.target)
                is_new = place.kube.create(made)
                if store is not None:
                    store.set(STORE_KEY, {"run_id": cell.names.run_id})
            self.log.info("%s Job %s", "created" if is_new else "adopted", job)
            planned = cell.noted("stream_planned_at") or 0
            until_start = max(0.0, (planned - time.time_ns()) / NANOSECONDS)
            started: int = place.kube.wait_until(
                lambda kube: self._stream_start(kube, cell),
                timeout_seconds=place.start_seconds + STREAM_AFTER_START_SECONDS + until_start,
                what="the producer's stream to start",
            )
        cell.update_manifest(stream_started_at=started)
        return {"job": job, "is_new": is_new, "stream_started_at": started}

    def _require_job(self, kube: Kube, cell: CellRun) -> None:
        if kube.get("Job", cell.names.producer_job) is None:
            raise AirflowFailException(
                f"run {cell.names.run_id} already had its spike, and Job "
                f"{cell.names.producer_job} was deleted: a second spike would spoil the "
                "measurement. Start a new run"
            )

    def _starts_at_ns(self, kube: Kube, cell: CellRun) -> int | None:
        """Return the start that cron windows or the HPA's phase need; None: as soon as it can."""
        phase_seconds = cell.scenario.hpa_sync_at_seconds
        if phase_seconds is None:
            planned: int | None = cell.noted("stream_planned_at")
            if planned is not None:
                self._require_start_ahead(kube, cell, planned)
            return planned
        servers, topic = self.bootstrap_servers(), cell.names.telemetry_topic
        sync: HpaSync = kube.wait_until(
            lambda _: last_record(servers, topic, HpaSync),
            timeout_seconds=FIRST_SYNC_TIMEOUT_SECONDS,
            what="the HPA's first sync, for the phase of the stream",
        )
        earliest_ns = time.time_ns() + PREPARATION_SECONDS * NANOSECONDS
        return stream_start_at_ns(
            sync_at_ns=sync.at, phase_seconds=phase_seconds, earliest_ns=earliest_ns
        )

    def _require_start_ahead(self, kube: Kube, cell: CellRun, planned: int) -> None:
        """Fail when the producer cannot start by the planned start, unless its Job is there."""
        left_seconds = (planned - time.time_ns()) / NANOSECONDS
        is_there = kube.get("Job", cell.names.producer_job) is not None
        if left_seconds < PREPARATION_SECONDS and not is_there:
            when = f"is in {left_seconds:.0f} s" if left_seconds > 0 else "has passed"
            raise AirflowFailException(
                f"the stream's planned start {when}, and the producer needs {PREPARATION_SECONDS} "
                "s, so the policy's cron windows would be elsewhere in the stream: the tasks "
                "before took too long. Start a new run"
            )

    def _stream_start(self, kube: Kube, cell: CellRun) -> int | None:
        names = cell.names
        record = first_record(self.bootstrap_servers(), names.telemetry_topic, StreamStarted)
        if record is not None:
            return record.stream_started_at
        if job_end(kube.get("Job", names.producer_job)) == "failed":
            pods = pods_of(kube, names.run_id, names.producer_job)
            words = last_words(kube, pods[0]) if pods else "; its pod was deleted"
            raise AirflowFailException(f"the producer failed before its stream began{words}")
        return None


PLANNED_WINDOW_TIMEOUT_SECONDS = 60.0
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
            end = job_end(place.kube.get("Job", job))
            if end is None:
                self._await_planned_window(place.kube, cell, servers)
                collect_pod_logs(place.kube, cell.folder)
                place.kube.delete("Job", job)
            if end in (None, "gone"):
                wait_pods_gone(place.kube, cell.names.run_id, job)
        finished = first_record(servers, cell.names.telemetry_topic, StreamFinished)
        noted = self._noted(cell, tail, finished, end)
        cell.update_manifest(tail=noted)
        self.log.info("the tail ended: %s", noted)
        return {"tail": noted}

    def _await_planned_window(self, kube: Kube, cell: CellRun, servers: str) -> None:
        total, topic = offered_load(cell.scenario.profile).total, cell.names.telemetry_topic

        def is_over(_: Kube) -> bool:
            sent = first_record(servers, topic, ProducerProgress, where=lambda r: r.sent >= total)
            return sent is not None

        what = "the producer to have sent the planned window"
        try:
            kube.wait_until(is_over, timeout_seconds=PLANNED_WINDOW_TIMEOUT_SECONDS, what=what)
        except StillWaiting as late:  # the producer reports this cut: the run is invalid
            self.log.warning("%s; it is stopped anyway", late)

    def _noted(
        self, cell: CellRun, tail: Tail, finished: StreamFinished | None, end: JobEnd | None
    ) -> dict[str, Any]:
        planned_ns = offered_load(cell.scenario.profile).duration_ns
        started_at = cell.noted("stream_started_at")
        ended_by: TailEnd = "settled" if self.is_settled == "True" else "timeout"
        if end == "complete":
            ended_by = "bound"
        elif end == "failed" or finished is None:
            ended_by = "failure"
        return {
            "rate_per_second": tail.rate_per_second,
            "most_seconds": tail.most_seconds,
            "started_at": started_at and int(started_at) + planned_ns,
            "seconds": finished and finished.tail_seconds,
            "sent": finished and finished.tail_sent,
            "ended_by": ended_by,
        }
