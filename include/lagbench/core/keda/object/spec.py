"""Define the parsed spec of a ScaledObject."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from lagbench.core.hpa import ScaleTarget
from lagbench.core.keda.object.annotations import ScalingAnnotations
from lagbench.core.keda.object.fallback import Fallback
from lagbench.core.keda.object.scaling_modifiers import ScalingModifiers
from lagbench.core.keda.object.trigger import Trigger


class ScaledObjectSpec(BaseModel):
    """The spec of a ScaledObject; None where KEDA distinguishes absent from zero."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    namespace: str
    target: ScaleTarget
    polling_interval_seconds: int = 30
    cooldown_seconds: int = 300
    initial_cooldown_seconds: int = 0
    idle_replica_count: int | None = None
    min_replica_count: int | None = None
    max_replica_count: int = 100
    hpa_name: str
    behavior: dict[str, Any] | None = None  # verbatim: the API server applies its defaults
    restores_replicas: bool = False
    triggers: tuple[Trigger, ...]
    fallback: Fallback | None = None
    modifiers: ScalingModifiers | None = None
    annotations: ScalingAnnotations = ScalingAnnotations()

    @property
    def floor(self) -> int:
        """Return minReplicaCount as the scale loop takes it: absent is 0."""
        return self.min_replica_count or 0

    @property
    def uses_cached_metrics(self) -> bool:
        """Return whether any trigger serves the scale loop's value to the HPA."""
        return any(trigger.uses_cached_metrics for trigger in self.triggers)

    @property
    def valid_fallback(self) -> Fallback | None:
        """Return the fallback unless it is one that KEDA silently does without."""
        if self.modifiers is not None and not self.modifiers.allows_fallback:
            return None
        return self.fallback

    @property
    def has_only_resources(self) -> bool:
        """Return whether no trigger is KEDA's to poll, which counts as always active."""
        return all(trigger.is_resource for trigger in self.triggers)
