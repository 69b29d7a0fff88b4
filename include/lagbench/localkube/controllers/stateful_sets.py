"""Run the StatefulSet controller: pods with lasting names, started and stopped in order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from lagbench.core.kubernetes import is_ready, selector_string
from lagbench.core.scenario import POD_ORDINAL_ANNOTATION
from lagbench.localkube.api_error import ApiError
from lagbench.localkube.controllers.events import EventRecorder
from lagbench.localkube.controllers.owned_pods import (
    has_ended,
    owned_pods,
    seconds_until_available,
)
from lagbench.localkube.controllers.reconciler import Reconciler
from lagbench.localkube.controllers.revisions import REVISION_LABEL, Revisions
from lagbench.localkube.controllers.stateful_set_steps import Replica, Wanted, next_steps
from lagbench.localkube.objects import (
    JsonObject,
    annotations_of,
    controller_uid,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import POD, STATEFUL_SET
from lagbench.localkube.storage.selectors import label_matcher

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_ORDINAL = re.compile(r"(.*)-(\d+)")


class StatefulSetController:
    """Reconciles StatefulSets."""

    def __init__(self, registry: Registry, deletion: Deletion, events: EventRecorder) -> None:
        """Follow the registry's store."""
        self._registry, self._deletion, self._events = registry, deletion, events
        self._revisions = Revisions(registry, deletion)
        self._created: Counter[str] = Counter()  # pods created so far, by the StatefulSet's uid
        self._reconciler = Reconciler(registry.store, STATEFUL_SET, self._reconcile)

    def close(self) -> None:
        """Stop reconciling; leave the pods as they are."""
        self._reconciler.close()

    def _reconcile(self, stateful_set: JsonObject) -> None:
        if is_terminating(stateful_set):
            return
        self._adopt(stateful_set)
        update = self._revisions.newest(stateful_set)
        current = (stateful_set.get("status") or {}).get("currentRevision")
        if not self._revisions.exists(stateful_set, current):
            current = update
        wanted = wanted_of(stateful_set, str(current), update)
        pods = self._pods(stateful_set)
        replicas = [self._replica(stateful_set, n, pod) for n, pod in pods.items()]
        steps = next_steps(wanted, replicas)
        for ordinal in steps.create:
            self._create(stateful_set, ordinal, wanted.revision_of(ordinal))
        for ordinal in steps.delete:
            self._delete(stateful_set, pods[ordinal])
        self._write_status(stateful_set, wanted)
        revisions = {labels_of(pod).get(REVISION_LABEL, "") for pod in pods.values()}
        self._revisions.forget(stateful_set, {*revisions, wanted.current_revision, update})

    def _pods(self, stateful_set: JsonObject) -> dict[int, JsonObject]:
        """Return the pods by their ordinals."""
        pods = owned_pods(self._registry, stateful_set)
        numbered = [(ordinal_of(stateful_set, pod), pod) for pod in pods]
        return {ordinal: pod for ordinal, pod in numbered if ordinal is not None}

    def _adopt(self, stateful_set: JsonObject) -> None:
        """Take over pods without an owner that have a name and the labels of this StatefulSet."""
        matches = label_matcher(selector_string(stateful_set["spec"]["selector"]))

        def edit(pod: JsonObject) -> None:
            owners = pod["metadata"].setdefault("ownerReferences", [])
            owners.append(owner_reference(stateful_set))

        for pod in self._registry.store.select(POD, namespace_of(stateful_set)):
            is_mine = ordinal_of(stateful_set, pod) is not None and matches(labels_of(pod))
            if is_mine and controller_uid(pod) is None and not is_terminating(pod):
                self._registry.change(POD, namespace_of(pod), name_of(pod), edit)

    def _replica(self, stateful_set: JsonObject, ordinal: int, pod: JsonObject) -> Replica:
        left = seconds_until_available(stateful_set, pod, self._registry.now_ns())
        if left:
            self._reconciler.look_again(stateful_set, left)
        return Replica(
            ordinal=ordinal,
            revision=labels_of(pod).get(REVISION_LABEL, ""),
            is_available=left == 0,
            is_terminating=is_terminating(pod),
            has_ended=has_ended(pod),
        )

    def _create(self, stateful_set: JsonObject, ordinal: int, revision: str) -> None:
        template = self._revisions.template(stateful_set, revision)
        name, metadata = f"{name_of(stateful_set)}-{ordinal}", template["metadata"]
        number = self._created[uid_of(stateful_set)]
        spec = {**template["spec"], "hostname": name}
        if service := stateful_set["spec"].get("serviceName"):
            spec["subdomain"] = service
        pod = {
            "metadata": {
                "name": name,
                "labels": {
                    **(metadata.get("labels") or {}),
                    REVISION_LABEL: revision,
                    POD_NAME_LABEL: name,
                    POD_INDEX_LABEL: str(ordinal),
                },
                "annotations": {**annotations_of(template), POD_ORDINAL_ANNOTATION: str(number)},
                "ownerReferences": [owner_reference(stateful_set)],
            },
            "spec": spec,
        }
        did = f"create Pod {name} in StatefulSet {name_of(stateful_set)}"
        try:
            self._registry.create(POD, pod, namespace_of(stateful_set))
        except ApiError as error:
            message = f"{did} failed error: {error.message}"
            self._events.warning(stateful_set, "FailedCreate", message)
            raise
        self._created[uid_of(stateful_set)] += 1
        self._events.normal(stateful_set, "SuccessfulCreate", f"{did} successful")

    def _delete(self, stateful_set: JsonObject, pod: JsonObject) -> None:
        self._deletion.delete(POD, pod)
        did = f"delete Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)}"
        self._events.normal(stateful_set, "SuccessfulDelete", f"{did} successful")

    def _write_status(self, stateful_set: JsonObject, wanted: Wanted) -> None:
        """Write the pod counts. As on a cluster, ``replicas`` includes terminating pods."""
        pods = self._pods(stateful_set)
        replicas = [self._replica(stateful_set, n, pod) for n, pod in pods.items()]
        status = counts(wanted, replicas, ready=sum(map(is_ready, pods.values())))
        status["observedGeneration"] = stateful_set["metadata"]["generation"]
        status["collisionCount"] = 0

        def edit(obj: JsonObject) -> None:
            obj["status"] = status

        place = namespace_of(stateful_set)
        self._registry.change(STATEFUL_SET, place, name_of(stateful_set), edit)


