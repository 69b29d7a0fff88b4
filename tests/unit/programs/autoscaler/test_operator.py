"""The operator's two follow threads on the same workers, one step at a time."""

from __future__ import annotations

from typing import Any, cast

from tests.fakes.autoscaler_world import HPA_KEY, KEY, scaled_object, world

from lagbench.programs.autoscaler.keda.scaled_object_worker import ScaledObjectWorker
from lagbench.programs.autoscaler.operator import Operator


class ChangedMeanwhile:
    """A worker; while its HPA's name is read, the other thread finds one more ScaledObject."""

    def __init__(self, workers: dict[Any, Any]) -> None:
        """Add to ``workers``."""
        self._workers = workers
        self.mended = 0

    @property
    def hpa_name(self) -> str:
        """Return the name, after the change."""
        self._workers[("n", f"later-{len(self._workers)}")] = self
        return HPA_KEY[1]

    def mend_hpa(self) -> None:
        """Count the call."""
        self.mended += 1


def test_an_hpa_is_mended_while_the_scaled_objects_change() -> None:
    """A ScaledObject that is found or deleted meanwhile does not end the follower of the HPAs."""
    operator = Operator(world(scaled_object()).context)
    worker = ChangedMeanwhile(operator._scaled_objects)
    operator._scaled_objects[KEY] = cast("ScaledObjectWorker", worker)

    operator._mend_hpa(HPA_KEY)

    assert worker.mended == 1
