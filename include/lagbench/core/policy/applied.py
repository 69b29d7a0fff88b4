"""Compare stored scaling objects with a policy: what the cluster does against what was applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from lagbench.core.hpa.controller_flags import metric_text
from lagbench.core.hpa.hpa_object import HpaSpec, parse_behavior, parse_hpa
from lagbench.core.keda.loop.keda_hpa import build_hpa
from lagbench.core.keda.loop.scalers import trigger_metric_spec
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
from lagbench.errors import WrongInput

SCALED_OBJECT, HPA = "ScaledObject", "HorizontalPodAutoscaler"
_SAME = ""


class AppliedPolicy:
    """A policy as the cluster should hold it."""

    def __init__(self, manifest: Mapping[str, Any], spec: ScaledObjectSpec | HpaSpec) -> None:
        """Build the HPA that KEDA makes of a ScaledObject."""
        self._manifest, self._spec = manifest, spec
        metadata = manifest.get("metadata") or {}
        self.name = str(metadata.get("name"))
        self.is_whole = True
        """False: an external scaler names its metrics itself."""
        if isinstance(spec, HpaSpec):
            self.hpa_name = self.name
            self._hpa = {**manifest}
            return
        self.hpa_name = spec.hpa_name
        metrics = [trigger_metric_spec(trigger) for trigger in spec.triggers]
        known = [metric for metric in metrics if metric is not None]
        self.is_whole = len(known) == len(metrics) or spec.modifiers is not None
        self._hpa = build_hpa(spec, {"uid": "", **metadata}, known)

    def has(self, kind: str) -> bool:
        """Return whether the cluster has an object of ``kind``; KEDA deletes a paused one's HPA."""
        if kind == SCALED_OBJECT:
            return isinstance(self._spec, ScaledObjectSpec)
        return not self.declares_pause

    @property
    def declares_pause(self) -> bool:
        """True: the manifest itself pauses the scaling."""
        spec = self._spec
        return isinstance(spec, ScaledObjectSpec) and spec.annotations.is_paused

    def lets_keda_write(self, before: int, after: int) -> bool:
        """Return whether KEDA's operator may make this step: to or from 0, idle, pause, floor."""
        spec = self._spec
        if not isinstance(spec, ScaledObjectSpec):
            return False
        rests = {0, spec.floor, spec.idle_replica_count, spec.annotations.paused_replicas}
        return before in {0, spec.idle_replica_count} or after in rests

    def hpa_reading_problem(
        self, least: int | None, most: int | None, targets: Sequence[str]
    ) -> str:
        """Return how bounds and targets that were read of the HPA differ; empty: they do not.

        :param most: None: an older recorder did not report the bounds.
        """
        spec = self._hpa["spec"]
        bounds = (
            ("minReplicas", 1 if least is None else least, spec.get("minReplicas", 1)),
            ("maxReplicas", most, spec["maxReplicas"]),
        )
        for title, seen, applied in bounds if most is not None else ():
            if seen != applied:
                return f"{title} {seen}, applied {applied}"
        applied = sorted(metric_text(metric, "target") for metric in spec.get("metrics") or [])
        if self.is_whole and targets and applied and sorted(targets) != applied:
            return f"targets {'; '.join(targets)}, applied {'; '.join(applied)}"
        return _SAME

    def difference(
        self, kind: str, name: str, spec: Mapping[str, Any], annotations: Mapping[str, Any] | None
    ) -> str:
        """Return the first field in which a stored object means another than this; empty: none.

        :param annotations: those of a ScaledObject; None: not known, then the applied ones.
        """
        applied: BaseModel
        try:
            if kind == SCALED_OBJECT and isinstance(self._spec, ScaledObjectSpec):
                metadata = dict(self._manifest.get("metadata") or {})
                if annotations is not None:
                    metadata["annotations"] = annotations
                stored = {**self._manifest, "metadata": metadata, "spec": spec}
                found: BaseModel = parse_scaled_object(stored, where=name)
                applied = self._spec
            elif kind == HPA and self.is_whole:
                found = parse_hpa({"spec": spec}, where=name)
                applied = parse_hpa(self._hpa, where="policy.yaml")
            else:
                return _SAME
        except WrongInput as problem:
            return f"the stored spec is none that the bench knows ({problem})"
        return _first_difference(_meant(found), _meant(applied), "") or _SAME


def _meant(spec: BaseModel) -> dict[str, Any]:
    """Return the fields of a spec; KEDA's operator writes a tolerance of 0.05 back as 50m."""
    fields = spec.model_dump()
    if isinstance(spec, ScaledObjectSpec) and spec.behavior is not None:
        behavior = parse_behavior(spec.behavior, where=spec.name, field="behavior")
        fields["behavior"] = behavior and behavior.model_dump()
    return fields


def _first_difference(found: Any, applied: Any, path: str) -> str | None:
    if isinstance(found, Mapping) and isinstance(applied, Mapping):
        pairs = [(key, found.get(key), applied.get(key)) for key in applied]
    elif isinstance(found, list | tuple) and len(found) == len(applied):
        pairs = [(place, *pair) for place, pair in enumerate(zip(found, applied, strict=True))]
    elif found == applied:
        return None
    else:
        first, *rest = path.split("_")
        field = first + "".join(word.capitalize() for word in rest)
        return f"{field} {_shown(found)}, applied {_shown(applied)}"
    below = (_first_difference(of, to, f"{path}.{key}".strip(".")) for key, of, to in pairs)
    return next((difference for difference in below if difference is not None), None)


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"{len(value)} entries"
    return "none" if value is None else str(value)