def ordinal_of(stateful_set: JsonObject, pod: JsonObject) -> int | None:
    """Return the number in the pod's name; None if it has no name of this StatefulSet."""
    found = _ORDINAL.fullmatch(name_of(pod))
    return int(found[2]) if found and found[1] == name_of(stateful_set) else None


def wanted_of(stateful_set: JsonObject, current: str, update: str) -> Wanted:
    """Return what the spec asks, with the names of the two revisions."""
    spec = stateful_set["spec"]
    strategy = spec["updateStrategy"]
    rolling = strategy.get("rollingUpdate") or {}
    return Wanted(
        replicas=int(spec["replicas"]),
        current_revision=current,
        update_revision=update,
        start=int((spec.get("ordinals") or {}).get("start") or 0),
        is_parallel=spec["podManagementPolicy"] == "Parallel",
        partition=None if strategy["type"] == "OnDelete" else int(rolling.get("partition") or 0),
    )


def counts(wanted: Wanted, replicas: Sequence[Replica], *, ready: int) -> JsonObject:
    """Return the status of pods and revisions; a completed rolling update ends in one revision."""
    staying = [replica for replica in replicas if not replica.is_terminating]
    updated = sum(replica.revision == wanted.update_revision for replica in staying)
    status: JsonObject = {
        "replicas": len(replicas),
        "readyReplicas": ready,
        "availableReplicas": sum(replica.is_available for replica in replicas),
        "currentReplicas": sum(r.revision == wanted.current_revision for r in staying),
        "updatedReplicas": updated,
        "currentRevision": wanted.current_revision,
        "updateRevision": wanted.update_revision,
    }
    is_rolling = wanted.partition is not None
    if is_rolling and updated == ready == len(replicas) == wanted.replicas:
        status["currentReplicas"], status["currentRevision"] = updated, wanted.update_revision
    return status
