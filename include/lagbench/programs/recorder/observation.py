"""Observe a group that is there, from this process: read, and write to one local file only.

It reads what the recorder of a rehearsal reads. Nothing is sent to Kafka or to Kubernetes but
questions: no topic, no commit, no object. The threads end with this process, also after SIGKILL.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from lagbench.core.measures.evidence.group_events import STOPPING_PHASE
from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_programs import Phase, Record
from lagbench.errors import NotReady
from lagbench.programs.recorder.sources import ObservedCluster, sources_of
from lagbench.programs.steady_clock import ClockWatch

SOURCE = "observer"
_INTERVAL_NS = 1_000_000_000
_LOOK_SECONDS = 1.0


class RecordsFile:
    """A file with a record per line; a line is whole, or the last one.

    After a failed write nothing more is written: the threads that read continue, and the caller
    looks at ``problem``.
    """

    def __init__(self, path: Path) -> None:
        """Open the file; an earlier one of that name is an error."""
        self._file = path.open("xb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)  # who reads the folder sees that it is in progress
        self._lock = threading.Lock()
        self.path = path
        self.problem: OSError | None = None
        self.newest: dict[str, Record] = {}  # by kind, for a display

    def write(self, record: Record) -> None:
        """Append a record; after the end of the observation nothing is written."""
        left = memoryview(encode_record(record) + b"\n")
        with self._lock:
            if self._file.closed or self.problem is not None:
                return
            try:
                while left:  # unbuffered, so a nearly full disk may take a part
                    left = left[self._file.write(left) :]
            except OSError as error:
                self.problem = error
            else:
                self.newest[type(record).__name__] = record

    def close(self) -> None:
        """End the observation."""
        with self._lock:
            self._file.close()


class GroupObserver:
    """Records a group, and its workload if one is given, while the ``with`` block runs."""

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        *,
        group: str,
        topic: str,
        cluster: ObservedCluster | None,
    ) -> None:
        """Write to ``path``; ``settings`` are librdkafka's, with the servers."""
        self.records = RecordsFile(path)
        self._clock_watch = ClockWatch(SOURCE, self.records.write)
        self._threads = sources_of(
            settings,
            self.records.write,
            group=group,
            topic=topic,
            source=SOURCE,
            pids={},
            interval_ns=_INTERVAL_NS,
            cluster=cluster,
        )

    def __enter__(self) -> Self:
        """Start to read."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; readings under way are not awaited, and no longer written."""
        for thread in self._threads:
            thread.stop()
        self._clock_watch.look()
        self.records.write(
            Phase(at=time.time_ns(), source=SOURCE, name=STOPPING_PHASE, state="started")
        )
        self.records.close()

    def wait(self, seconds: float, each_second: Callable[[], None] = lambda: None) -> None:
        """Observe for ``seconds``; an interrupt of the process ends it early."""
        ends_at, pause = time.monotonic() + seconds, threading.Event()
        while (left := ends_at - time.monotonic()) > 0:
            pause.wait(min(_LOOK_SECONDS, left))
            self._clock_watch.look()
            if (problem := self.records.problem) is not None:
                raise NotReady(
                    f"could not write {self.records.path}: {problem.strerror}. The readings until "
                    "then are there: lagbench report judges them"
                ) from problem
            each_second()
