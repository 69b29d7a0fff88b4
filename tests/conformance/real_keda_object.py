"""The ScaledObject of a replay: its generations, annotations and pauses, and its HPA object."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from lagbench.core.hpa.hpa_object import parse_hpa
from lagbench.core.keda.loop.keda_hpa import build_hpa
from lagbench.core.keda.loop.keda_runtime import KedaObject
from lagbench.core.keda.loop.metric_readings import MetricHealth
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import (
    ScalingAnnotations,
    parse_scaling_annotations,
)
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.errors import NotReady
from tests.conformance.real_keda_hpa import ReplayedHpa
from tests.conformance.real_keda_scalers import TraceScalers
from tests.conformance.real_keda_trace import Line, Trace


class ReplayedObject:
    """The operator's state of the object: KEDA's runtime while there is an HPA."""

    def __init__(self, trace: Trace, scalers: TraceScalers) -> None:
        """Take the object as it was applied; nothing runs before its HPA exists."""
        self.keda: KedaObject | None = None
        self.hpa: ReplayedHpa | None = None
        self._trace, self._scalers = trace, scalers
        self._manifest: Line = copy.deepcopy(trace.scaled_object)
        self._created_at = trace.applied_at
        self._health: Mapping[str, MetricHealth] = {}
        self._last_active_at_ns: int | None = None

    @property
    def annotations(self) -> ScalingAnnotations:
        """The present values of the annotations."""
        return parse_scaling_annotations(self._manifest)

    def take_spec(self, spec: Line) -> None:
        """Start a new generation."""
        self._manifest = {**self._manifest, "spec": spec}
        if self.keda is not None:
            self._open()

    def annotate(self, annotations: Line | None) -> None:
        """Take the annotations as they are now: neither scalers nor loop start again."""
        metadata = {**self._manifest["metadata"], "annotations": dict(annotations or {})}
        self._manifest = {**self._manifest, "metadata": metadata}
        if self.keda is not None:
            self.keda.annotate(self.annotations)

    def create_hpa(self) -> str:
        """Begin with a new HPA object; returns what stands against it, as ``update_hpa``."""
        self._open()
        self.hpa = ReplayedHpa(self._trace)
        return self.update_hpa()

    def update_hpa(self) -> str:
        """Bring the HPA up to date; returns why that is impossible, empty when it is not."""
        if self.keda is None or self.hpa is None:
            return ""
        try:
            specs = self.keda.metric_specs()
        except NotReady as error:
            return f"no HPA could be made: {error}"
        metadata: dict[str, Any] = {"uid": "u", **self._manifest["metadata"]}
        hpa = build_hpa(self.keda.spec, metadata, specs)
        self.hpa.spec = parse_hpa(hpa, where=self._trace.name)
        return ""

    def end_hpa(self) -> None:
        """Lose the HPA, as at a pause: the loop and the scalers go with it."""
        self._remember()
        if self.keda is not None:
            self.keda.close()
        self.keda = self.hpa = None

    def delete(self, at: float) -> bool:
        """Delete the object; says whether it restores the replicas of the beginning."""
        restores = self.keda is not None and self.keda.spec.restores_replicas
        self.end_hpa()
        self._health, self._last_active_at_ns, self._created_at = {}, None, at
        return restores

    def _open(self) -> None:
        """Start KEDA's runtime; counters and the last activity are carried over in the status."""
        self._remember()
        if self.keda is not None:
            self.keda.close()
        self.keda = KedaObject(
            parse_scaled_object(self._manifest, where=self._trace.name),
            self._scalers.build,
            created_at_ns=int(self._created_at) * NS_PER_SECOND,
            last_active_at_ns=self._last_active_at_ns,
            health=self._health,
        )

    def _remember(self) -> None:
        if self.keda is not None:
            self._health = dict(self.keda.health)
            self._last_active_at_ns = self.keda.last_active_at_ns
