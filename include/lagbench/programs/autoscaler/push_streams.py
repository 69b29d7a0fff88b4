"""The streams of an object's external-push triggers: activity, and specs where they are served."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lagbench.adapters.grpc.external_scaler_client import ExternalScalerClient, ServerStream
from lagbench.adapters.kube.cluster_protocol import ObjectKey
from lagbench.core.keda.loop.scaler import MetricSpec
from lagbench.core.keda.object.spec import Trigger
from lagbench.core.keda.triggers.other_types import ExternalTrigger
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.trigger_sources import LiveSources, reported_specs

log = logging.getLogger(__name__)

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
        self._readers: list[StreamReader] = []

        def take_activity(trigger: Trigger, is_active: bool) -> None:
            if is_active:
                on_active(trigger.index)

        def take_specs(trigger: Trigger, specs: Any) -> None:
            if specs:
                on_specs(trigger.index, reported_specs(trigger, specs))

        open_activity, open_specs = (
            ExternalScalerClient.open_activity_stream,
            ExternalScalerClient.open_spec_stream,
        )
        for trigger in triggers:
            parameters = trigger.parameters
            if not isinstance(parameters, ExternalTrigger) or not parameters.is_push:
                continue
            name = f"{'/'.join(key)} trigger {trigger.index}"
            client = partial(sources.external_client, key, parameters)
            self._readers += [
                StreamReader(name, client, open_activity, partial(take_activity, trigger)),
                StreamReader(
                    name, client, open_specs, partial(take_specs, trigger), is_optional=True
                ),
            ]
        for reader in self._readers:
            reader.start()

    def stop(self) -> None:
        """End the streams; what is being worked on is finished."""
        for reader in self._readers:
            reader.stop()


class StreamReader(threading.Thread):
    """Gives each message to ``on_message``, and opens the stream again when it ends."""

    def __init__(
        self,
        name: str,
        open_client: Callable[[], ExternalScalerClient],
        open_stream: Callable[[ExternalScalerClient], ServerStream[Any]],
        on_message: Callable[[Any], None],
        *,
        is_optional: bool = False,
    ) -> None:
        """Read nothing before ``start``; each opening has a client of its own.

        An optional stream is given up when the server does not know it, and a message is enough
        to forget earlier failures; of the other kind only a clean end is.
        """
        super().__init__(name=name, daemon=True)
        self._open_client, self._open_stream = open_client, open_stream
        self._on_message, self._is_optional = on_message, is_optional
        self._is_over = threading.Event()
        self._stream: ServerStream[Any] | None = None
        self._messages = 0  # of the present stream

    def stop(self) -> None:
        """End the stream; a message that is being worked on is finished."""
        self._is_over.set()
        if self._stream is not None:
            self._stream.cancel()

    def run(self) -> None:
        """Read until stopped."""
        delay_seconds = FIRST_DELAY_SECONDS
        while not self._is_over.is_set():
            self._messages, is_clean = 0, True
            try:
                self._read_one_stream()
            except NotReady as error:
                is_unknown = self._is_optional and getattr(error, "is_unimplemented", False)
                if self._is_over.is_set() or is_unknown:
                    return
                log.warning("%s: %s", self.name, error)
                is_clean = False
            if is_clean or (self._is_optional and self._messages):
                delay_seconds = FIRST_DELAY_SECONDS
            self._is_over.wait(delay_seconds)
            delay_seconds = min(2 * delay_seconds, LONGEST_DELAY_SECONDS)

    def _read_one_stream(self) -> None:
        client = self._open_client()
        try:
            stream = self._stream = self._open_stream(client)
            if self._is_over.is_set():  # stopped before there was a stream to cancel
                stream.cancel()
            for message in stream:
                self._messages += 1
                try:
                    self._on_message(message)
                except NotReady as error:
                    log.warning("%s: a message is lost: %s", self.name, error)
        finally:
            client.close()
