"""``python -m lagbench.adapters.kafka.kafka_lag_worker``: read offsets for the parent program.

Settings and requests come on standard input, samples go to standard output; the end of the input
is the end of the process. Started by ``kafka_lag_process``, which says why.
"""

from __future__ import annotations

import os
import signal
import sys

from lagbench.adapters.kafka.kafka_lag_source import KafkaLagSource
from lagbench.adapters.kafka.offset_messages import (
    NoAnswer,
    OpenCluster,
    SampleTaken,
    SampleWanted,
    packed_samples,
    receive,
    send,
)
from lagbench.core.lag_scaler import GroupTopic, failed_sample
from lagbench.errors import NotReady


def main() -> None:
    """Serve requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which ends us
    # What a library prints must not get between the messages.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    requests = os.fdopen(0, "rb", buffering=0, closefd=False)
    try:
        reader = _Reader(receive(requests, OpenCluster))
        while True:
            send(answers, reader.answer(receive(requests, SampleWanted)))
    except NoAnswer:
        sys.stderr.flush()
        os._exit(0)  # requests that are under way hold nothing up


class _Reader:
    """Answers requests; settings that cannot be used fail the samples and are tried again."""

    def __init__(self, opening: OpenCluster) -> None:
        self._opening = opening
        self._source: KafkaLagSource | None = None
        self._at_ns = 0

    def answer(self, request: SampleWanted) -> SampleTaken:
        self._at_ns = request.at_ns
        wanted = [GroupTopic(group, topic) for group, topic in request.groups]
        try:
            source = self._source or self._open()
        except NotReady as problem:
            failed = {item: failed_sample(self._at_ns, str(problem)) for item in wanted}
            return packed_samples(wanted, failed, 0)
        return packed_samples(wanted, source.sample(wanted), source.broker_requests)

    def _open(self) -> KafkaLagSource:
        self._source = KafkaLagSource(
            self._opening.settings,
            now_ns=lambda: self._at_ns,
            timeout_seconds=self._opening.timeout_seconds,
        )
        return self._source


if __name__ == "__main__":
    main()
