"""Keep a stream of an external scaler open: read it in a thread, reopen it when it ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from lagbench.adapters.grpc.external_scaler_client import ExternalScalerClient, ServerStream
from lagbench.errors import NotReady

log = logging.getLogger(__name__)

Message = TypeVar("Message")

# KEDA waits 2 s before it opens a stream again, doubling up to 60 s while it keeps failing.
FIRST_DELAY_SECONDS = 2.0
LONGEST_DELAY_SECONDS = 60.0


def next_delay(delay_seconds: float, *, is_reset: bool) -> tuple[float, float]:
    """Return the wait before the stream is opened again, and the one after that."""
    now = FIRST_DELAY_SECONDS if is_reset else delay_seconds
    return now, min(2 * now, LONGEST_DELAY_SECONDS)


class StreamReader(Generic[Message]):
    """Gives each message to ``on_message`` from its own thread until stopped."""

    def __init__(
        self,
        name: str,
        open_client: Callable[[], ExternalScalerClient],
        open_stream: Callable[[ExternalScalerClient], ServerStream[Message]],
        on_message: Callable[[Message], None],
        *,
        is_optional: bool = False,
    ) -> None:
        """Read nothing before ``start``; each opening has a client of its own.

        An optional stream is given up when the server does not know it, and a message is enough
        to forget earlier failures; of the other kind only a clean end is.
        """
        self._name = name
        self._open_client = open_client
        self._open_stream = open_stream
        self._on_message = on_message
        self._is_optional = is_optional
        self._is_over = threading.Event()
        self._stream: ServerStream[Message] | None = None
        self._message_count = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin reading."""
        self._thread.start()

    def stop(self) -> None:
        """End the stream; a message that is being worked on is finished."""
        self._is_over.set()
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the end of the thread."""
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        delay_seconds = FIRST_DELAY_SECONDS
        while not self._is_over.is_set():
            self._message_count = 0
            is_clean = False
            try:
                self._read_one_stream()
                is_clean = True
            except NotReady as error:
                if self._is_over.is_set():
                    return
                if self._is_optional and getattr(error, "is_unimplemented", False):
                    return
                log.warning("%s: %s", self._name, error)
            is_reset = is_clean or (self._is_optional and self._message_count > 0)
            wait_seconds, delay_seconds = next_delay(delay_seconds, is_reset=is_reset)
            self._is_over.wait(wait_seconds)

    def _read_one_stream(self) -> None:
        client = self._open_client()
        try:
            stream = self._stream = self._open_stream(client)
            if self._is_over.is_set():  # stopped before there was a stream to cancel
                stream.cancel()
            for message in stream:
                self._message_count += 1
                self._on_message(message)
        finally:
            client.close()
