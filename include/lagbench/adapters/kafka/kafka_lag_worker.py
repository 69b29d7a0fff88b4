"""``python -m lagbench.adapters.kafka.kafka_lag_worker``: fork processes that read offsets.

Standard input is a socket to the parent program (``reader_forks``). A message with a socket
requests a reader, which gets its settings and requests there and answers there. A message with a
process id requests the end of that reader. The end of the input is the end of all.

This process has all modules and no thread, so a reader shares its memory: 13 MB instead of 40.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import time

from lagbench.adapters.kafka.kafka_lag_source import KafkaLagSource
from lagbench.adapters.kafka.offset_messages import (
    NUMBER_BYTES,
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

_PR_SET_PDEATHSIG = 1
_END_SECONDS = 1.0


def main() -> None:
    """Fork and end readers until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which ends us
    libc = ctypes.CDLL(None)
    parent = socket.socket(fileno=0)
    gc.collect()
    gc.freeze()  # the collector would write to, and so copy, what the readers share
    while True:
        message, sockets, _, _ = socket.recv_fds(parent, NUMBER_BYTES, 1)
        if not message:
            os._exit(0)
        if not sockets:
            code = _ended(int.from_bytes(message, "big"))
            parent.send(code.to_bytes(NUMBER_BYTES, "big", signed=True))
            continue
        pid = os.fork()
        if pid == 0:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            parent.close()
            _serve(socket.socket(fileno=sockets[0]))
        os.close(sockets[0])
        parent.send(pid.to_bytes(NUMBER_BYTES, "big", signed=True))


def _ended(pid: int) -> int:
    """Return the exit code of a reader, whose socket is closed; a busy one is killed."""
    gives_up_at = time.monotonic() + _END_SECONDS
    while time.monotonic() < gives_up_at:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _serve(channel: socket.socket) -> None:
    """Serve requests until the input ends, then end."""
    messages = channel.makefile("rwb", buffering=0)
    with contextlib.suppress(NoAnswer):
        reader = _Reader(receive(messages, OpenCluster))
        while True:
            send(messages, reader.answer(receive(messages, SampleWanted)))
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
