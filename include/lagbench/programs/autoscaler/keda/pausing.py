"""Pause and resume an object by its annotations, as KEDA does."""

from __future__ import annotations

from typing import Any

from lagbench.adapters.kube.cluster_protocol import HPA, Manifest
from lagbench.core.hpa import ScaleTarget
from lagbench.core.keda.object import ScalingAnnotations
from lagbench.programs.autoscaler.conditions import condition_of
from lagbench.programs.autoscaler.keda.reconcile import CheckFailed
from lagbench.programs.autoscaler.keda.scaled_object_status import (
    PAUSED,
    READY_WHILE_PAUSED,
    UNPAUSED,
)
from lagbench.programs.autoscaler.status_writer import StatusWriter
from lagbench.programs.autoscaler.worker_context import WorkerContext


class Pausing:
    """Keeps the Paused condition of one object, and its target while it is paused wholly."""

    def __init__(self, context: WorkerContext, status: StatusWriter) -> None:
        """Continue from the condition in the status."""
        self._context = context
        self._status = status

    @property
    def is_reported(self) -> bool:
        """Return whether the status says that the object is paused."""
        return condition_of(self._status.status, "Paused").get("status") == "True"

    def report(self, manifest: Manifest, annotations: ScalingAnnotations) -> None:
        """Write the condition and its event when the annotations changed it.

        KEDA calls an object paused also when only one direction is.
        """
        is_paused = (
            annotations.is_paused or annotations.scale_in_paused or annotations.scale_out_paused
        )
        if is_paused == self.is_reported:
            return
        condition = PAUSED if is_paused else UNPAUSED
        self._status.write({}, [condition])
        self._context.keda_events.record(manifest, "Normal", condition.reason, condition.message)

    def hold(self, manifest: Manifest, annotations: ScalingAnnotations) -> None:
        """Remove the HPA and set the count that is asked for; the loop has been stopped."""
        cluster, namespace = self._context.cluster, manifest["metadata"]["namespace"]
        self.report(manifest, annotations)
        cluster.delete(HPA, (namespace, _hpa_name(manifest, self._status.status)))
        if annotations.paused_replicas_problem:
            raise CheckFailed(annotations.paused_replicas_problem, event="ScaledObjectCheckFailed")
        fields: dict[str, Any] = {"pausedReplicaCount": annotations.paused_replicas}
        target = _target(manifest)
        if annotations.paused_replicas is not None and target is not None:
            scale = cluster.get_scale(target, namespace)
            if scale.spec_replicas != annotations.paused_replicas:
                cluster.set_replicas(target, namespace, annotations.paused_replicas)
        self._status.write(fields, [READY_WHILE_PAUSED])


def _target(manifest: Manifest) -> ScaleTarget | None:
    """Return the target without reading the rest: a paused object's triggers are not looked at."""
    given = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    if not given.get("name"):
        return None
    return ScaleTarget(
        api_version=given.get("apiVersion") or "apps/v1",
        kind=given.get("kind") or "Deployment",
        name=str(given["name"]),
    )


def _hpa_name(manifest: Manifest, status: dict[str, Any]) -> str:
    return str(status.get("hpaName") or f"keda-hpa-{manifest['metadata']['name']}")
