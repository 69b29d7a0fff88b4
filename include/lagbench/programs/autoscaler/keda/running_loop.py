"""Run a ScaledObject: its scale loop and the streams of push triggers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from lagbench.adapters.kube.cluster_protocol import Manifest, key_of
from lagbench.core.keda.loop import MetricSpec
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.keda.live_object import LiveObject
from lagbench.programs.autoscaler.keda.push_streams import PushStreams
from lagbench.programs.autoscaler.keda.scale_loop import ScaleLoop
from lagbench.programs.autoscaler.status_writer import StatusWriter
from lagbench.programs.autoscaler.worker_context import WorkerContext

log = logging.getLogger(__name__)


class RunningLoop:
    """Polls on request, and acts on pushes by itself, until stopped."""

    def __init__(
        self,
        live: LiveObject,
        context: WorkerContext,
        status: StatusWriter,
        *,
        latest: Callable[[], Manifest],
        on_new_specs: Callable[[], None],
    ) -> None:
        """Open the streams; the object is looked up by ``latest`` when something happens.

        ``on_new_specs`` is called from a stream's thread when the HPA must be created again.
        """
        self._live = live
        self._loop = ScaleLoop(live, context, status)
        self._latest = latest
        self._on_new_specs = on_new_specs
        self._is_stopped = False
        self._name = "/".join(key_of(latest()))
        self._streams = PushStreams(
            key_of(latest()),
            live.spec.triggers,
            context.sources,
            on_active=self._pushed,
            on_specs=self._streamed,
        )
        self._streams.start()

    @property
    def polling_interval_seconds(self) -> float:
        """The wait between two polls."""
        return float(self._live.spec.polling_interval_seconds)

    def poll(self) -> None:
        """Do one round of the scale loop."""
        try:
            self._loop.tick(self._latest())
        except NotReady as error:
            log.warning("%s: poll failed: %s", self._name, error)

    def stop(self) -> None:
        """End the streams; what one of them is acting on is finished."""
        self._is_stopped = True
        self._streams.stop()

    def _pushed(self, trigger_index: int) -> None:
        if self._is_stopped:
            return
        try:
            self._loop.push(self._latest(), trigger_index)
        except NotReady as error:
            log.warning("%s: push of trigger %d lost: %s", self._name, trigger_index, error)

    def _streamed(self, trigger_index: int, specs: Sequence[MetricSpec]) -> None:
        try:
            if not self._is_stopped and self._live.stream_specs(trigger_index, specs):
                self._on_new_specs()
        except NotReady as error:
            log.warning("%s: streamed specs lost: %s", self._name, error)
