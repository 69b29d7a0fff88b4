"""Run the Deployment controller: keep the requested number of pods of the current template."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from lagbench.core.kubernetes import is_ready
from lagbench.core.scenario import POD_ORDINAL_ANNOTATION
from lagbench.localkube.controllers.events import EventRecorder
from lagbench.localkube.controllers.owned_pods import (
    has_ended,
    hash_of,
    owned_pods,
    seconds_until_available,
)
from lagbench.localkube.controllers.reconciler import Reconciler
from lagbench.localkube.objects import (
    CREATED_AT_NS,
    READY_AT_NS,
    JsonObject,
    annotations_of,
    copy_of,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    set_condition,
    uid_of,
)
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.registry import Registry, random_suffix
from lagbench.localkube.storage.resources import DEPLOYMENT, POD

HASH_LABEL = "pod-template-hash"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class DeploymentController:
    """Reconciles Deployments. They own their pods directly, without a ReplicaSet."""

    def __init__(self, registry: Registry, deletion: Deletion, events: EventRecorder) -> None:
        """Follow the registry's store."""
        self._registry, self._deletion, self._events = registry, deletion, events
        self._created: Counter[str] = Counter()  # pods created so far, by the Deployment's uid
        self._reconciler = Reconciler(registry.store, DEPLOYMENT, self._reconcile)

    def close(self) -> None:
        """Stop reconciling; leave the pods as they are."""
        self._reconciler.close()

    def _reconcile(self, deployment: JsonObject) -> None:
        if is_terminating(deployment):
            return
        wanted = int(deployment["spec"]["replicas"])
        template_hash = hash_of(deployment["spec"]["template"])
        pods = owned_pods(self._registry, deployment)
        active = [pod for pod in pods if not is_terminating(pod) and not has_ended(pod)]
        new = [pod for pod in active if labels_of(pod).get(HASH_LABEL) == template_hash]
        old = [pod for pod in active if labels_of(pod).get(HASH_LABEL) != template_hash]
        if deployment["spec"].get("paused"):
            # A paused Deployment still scales, with the pods of whatever template it has.
            self._scale(deployment, template_hash, new, wanted - len(old))
        elif not old:
            old_and_going = [p for p in pods if labels_of(p).get(HASH_LABEL) != template_hash]
            if deployment["spec"]["strategy"]["type"] == "Recreate" and old_and_going:
                self._write_status(deployment, template_hash)
                return
            self._scale(deployment, template_hash, new, wanted)
        elif deployment["spec"]["strategy"]["type"] == "Recreate":
            self._delete(deployment, old, len(old), 0)
        else:
            self._roll(deployment, template_hash, new, old)
        self._write_status(deployment, template_hash)

    def _roll(
        self,
        deployment: JsonObject,
        template_hash: str,
        new: list[JsonObject],
        old: list[JsonObject],
    ) -> None:
        """Replace old pods by new ones within maxSurge and maxUnavailable."""
        wanted = int(deployment["spec"]["replicas"])
        surge, unavailable = roll_limits(deployment["spec"]["strategy"]["rollingUpdate"], wanted)
        room = wanted + surge - len(new) - len(old)
        if room > 0 and len(new) < wanted:
            self._create(deployment, template_hash, len(new), min(len(new) + room, wanted))
        elif len(new) > wanted:
            self._delete(deployment, new, len(new), wanted)
        # Delete all old pods that are not available; of the others as many as the limit allows.
        useless = [pod for pod in old if not self._is_available(deployment, pod)]
        available = sum(self._is_available(deployment, pod) for pod in [*new, *old])
        spare = max(0, available - (wanted - unavailable))
        self._delete(deployment, old, len(old), max(0, len(old) - len(useless) - spare))

    def _scale(
        self, deployment: JsonObject, template_hash: str, pods: list[JsonObject], wanted: int
    ) -> None:
        wanted = max(0, wanted)
        if len(pods) < wanted:
            self._create(deployment, template_hash, len(pods), wanted)
        elif len(pods) > wanted:
            self._delete(deployment, pods, len(pods), wanted)

    def _create(self, deployment: JsonObject, template_hash: str, has: int, wanted: int) -> None:
        self._events.normal(
            deployment,
            "ScalingReplicaSet",
            f"Scaled up replica set {name_of(deployment)}-{template_hash} from {has} to {wanted}",
        )
        for _ in range(wanted - has):
            template = copy_of(deployment["spec"]["template"])
            metadata = template["metadata"]
            pod = {
                "metadata": {
                    "name": f"{name_of(deployment)}-{template_hash}-{random_suffix()}",
                    "labels": {**(metadata.get("labels") or {}), HASH_LABEL: template_hash},
                    "annotations": {
                        **(metadata.get("annotations") or {}),
                        POD_ORDINAL_ANNOTATION: str(self._next_ordinal(deployment)),
                    },
                    "ownerReferences": [owner_reference(deployment)],
                },
                "spec": template["spec"],
            }
            created = self._registry.create(POD, pod, namespace_of(deployment))
            self._events.normal(deployment, "SuccessfulCreate", f"Created pod: {name_of(created)}")

    def _next_ordinal(self, deployment: JsonObject) -> int:
        self._created[uid_of(deployment)] += 1
        return self._created[uid_of(deployment)] - 1

    def _delete(
        self, deployment: JsonObject, pods: list[JsonObject], has: int, wanted: int
    ) -> None:
        if wanted >= has:
            return
        template_hash = labels_of(pods[0]).get(HASH_LABEL, "")
        self._events.normal(
            deployment,
            "ScalingReplicaSet",
            f"Scaled down replica set {name_of(deployment)}-{template_hash} from {has} to {wanted}",
        )
        for pod in scale_down_order(pods)[: has - wanted]:
            self._deletion.delete(POD, pod)
            self._events.normal(deployment, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")

    def _is_available(self, deployment: JsonObject, pod: JsonObject) -> bool:
        """Return whether a pod was ready for ``minReadySeconds``; if not yet, look again then."""
        left = seconds_until_available(deployment, pod, self._registry.now_ns())
        if left:
            self._reconciler.look_again(deployment, left)
        return left == 0

    def _write_status(self, deployment: JsonObject, template_hash: str) -> None:
        """Write the pod counts. As on a cluster, ``replicas`` excludes terminating pods."""
        pods = [
            pod
            for pod in owned_pods(self._registry, deployment)
            if not is_terminating(pod) and not has_ended(pod)
        ]
        wanted = int(deployment["spec"]["replicas"])
        ready = sum(is_ready(pod) for pod in pods)
        available = sum(self._is_available(deployment, pod) for pod in pods)
        updated = sum(labels_of(pod).get(HASH_LABEL) == template_hash for pod in pods)
        now = self._registry.now()

        def edit(obj: JsonObject) -> None:
            status = obj.get("status") or {}
            fresh: JsonObject = {
                "observedGeneration": deployment["metadata"]["generation"],
                "replicas": len(pods),
                "updatedReplicas": updated,
                "readyReplicas": ready,
                "availableReplicas": available,
                "unavailableReplicas": max(0, wanted - available),
                "conditions": [dict(entry) for entry in status.get("conditions") or ()],
            }
            limits = deployment["spec"]["strategy"].get("rollingUpdate") or {"maxUnavailable": 0}
            needed = wanted - roll_limits({"maxSurge": 1, **limits}, wanted)[1]
            holds = available >= needed
            reason = "MinimumReplicasAvailable" if holds else "MinimumReplicasUnavailable"
            set_condition(fresh, "Available", holds=holds, at=now, reason=reason)
            is_done = updated == available == len(pods) == wanted
            reason = "NewReplicaSetAvailable" if is_done else "ReplicaSetUpdated"
            set_condition(fresh, "Progressing", holds=True, at=now, reason=reason)
            obj["status"] = fresh

        self._registry.change(DEPLOYMENT, namespace_of(deployment), name_of(deployment), edit)


def roll_limits(rolling: JsonObject, wanted: int) -> tuple[int, int]:
    """Return how many pods may be surplus and how many may be missing during a rollout.

    A percentage is rounded up for surplus pods and down for missing ones. With both at 0 the
    rollout could never start, so then one pod may be missing.
    """
    surge = _share(rolling["maxSurge"], wanted, math.ceil)
    unavailable = _share(rolling["maxUnavailable"], wanted, math.floor)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, wanted)


def _share(limit: object, wanted: int, rounding: Callable[[float], int]) -> int:
    if isinstance(limit, str) and limit.endswith("%"):
        return rounding(wanted * int(limit[:-1]) / 100)
    return int(str(limit))


def scale_down_order(pods: Sequence[JsonObject]) -> list[JsonObject]:
    """Return pods in the order in which a scale-down deletes them.

    Kubernetes' order: pending before running, not ready before ready, lower deletion cost first,
    ready for a shorter time first, more restarts first, younger first. Kubernetes compares the
    times in powers of two and breaks such ties at random; here the youngest pod is always deleted,
    so that a run can be repeated.
    """

    def rank(pod: JsonObject) -> tuple[bool, bool, int, int, int, int]:
        notes = annotations_of(pod)
        restarts = sum(
            status.get("restartCount", 0) for status in pod["status"].get("containerStatuses") or ()
        )
        return (
            pod["status"].get("phase") == "Running",
            is_ready(pod),
            int(notes.get(_DELETION_COST, "0")),
            -int(notes.get(READY_AT_NS, "0")),
            -restarts,
            -int(notes.get(CREATED_AT_NS, "0")),
        )

    return sorted(pods, key=rank)
