"""Start the processes that read offsets, as forks of one process, which has all their modules.

This program has threads (gRPC), so it cannot fork itself. The forking process and its readers end
when this one does, whatever its end: their sockets to it close.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass

from lagbench.adapters.kafka.offset_messages import NUMBER_BYTES, NoAnswer

# Python with librdkafka and numpy: 0.4 s on an idle machine.
_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Reader:
    """One reading process; ``messages`` is the unbuffered channel to it."""

    pid: int
    messages: socket.SocketIO


class ReaderForks:
    """The forking process; it runs while there are readers. Thread-safe."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._readers: set[int] = set()

    def start(self) -> Reader:
        """Return a new reader.

        :raises NoAnswer: it could not be started.
        """
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            if self._process is not None and self._process.poll() is not None:
                self._stop()
            pid = self._asked(b"+", theirs)
            self._readers.add(pid)
        with ours:
            return Reader(pid, ours.makefile("rwb", buffering=0))

    def end(self, reader: Reader) -> int | None:
        """End a reader; return its exit code, None if its forking process has ended before."""
        reader.messages.close()
        with self._lock:
            if reader.pid not in self._readers:
                return None
            self._readers.discard(reader.pid)
            try:
                return self._asked(reader.pid.to_bytes(NUMBER_BYTES, "big"))
            except NoAnswer:
                return None
            finally:
                if not self._readers:
                    self._stop()

    def _asked(self, message: bytes, *sockets: socket.socket) -> int:
        """Return the number that the forking process answers."""
        try:
            channel = self._channel or self._begin()
            socket.send_fds(channel, [message], [item.fileno() for item in sockets])
            answer = channel.recv(NUMBER_BYTES)
        except OSError as error:
            self._stop()
            raise NoAnswer(f"the process that forks readers: {error}") from error
        if not answer:
            self._stop()
            raise NoAnswer("the process that forks readers has ended")
        return int.from_bytes(answer, "big", signed=True)

    def _begin(self) -> socket.socket:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_START_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lagbench.adapters.kafka.kafka_lag_worker"],
                stdin=theirs.fileno(),
                stdout=2,  # what a library prints
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # no thread is forked
                start_new_session=True,  # a signal to this program's group is not for it
            )
        return self._channel

    def _stop(self) -> None:
        """Let the forking process end, and so every reader that is left."""
        channel, process = self._channel, self._process
        self._channel = self._process = None
        self._readers.clear()
        if channel is not None:
            channel.close()
        if process is not None:
            process.wait()


READER_FORKS = ReaderForks()
"""Those of this program."""
