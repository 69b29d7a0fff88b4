"""The streams of an object's external-push triggers: activity, and specs where they are served."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from lagbench.adapters.grpc.external_scaler_client import (
    ExternalScalerClient,
    ExternalSpec,
    ServerStream,
)
from lagbench.adapters.kube.cluster_protocol import ObjectKey
from lagbench.core.keda.loop import MetricSpec
from lagbench.core.keda.object import Trigger
from lagbench.core.keda.triggers import ExternalTrigger
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.trigger_sources import LiveSources, reported_specs

log = logging.getLogger(__name__)

Message = TypeVar("Message")

# KEDA waits 2 s before it opens a stream again, doubling up to 60 s while it keeps failing.
FIRST_DELAY_SECONDS = 2.0
LONGEST_DELAY_SECONDS = 60.0


class PushStreams:
    """Open until ``stop``, one connection per trigger and stream."""

    def __init__(
        self,
        key: ObjectKey,
        triggers: Sequence[Trigger],
        sources: LiveSources,
        *,
        on_active: Callable[[int], None],
        on_specs: Callable[[int, Sequence[MetricSpec]], None],
    ) -> None:
        """Call ``on_active`` and ``on_specs`` with the trigger's index; deactivation is ignored."""
        self._readers: list[StreamReader[bool] | StreamReader[tuple[ExternalSpec, ...]]] = []
        for trigger in triggers:
            parameters = trigger.parameters
            if not isinstance(parameters, ExternalTrigger) or not parameters.is_push:
                continue
            name = f"{'/'.join(key)} trigger {trigger.index}"

            def client(parameters: ExternalTrigger = parameters) -> ExternalScalerClient:
                return sources.external_client(key, parameters)

            def take_activity(is_active: bool, trigger: Trigger = trigger) -> None:
                if is_active:
                    on_active(trigger.index)

            def take_specs(specs: tuple[ExternalSpec, ...], trigger: Trigger = trigger) -> None:
                if specs:
                    on_specs(trigger.index, reported_specs(trigger, specs))

            open_activity = ExternalScalerClient.open_activity_stream
            self._readers.append(
                StreamReader(f"{name}: activity", client, open_activity, take_activity)
            )
            open_specs = ExternalScalerClient.open_spec_stream
            self._readers.append(
                StreamReader(f"{name}: specs", client, open_specs, take_specs, is_optional=True)
            )
        for reader in self._readers:
            reader.start()

    def stop(self) -> None:
        """End the streams; what is being worked on is finished."""
        for reader in self._readers:
            reader.stop()


def next_delay(delay_seconds: float, *, is_reset: bool) -> tuple[float, float]:
    """Return the wait before a stream is opened again, and the one after that."""
    now = FIRST_DELAY_SECONDS if is_reset else delay_seconds
    return now, min(2 * now, LONGEST_DELAY_SECONDS)


class StreamReader(Generic[Message]):
    """Gives each message to ``on_message`` from its own thread, and opens the stream again."""

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
                try:
                    self._on_message(message)
                except NotReady as error:
                    log.warning("%s: a message is lost: %s", self._name, error)
        finally:
            client.close()
