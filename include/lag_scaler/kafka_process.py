"""A ``LagSource`` whose Kafka client runs in a process of its own.

librdkafka can end the whole process when a broker goes away while a group's offsets are being
asked for (librdkafka issue 4605): with 50 groups, sampled each second, each of 14 restarts of a
broker did (SIGSEGV, once SIGABRT). A scaler must outlive that: only the reading process ends, the
sample fails with the reason, and the next one starts another process. Speed does not need it.

This program has threads (gRPC), so it cannot fork itself: the readers are forks of a process that
has their modules (multiprocessing's forkserver), which takes 13 MB for each instead of 40. A reader
ends when its connection to this program does, whatever the end of either.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from lag_scaler.offsets import GroupSample, GroupTopic, failed_sample
from pod_program.errors import NotReady

DEFAULT_TIMEOUT_SECONDS = 5.0
"""Of one request."""
MARGIN_SECONDS = 1.0
"""librdkafka may answer this much after the request's own timeout."""
_READER = "lag_scaler.kafka_source"  # librdkafka is loaded there, not here
_FIRST_ANSWER_SECONDS = 10.0  # of a process that was just forked, on a busy machine
_END_SECONDS = 1.0
_Answer = tuple[dict[GroupTopic, GroupSample], int, bool]
"""Samples, requests to brokers so far, whether the process is to be replaced."""


def longest_sample_seconds(timeout_seconds: float) -> float:
    """Return how long a sample takes at most, however many requests of it go unanswered."""
    return 2 * (timeout_seconds + MARGIN_SECONDS)


class KafkaLagProcess:
    """Samples the groups of one cluster; used by one thread at a time."""

    def __init__(
        self,
        settings: Mapping[str, object],
        *,
        now_ns: Callable[[], int] = time.time_ns,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        """Take librdkafka settings; the process starts with the first sample."""
        self._settings, self._timeout_seconds = dict(settings), timeout_seconds
        self._now_ns = now_ns
        self._reader: tuple[BaseProcess, Connection] | None = None
        self._requests_before = self._requests_now = 0

    @property
    def broker_requests(self) -> int:
        """Number of requests to brokers, as librdkafka counts them; 2 s late."""
        return self._requests_before + self._requests_now

    @property
    def pid(self) -> int | None:
        """The process that reads."""
        return None if self._reader is None else self._reader[0].pid

    def sample(self, wanted: Sequence[GroupTopic]) -> Mapping[GroupTopic, GroupSample]:
        """Return the offsets of every wanted group, or what went wrong with it."""
        at_ns = self._now_ns()
        try:
            samples, self._requests_now, is_lost = self._answer(at_ns, wanted)
        except (OSError, EOFError) as problem:
            text = f"the process that reads offsets has ended ({problem}{self._end()})"
            return {item: failed_sample(at_ns, text) for item in wanted}
        if is_lost:
            self._end()
        return samples

    def close(self) -> None:
        """End the process."""
        self._end()

    def _answer(self, at_ns: int, wanted: Sequence[GroupTopic]) -> _Answer:
        patience = longest_sample_seconds(self._timeout_seconds) + _FIRST_ANSWER_SECONDS
        _, channel = self._reader = self._reader or self._started()
        channel.send((at_ns, list(wanted)))
        if not channel.poll(patience):
            raise TimeoutError("no answer in time")
        answer: _Answer = channel.recv()
        return answer

    def _started(self) -> tuple[BaseProcess, Connection]:
        try:
            tempfile.gettempdir()  # for the socket of the forkserver
        except FileNotFoundError:  # a container whose root is read-only has this one
            tempfile.tempdir = "/dev/shm"  # noqa: S108
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([_READER])
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no thread is forked
        ours, theirs = multiprocessing.Pipe()
        process = context.Process(
            target=_serve, args=(theirs, self._settings, self._timeout_seconds), daemon=True
        )
        with theirs:
            process.start()
        return process, ours

    def _end(self) -> str:
        """End the process, whatever its state, and return how it ended."""
        reader, self._reader = self._reader, None
        if reader is None:
            return ""
        self._requests_before, self._requests_now = self.broker_requests, 0
        process, channel = reader
        channel.close()
        process.join(_END_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = process.exitcode or 0
        return f", {signal.Signals(-code).name}" if code < 0 else f", exit code {code}"


def _serve(channel: Connection, settings: Mapping[str, object], timeout_seconds: float) -> None:
    """Answer requests until the connection ends; settings that cannot be used are tried again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which ends us
    source: Any = None
    open_source = importlib.import_module(_READER).KafkaLagSource
    with contextlib.suppress(EOFError, OSError):
        while True:
            at_ns, wanted = channel.recv()
            try:
                source = source or open_source(settings, timeout_seconds=timeout_seconds)
                channel.send((source.sample(wanted, at_ns), source.broker_requests, source.is_lost))
            except NotReady as problem:
                failed = {item: failed_sample(at_ns, str(problem)) for item in wanted}
                channel.send((failed, 0, False))
    os._exit(0)  # requests that are under way hold nothing up
