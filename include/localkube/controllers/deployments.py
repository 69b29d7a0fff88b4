"""Run the Deployment controller: keep the requested number of pods of the current template."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from localkube.controllers.controller import Controller, hash_of
from localkube.kinds import DEPLOYMENT, POD
from localkube.kube_objects import CREATED_AT_NS, READY_AT_NS, JsonObject, KubeObject, set_condition
from localkube.storage.object_registry import random_suffix

HASH_LABEL = "pod-template-hash"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class DeploymentController(Controller):
    """Reconciles Deployments. They own their pods directly, without a ReplicaSet."""

    resource = DEPLOYMENT

    def reconcile(self, workload: KubeObject) -> None:
        """Scale, or replace the pods of earlier templates."""
        spec, template_hash = workload.spec, hash_of(workload.spec["template"])
        wanted, is_recreated = int(spec["replicas"]), spec["strategy"]["type"] == "Recreate"

        def is_new(pod: KubeObject) -> bool:
            return pod.labels.get(HASH_LABEL) == template_hash

        pods = self.active_pods(workload)
        new, old = [p for p in pods if is_new(p)], [p for p in pods if not is_new(p)]
        if spec.get("paused"):
            # A paused Deployment still scales, with the pods of whatever template it has.
            self._scale(workload, template_hash, new, max(0, wanted - len(old)))
        elif old and is_recreated:
            self._scale(workload, template_hash, old, 0)
        elif old:
            self._roll(workload, template_hash, new, old)
        elif not is_recreated or all(map(is_new, self.pods(workload))):
            self._scale(workload, template_hash, new, wanted)
        self._write_counts(workload, template_hash)

    def _roll(
        self,
        deployment: KubeObject,
        template_hash: str,
        new: list[KubeObject],
        old: list[KubeObject],
    ) -> None:
        """Replace old pods by new ones within maxSurge and maxUnavailable."""
        wanted = int(deployment.spec["replicas"])
        surge, unavailable = roll_limits(deployment.spec["strategy"]["rollingUpdate"], wanted)
        room = max(0, wanted + surge - len(new) - len(old))
        self._scale(deployment, template_hash, new, min(len(new) + room, wanted))
        # Delete all old pods that are not available; of the others as many as the limit allows.
        useless = [pod for pod in old if self.seconds_until_available(deployment, pod) != 0]
        are_ready = [self.seconds_until_available(deployment, pod) == 0 for pod in [*new, *old]]
        spare = max(0, sum(are_ready) - (wanted - unavailable))
        self._scale(deployment, template_hash, old, max(0, len(old) - len(useless) - spare))

    def _scale(
        self, deployment: KubeObject, template_hash: str, pods: list[KubeObject], wanted: int
    ) -> None:
        """Create pods of the template, or delete some of ``pods``, until there are ``wanted``."""
        name, has = deployment.name, len(pods)
        if has == wanted:
            return
        direction, shown_hash = ("up", template_hash) if has < wanted else ("down", "")
        shown_hash = shown_hash or pods[0].labels.get(HASH_LABEL, "")

        def tell(reason: str, text: str) -> None:
            self.events.record(deployment, "Normal", reason, text)

        text = f"Scaled {direction} replica set {name}-{shown_hash} from {has} to {wanted}"
        tell("ScalingReplicaSet", text)
        for _ in range(wanted - has):
            pod_name = f"{name}-{template_hash}-{random_suffix()}"
            labels, template = {HASH_LABEL: template_hash}, deployment.spec["template"]
            self.create_pod(deployment, template, pod_name, labels)
            tell("SuccessfulCreate", f"Created pod: {pod_name}")
        for pod in scale_down_order(pods)[: max(0, has - wanted)]:
            self.deletion.delete(POD, pod)
            tell("SuccessfulDelete", f"Deleted pod: {pod.name}")

    def _write_counts(self, deployment: KubeObject, template_hash: str) -> None:
        """Write the pod counts. As on a cluster, ``replicas`` excludes terminating pods."""
        spec, pods, now = deployment.spec, self.active_pods(deployment), self.registry.now()
        wanted = int(spec["replicas"])
        available = sum(self.seconds_until_available(deployment, pod) == 0 for pod in pods)
        updated = sum(pod.labels.get(HASH_LABEL) == template_hash for pod in pods)
        limits = spec["strategy"].get("rollingUpdate") or {"maxUnavailable": 0}
        holds = available >= wanted - roll_limits({"maxSurge": 1, **limits}, wanted)[1]
        is_done = updated == available == len(pods) == wanted

        def edit(status: JsonObject) -> JsonObject:
            fresh: JsonObject = {
                "observedGeneration": deployment.metadata["generation"],
                "replicas": len(pods),
                "updatedReplicas": updated,
                "readyReplicas": sum(pod.is_ready for pod in pods),
                "availableReplicas": available,
                "unavailableReplicas": max(0, wanted - available),
                "conditions": list(status.get("conditions") or ()),
            }
            reason = "MinimumReplicasAvailable" if holds else "MinimumReplicasUnavailable"
            set_condition(fresh, "Available", holds=holds, at=now, reason=reason)
            reason = "NewReplicaSetAvailable" if is_done else "ReplicaSetUpdated"
            set_condition(fresh, "Progressing", holds=True, at=now, reason=reason)
            return fresh

        self.write_status(deployment, edit)


def roll_limits(rolling: JsonObject, wanted: int) -> tuple[int, int]:
    """Return how many pods may be surplus and how many may be missing during a rollout.

    A percentage is rounded up for surplus pods and down for missing ones. With both at 0 the
    rollout could never start, so then one pod may be missing.
    """

    def share(limit: object, rounding: Callable[[float], int]) -> int:
        if isinstance(limit, str) and limit.endswith("%"):
            return rounding(wanted * int(limit[:-1]) / 100)
        return int(str(limit))

    surge = share(rolling["maxSurge"], math.ceil)
    unavailable = share(rolling["maxUnavailable"], math.floor)
    return surge, min(unavailable or int(surge == 0), wanted)


def scale_down_order(pods: Sequence[KubeObject]) -> list[KubeObject]:
    """Return pods in the order in which a scale-down deletes them.

    Kubernetes' order: pending before running, not ready before ready, lower deletion cost first,
    ready for a shorter time first, more restarts first, younger first. Kubernetes compares the
    times in powers of two and breaks such ties at random; here the youngest pod is always deleted,
    so that a run can be repeated.
    """

    def rank(pod: KubeObject) -> tuple[bool, bool, int, int, int, int]:
        notes = pod.annotations
        return (
            pod.status.get("phase") == "Running",
            pod.is_ready,
            int(notes.get(_DELETION_COST, "0")),
            -int(notes.get(READY_AT_NS, "0")),
            -sum(status.get("restartCount", 0) for status in pod.container_statuses),
            -int(notes.get(CREATED_AT_NS, "0")),
        )

    return sorted(pods, key=rank)
