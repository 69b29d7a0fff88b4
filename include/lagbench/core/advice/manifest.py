"""Write a candidate as a complete ScaledObject: the present one, with what the search has set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lagbench.core.hpa.controller_flags import KUBERNETES_ANNOTATION
from lagbench.core.object_schema import value_at
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import LAG_THRESHOLD_ANNOTATION, calls_lag_scaler
from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION

_SOURCE = {
    "bootstrapServers": "kafka:9092",
    "topic": "events",
    "consumerGroup": "enrich",
    "offsetResetPolicy": "earliest",
}
_LAG_SCALER = "lagbench-lag-scaler.lagbench.svc.cluster.local:6000"
_PROMETHEUS = "http://prometheus.lagbench:9090"
_SET = ("minReplicaCount", "maxReplicaCount", "idleReplicaCount", "triggers", "advanced")
_OWN_ANNOTATIONS = (WINDOWS_ANNOTATION, KUBERNETES_ANNOTATION, LAG_THRESHOLD_ANNOTATION)


@dataclass(frozen=True)
class Rules:
    """One direction of ``behavior``; a window or a tolerance of None is Kubernetes' own."""

    policies: tuple[tuple[str, int, int], ...]  # type, value, periodSeconds; none: the defaults
    window: int | None
    tolerance: float | None = None

    @property
    def written(self) -> dict[str, Any]:
        """The rules as an HPA has them."""
        found: dict[str, Any] = {}
        if self.window is not None:
            found["stabilizationWindowSeconds"] = self.window
        if self.policies:
            found["policies"] = [
                {"type": kind, "value": value, "periodSeconds": period}
                for kind, value, period in self.policies
            ]
        if self.tolerance is not None:
            found["tolerance"] = f"{self.tolerance:g}"
        return found


@dataclass(frozen=True)
class Skeleton:
    """The part of the present policy that every candidate keeps; without one: the catalog's."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    advanced: Mapping[str, Any]
    lag_trigger: Mapping[str, Any]  # KEDA's kafka trigger
    lag_scaler: str
    prometheus: str

    @classmethod
    def of(cls, present: Policy | None) -> Skeleton:
        """Return the skeleton; of an HPA only name, namespace and target are taken."""
        manifest: Mapping[str, Any] = {} if present is None else present.manifest
        written, given = manifest.get("spec") or {}, manifest.get("metadata") or {}
        metadata = {"name": given.get("name", "consumer")}
        metadata["namespace"] = given.get("namespace", "lagbench")
        if labels := given.get("labels"):
            metadata["labels"] = labels
        notes = given.get("annotations") or {}
        if kept := {key: notes[key] for key in notes if key not in _OWN_ANNOTATIONS}:
            metadata["annotations"] = kept
        triggers = written.get("triggers") or ()
        of_lag = [one for one in triggers if one["type"] == "kafka"]
        scalers = [
            one
            for one in triggers
            if one["type"].startswith("external") and calls_lag_scaler(one["type"], one["metadata"])
        ]
        source: Mapping[str, Any] = (*of_lag, *scalers, {"metadata": _SOURCE})[0]
        names = {key: source["metadata"][key] for key in _SOURCE if key in source["metadata"]}
        trigger = {"type": "kafka", "metadata": source["metadata"] if of_lag else names}
        if reference := source.get("authenticationRef"):
            trigger["authenticationRef"] = reference
        spec = {"scaleTargetRef": written.get("scaleTargetRef", {"name": "consumer"})}
        is_object = manifest.get("kind") == "ScaledObject"
        spec |= {key: value for key, value in written.items() if is_object and key not in _SET}
        return cls(
            metadata=metadata,
            spec=spec,
            advanced=(written.get("advanced") or {}) if is_object else {},
            lag_trigger=trigger,
            lag_scaler=next((one["metadata"]["scalerAddress"] for one in scalers), _LAG_SCALER),
            prometheus=next(
                (
                    one["metadata"]["serverAddress"]
                    for one in triggers
                    if one["type"] == "prometheus"
                ),
                _PROMETHEUS,
            ),
        )

    def scaled_object(
        self,
        replicas: tuple[int, int],  # floor and ceiling
        triggers: Sequence[Mapping[str, Any]],
        rules: tuple[Rules, Rules],  # up and down
        annotations: Mapping[str, str],
    ) -> dict[str, Any]:
        """Return a complete ScaledObject."""
        behavior = {"scaleUp": rules[0].written, "scaleDown": rules[1].written}
        config = value_at(self.advanced, "horizontalPodAutoscalerConfig") or {}
        advanced = {key: one for key, one in self.advanced.items() if key != "scalingModifiers"}
        advanced["horizontalPodAutoscalerConfig"] = {
            **config,
            "behavior": {side: rules for side, rules in behavior.items() if rules},
        }
        metadata = dict(self.metadata)
        if notes := {**(metadata.get("annotations") or {}), **annotations}:
            metadata["annotations"] = notes
        return {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": metadata,
            "spec": {
                **self.spec,
                "minReplicaCount": replicas[0],
                "maxReplicaCount": replicas[1],
                "advanced": advanced,
                "triggers": list(triggers),
            },
        }

    def kafka(self, threshold: int, activation: int = 0) -> dict[str, Any]:
        """Return KEDA's trigger on lag."""
        metadata = {**self.lag_trigger["metadata"], "lagThreshold": str(threshold)}
        metadata.pop("activationLagThreshold", None)
        if activation:
            metadata["activationLagThreshold"] = str(activation)
        return {**self.lag_trigger, "metadata": metadata}

    def external(self, threshold: int, rule: Mapping[str, str], *, is_push: bool) -> dict[str, Any]:
        """Return the lag scaler's trigger."""
        given = self.lag_trigger["metadata"]
        metadata = {key: given[key] for key in _SOURCE if key in given}
        metadata |= {"scalerAddress": self.lag_scaler, "lagThreshold": str(threshold), **rule}
        return {"type": "external-push" if is_push else "external", "metadata": metadata}

    def backlog(self, pod_rate: float, seconds: int, window: int) -> dict[str, Any]:
        """Return rate + backlog / SLO as a Prometheus query; the threshold is a pod's rate."""
        given = self.lag_trigger["metadata"]
        topic, group = given.get("topic", ""), given.get("consumerGroup", "")
        ends = f'sum(rate(kafka_topic_partition_current_offset{{topic="{topic}"}}[{window}s]))'
        lag = f'sum(kafka_consumergroup_lag{{consumergroup="{group}", topic="{topic}"}})'
        return {
            "type": "prometheus",
            "metadata": {
                "serverAddress": self.prometheus,
                "query": f"{ends} + {lag} / {seconds}",
                "threshold": f"{pod_rate:g}",
                "ignoreNullValues": "false",
            },
        }
