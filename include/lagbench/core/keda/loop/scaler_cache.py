"""The scalers of one ScaledObject: built together, retried alone, thrown away together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lagbench.core.keda.loop.scaler import (
    MetricReading,
    MetricSpec,
    Scaler,
    ScalerBuilder,
    ScalerFailed,
    ScalersNotBuilt,
)
from lagbench.core.keda.object.spec import Trigger
from lagbench.errors import NotReady


class ScalerCache:
    """Owns one scaler per trigger from the first use until an error or ``clear``."""

    def __init__(
        self,
        triggers: Sequence[Trigger],
        build: ScalerBuilder,
        on_built: Callable[[Trigger], None],
    ) -> None:
        """Build nothing yet; ``on_built`` hears of each scaler that is made."""
        self._triggers = triggers
        self._build = build
        self._on_built = on_built
        self._scalers: list[Scaler] = []
        self._streamed: dict[int, tuple[MetricSpec, ...]] = {}

    @property
    def is_built(self) -> bool:
        """Return whether the scalers exist."""
        return bool(self._scalers)

    def build_all(self) -> None:
        """Build every scaler; one that cannot be built fails them all."""
        scalers: list[Scaler] = []
        for trigger in self._triggers:
            try:
                scalers.append(self._build(trigger))
            except NotReady as error:
                for scaler in scalers:
                    scaler.close()
                raise ScalersNotBuilt(str(error)) from error
            self._on_built(trigger)
        self._scalers = scalers

    def clear(self) -> None:
        """Throw all scalers away, with what they remember and what was streamed for them."""
        scalers, self._scalers = self._scalers, []
        self._streamed.clear()
        for scaler in scalers:
            scaler.close()

    def stream_specs(self, index: int, specs: Sequence[MetricSpec]) -> bool:
        """Take specs that a push scaler has streamed; False when they cannot be taken."""
        if not specs or not self._scalers:
            return False
        self._streamed[index] = tuple(specs)
        return True

    def known_specs(self, index: int) -> Sequence[MetricSpec]:
        """Return a trigger's specs without a retry; none if its server does not report them."""
        if index in self._streamed:
            return self._streamed[index]
        try:
            return self._scalers[index].metric_specs()
        except NotReady:
            return ()

    def specs(self, index: int) -> Sequence[MetricSpec]:
        """Return a trigger's specs; an empty answer is asked for again with a fresh scaler."""
        specs = self.known_specs(index)
        if specs:
            return specs
        try:
            specs = self._refresh(index).metric_specs()
        except ScalersNotBuilt as error:
            raise ScalerFailed(str(error)) from error
        except NotReady:
            specs = ()
        if not specs:
            raise ScalerFailed("got empty metric spec")
        return specs

    def read(self, index: int, metric_name: str) -> MetricReading:
        """Return a reading; a failing scaler gets one more chance with a fresh one."""
        try:
            return self._scalers[index].read(metric_name)
        except NotReady:
            pass
        try:
            return self._refresh(index).read(metric_name)
        except NotReady as error:
            # Also a scaler that cannot be built again is one failed poll here.
            raise ScalerFailed(str(error)) from error

    def _refresh(self, index: int) -> Scaler:
        trigger = self._triggers[index]
        fresh = self._build(trigger)
        self._on_built(trigger)
        self._scalers[index].close()
        self._scalers[index] = fresh
        return fresh
