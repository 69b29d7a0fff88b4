"""Failure counters of an object's metrics (status.health), with KEDA's two diverging copies.

The scale loop reads the stored counters at each tick. The HPA's path counts on the copy that came
with the scaler cache, and a write sends only what changed in its own copy: a counter that the loop
has raised meanwhile can therefore step back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricHealth:
    """Consecutive failures of one metric, and whether the last poll failed."""

    failures: int = 0
    is_failing: bool = False


HEALTHY = MetricHealth()


class HealthBook:
    """The stored counters, and the HPA path's copy of them while it has one of its own."""

    def __init__(self, stored: Mapping[str, MetricHealth] | None = None) -> None:
        """Continue from the counters in the object's status."""
        self.stored: dict[str, MetricHealth] = dict(stored or {})
        self._hpa_copy: dict[str, MetricHealth] | None = None

    def copy_for_hpa(self) -> None:
        """Give the HPA's path its own copy: the scalers were built outside the scale loop."""
        self._hpa_copy = dict(self.stored)

    def share_with_hpa(self) -> None:
        """Let the HPA's path use the stored counters: the scale loop has built the scalers."""
        self._hpa_copy = None

    @property
    def has_hpa_copy(self) -> bool:
        """Return whether the HPA's path has a copy of its own."""
        return self._hpa_copy is not None

    def keep_only(self, names: Collection[str]) -> None:
        """Drop counters of metrics that the object no longer has."""
        self.stored = {name: item for name, item in self.stored.items() if name in names}

    def seen_by(self, metric_name: str, *, for_hpa: bool) -> MetricHealth | None:
        """Return a counter as one of the two paths sees it; None: never counted."""
        return self._copy(for_hpa=for_hpa).get(metric_name)

    def succeed(self, metric_name: str, *, for_hpa: bool) -> None:
        """Reset a counter."""
        own = self._copy(for_hpa=for_hpa)
        # Nothing changes at nearly every poll of a working trigger.
        if own.get(metric_name) != HEALTHY:
            self._write(metric_name, HEALTHY, for_hpa=for_hpa)

    def fail(self, metric_name: str, *, for_hpa: bool) -> int:
        """Count one failure and return how many the path has counted by now."""
        before = self._copy(for_hpa=for_hpa).get(metric_name, HEALTHY)
        self._write(metric_name, MetricHealth(before.failures + 1, True), for_hpa=for_hpa)
        return before.failures + 1

    def exceeds(self, failure_threshold: int) -> bool:
        """Return whether any metric has failed more often than the fallback tolerates."""
        return any(
            item.is_failing and item.failures > failure_threshold for item in self.stored.values()
        )

    def _copy(self, *, for_hpa: bool) -> dict[str, MetricHealth]:
        if for_hpa and self._hpa_copy is not None:
            return self._hpa_copy
        return self.stored

    def _write(self, metric_name: str, new: MetricHealth, *, for_hpa: bool) -> None:
        before, stored = (
            self._copy(for_hpa=for_hpa).get(metric_name),
            self.stored.get(metric_name, HEALTHY),
        )
        if before is None:
            self.stored[metric_name] = new
        else:
            # A merge patch holds the fields that differ from the writer's own copy, no others.
            self.stored[metric_name] = MetricHealth(
                new.failures if new.failures != before.failures else stored.failures,
                new.is_failing if new.is_failing != before.is_failing else stored.is_failing,
            )
        if for_hpa and self._hpa_copy is not None:
            # The API's answer to the patch becomes the writer's copy.
            self._hpa_copy = dict(self.stored)
