"""The streams of an object's external-push triggers: activity, and specs where they are served."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lagbench.adapters.grpc.external_scaler_client import ExternalScalerClient, ExternalSpec
from lagbench.adapters.kube.cluster_protocol import ObjectKey
from lagbench.core.keda.loop import MetricSpec
from lagbench.core.keda.object import Trigger
from lagbench.core.keda.triggers import ExternalTrigger
from lagbench.programs.autoscaler.sources.external_scaler import reported_specs
from lagbench.programs.autoscaler.sources.server_stream import StreamReader
from lagbench.programs.autoscaler.sources.trigger_sources import TriggerSources


class PushStreams:
    """Open from ``start`` to ``stop``, one connection per trigger and stream."""

    def __init__(
        self,
        key: ObjectKey,
        triggers: Sequence[Trigger],
        sources: TriggerSources,
        *,
        on_active: Callable[[int], None],
        on_specs: Callable[[int, Sequence[MetricSpec]], None],
    ) -> None:
        """Call ``on_active`` and ``on_specs`` with the trigger's index; deactivation is ignored."""
        self._key = key
        self._sources = sources
        self._on_active = on_active
        self._on_specs = on_specs
        self._readers: list[StreamReader[bool] | StreamReader[tuple[ExternalSpec, ...]]] = []
        for trigger in triggers:
            if isinstance(trigger.parameters, ExternalTrigger) and trigger.parameters.is_push:
                self._add(trigger, trigger.parameters)

    def start(self) -> None:
        """Open the streams."""
        for reader in self._readers:
            reader.start()

    def stop(self) -> None:
        """End the streams; what is being worked on is finished."""
        for reader in self._readers:
            reader.stop()

    def _add(self, trigger: Trigger, parameters: ExternalTrigger) -> None:
        name = f"{'/'.join(self._key)} trigger {trigger.index}"

        def client() -> ExternalScalerClient:
            return self._sources.external_client(self._key, parameters)

        def take_activity(is_active: bool) -> None:
            if is_active:
                self._on_active(trigger.index)

        def take_specs(specs: tuple[ExternalSpec, ...]) -> None:
            if specs:
                self._on_specs(trigger.index, reported_specs(trigger, specs))

        self._readers.append(
            StreamReader(
                f"{name}: activity",
                client,
                ExternalScalerClient.open_activity_stream,
                take_activity,
            )
        )
        self._readers.append(
            StreamReader(
                f"{name}: specs",
                client,
                ExternalScalerClient.open_spec_stream,
                take_specs,
                is_optional=True,
            )
        )
