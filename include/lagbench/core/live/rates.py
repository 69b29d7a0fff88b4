"""Follow the rates of a run: planned, produced and processed messages per second."""

from __future__ import annotations

from lagbench.core.measures import NANOSECONDS
from lagbench.core.measures.evidence import GAP_SECONDS
from lagbench.core.telemetry import (
    ConsumerProgress,
    PodStopped,
    ProducerProgress,
    Record,
    SparkBatch,
    StreamFinished,
)


class LiveRates:
    """The newest rates; None without a report in the last 3.5 s.

    The instant of arrival counts (``now``, unix ns), because a report's own stamp is of another
    clock.
    """

    def __init__(self) -> None:
        """Start without a report."""
        self._pods: dict[str, tuple[int, ConsumerProgress]] = {}
        self._batch: tuple[int, SparkBatch] | None = None
        self._progress: ProducerProgress | None = None
        self._progress_at = 0
        self._planned: float | None = None
        self._produced: float | None = None
        self._is_finished = False

    def take(self, record: Record, now: int) -> None:
        """Update the rates with a record that arrived at ``now``."""
        match record:
            case ProducerProgress():
                self._take_progress(record)
                self._progress_at = now
            case ConsumerProgress():
                self._pods[record.source] = now, record
            case PodStopped():
                self._pods.pop(record.source, None)
            case SparkBatch():
                self._batch = now, record
            case StreamFinished():
                self._is_finished = True
            case _:
                return

    def planned(self, now: int) -> float | None:
        """Return the planned rate at ``now`` (unix ns); 0 after the stream's end."""
        return self._of_producer(self._planned, now)

    def produced(self, now: int) -> float | None:
        """Return the rate of messages that Kafka took; 0 after the stream's end."""
        return self._of_producer(self._produced, now)

    def processed(self, now: int) -> float | None:
        """Return the rate of the pods that report, or that of Spark's last batch."""
        pods = [pod for at, pod in self._pods.values() if is_fresh(at, now)]
        if pods:
            return sum(pod.consume_rate for pod in pods)
        if self._batch is None:
            return None
        at, batch = self._batch
        is_due = max(batch.trigger_seconds, batch.batch_seconds)
        return batch.processed_rows_per_second if is_fresh(at, now, every=is_due) else None

    def _of_producer(self, rate: float | None, now: int) -> float | None:
        if self._is_finished:
            return 0.0
        return rate if is_fresh(self._progress_at, now) else None

    def _take_progress(self, progress: ProducerProgress) -> None:
        last, self._progress = self._progress, progress
        if last is not None and progress.at > last.at:
            seconds = (progress.at - last.at) / NANOSECONDS
            self._planned = (progress.planned - last.planned) / seconds
            self._produced = (progress.acked - last.acked) / seconds


def is_fresh(at: int, now: int, *, every: float = 0.0) -> bool:
    """Return whether what arrived at ``at`` still says something of ``now``.

    ``every``: the seconds from one report to the next, if they are more than one.
    """
    return now - at <= (GAP_SECONDS + every) * NANOSECONDS
