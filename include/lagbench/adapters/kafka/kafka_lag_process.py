"""A ``LagSource`` whose Kafka client runs in a process of its own.

librdkafka can abort the whole process when a broker goes away while a group's offsets are being
asked for (an assertion on ``eonce->refcnt``, librdkafka issue 4605: seen here in 2 of 8 restarts of
a broker). A scaler must outlive that: only the reading process ends, the sample fails with the
reason, and the next one starts another process. Besides, turning 2,400 partitions into Python
objects no longer stops the interpreter that answers KEDA. docs/lag-scaler.md has its cost.
"""

from __future__ import annotations

import signal
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
from lagbench.adapters.kafka.reader_forks import READER_FORKS, Reader
from lagbench.adapters.kafka.sample_time import DEFAULT_TIMEOUT_SECONDS, longest_sample_seconds
from lagbench.core.lag_scaler import GroupSample, GroupTopic, failed_sample

_FIRST_ANSWER_SECONDS = 5.0  # of a process that was just forked, on a busy machine


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
        self._opening = OpenCluster(dict(settings), timeout_seconds)
        self._now_ns = now_ns
        self._patience = longest_sample_seconds(timeout_seconds) + _FIRST_ANSWER_SECONDS
        self._reader: Reader | None = None
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
        if self._reader is None:
            self._reader = READER_FORKS.start()
            send(self._reader.messages, self._opening)
        send(self._reader.messages, request)
        return receive(self._reader.messages, SampleTaken, within_seconds=self._patience)

    def _ended(self) -> str:
        """End the process, whatever its state, and return how it ended."""
        reader, self._reader = self._reader, None
        if reader is None:
            return ""
        self._requests_before, self._requests_now = self.broker_requests, 0
        code = READER_FORKS.end(reader)
        if code is None:
            return ""
        return f", {signal.Signals(-code).name}" if code < 0 else f", exit code {code}"
