"""A ``LagSource`` whose Kafka client runs in a process of its own.

librdkafka can abort the whole process when a broker goes away while a group's offsets are being
asked for (an assertion on ``eonce->refcnt``, librdkafka issue 4605: seen here in 2 of 8 restarts of
a broker). A scaler must outlive that: only the reading process ends, the sample fails with the
reason, and the next one starts another process. Besides, turning 2,400 partitions into Python
objects no longer stops the interpreter that answers KEDA. It costs some 30 MiB.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from lagbench.adapters.kafka.offset_messages import (
    NoAnswer,
    OpenCluster,
    SampleTaken,
    SampleWanted,
    receive,
    send,
    unpacked_samples,
)
from lagbench.adapters.kafka.sample_time import DEFAULT_TIMEOUT_SECONDS, longest_sample_seconds
from lagbench.adapters.process.processes import tied_command
from lagbench.core.lag_scaler import GroupSample, GroupTopic, failed_sample

_START_SECONDS = 5.0  # python with librdkafka and numpy: 0.4 s on an idle machine
_END_SECONDS = 1.0


class KafkaLagProcess:
    """Samples the groups of one cluster; used by one thread at a time, which must live on."""

    def __init__(
        self,
        settings: Mapping[str, object],
        *,
        now_ns: Callable[[], int] = time.time_ns,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        """Take librdkafka settings; the process starts with the first sample."""
        self._opening = OpenCluster(dict(settings), timeout_seconds)
        self._now_ns = now_ns
        self._patience = longest_sample_seconds(timeout_seconds) + _START_SECONDS
        self._process: subprocess.Popen[bytes] | None = None
        self._requests_before = self._requests_now = 0

    @property
    def broker_requests(self) -> int:
        """Number of requests to brokers, as librdkafka counts them; 2 s late."""
        return self._requests_before + self._requests_now

    def sample(self, wanted: Sequence[GroupTopic]) -> Mapping[GroupTopic, GroupSample]:
        """Return the offsets of every wanted group, or what went wrong with it."""
        request = SampleWanted(self._now_ns(), [(item.group, item.topic) for item in wanted])
        try:
            answer = self._asked(request)
        except NoAnswer as problem:
            text = f"the process that reads offsets has ended ({problem}{self._ended()})"
            return {item: failed_sample(request.at_ns, text) for item in wanted}
        self._requests_now = answer.broker_requests
        return unpacked_samples(wanted, answer)

    def close(self) -> None:
        """End the process."""
        self._ended()

    def _asked(self, request: SampleWanted) -> SampleTaken:
        process = self._process or self._started()
        if process.stdin is None or process.stdout is None:
            raise NoAnswer("it has no pipes")
        send(process.stdin, request)
        return receive(process.stdout, SampleTaken, within_seconds=self._patience)

    def _started(self) -> subprocess.Popen[bytes]:
        process = self._process = subprocess.Popen(
            tied_command([sys.executable, "-m", "lagbench.adapters.kafka.kafka_lag_worker"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        if process.stdin is not None:
            send(process.stdin, self._opening)
        return process

    def _ended(self) -> str:
        """End the process, whatever its state, and return how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        self._requests_before, self._requests_now = self.broker_requests, 0
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            code = process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()  # at once, or when a busy machine comes to it
        return f", {signal.Signals(-code).name}" if code < 0 else f", exit code {code}"
