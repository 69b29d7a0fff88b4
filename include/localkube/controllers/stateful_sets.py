"""Run the StatefulSet controller: pods with lasting names, started and stopped in order.

Each pod template that a StatefulSet has had is kept as a ControllerRevision. A pod below a rolling
update's partition is created again from an earlier one, and ``kubectl rollout history`` and
``undo`` read them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from localkube.controllers.controller import Controller, hash_of
from localkube.kinds import CONTROLLER_REVISION, POD, STATEFUL_SET
from localkube.kube_objects import ApiError, JsonObject, KubeObject, label_matcher, selector_string

REVISION_LABEL = "controller-revision-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_HASH_LABEL = "controller.kubernetes.io/hash"
_ORDINAL = re.compile(r"(.*)-(\d+)")


class StatefulSetController(Controller):
    """Reconciles StatefulSets."""

    resource = STATEFUL_SET

    def reconcile(self, workload: KubeObject) -> None:
        """Take the next steps in the order of the ordinals."""
        self._adopt(workload)
        update = self._newest_revision(workload)
        current = workload.status.get("currentRevision")
        if all(found.name != current for found in self._revisions(workload)):
            current = update
        wanted = wanted_of(workload, str(current), update)
        pods = self._numbered(workload)
        steps = next_steps(wanted, self._replicas(workload, pods))
        for ordinal in steps.create:
            self._create(workload, ordinal, wanted.revision_of(ordinal))
        for ordinal in steps.delete:
            self.deletion.delete(POD, pods[ordinal])
            self._did(workload, "Delete", pods[ordinal].name)
        self._write_counts(workload, wanted)
        in_use = {pod.labels.get(REVISION_LABEL, "") for pod in pods.values()}
        self._forget_revisions(workload, {*in_use, wanted.current_revision, update})

    def _numbered(self, stateful_set: KubeObject) -> dict[int, KubeObject]:
        """Return the pods by their ordinals."""
        numbered = [(ordinal_of(stateful_set, pod), pod) for pod in self.pods(stateful_set)]
        return {ordinal: pod for ordinal, pod in numbered if ordinal is not None}

    def _adopt(self, stateful_set: KubeObject) -> None:
        """Take over pods without an owner that have a name and the labels of this StatefulSet."""
        matches = label_matcher(selector_string(stateful_set.spec["selector"]))

        def edit(pod: KubeObject) -> None:
            pod.metadata["ownerReferences"] = [*pod.owners, stateful_set.reference()]

        for pod in self.registry.store.select(POD, stateful_set.namespace):
            is_mine = ordinal_of(stateful_set, pod) is not None and matches(pod.labels)
            if is_mine and pod.controller_uid is None and not pod.is_terminating:
                self.registry.change(POD, *pod.key, edit)

    def _replicas(self, stateful_set: KubeObject, pods: dict[int, KubeObject]) -> list[Replica]:
        return [
            Replica(
                ordinal=ordinal,
                revision=pod.labels.get(REVISION_LABEL, ""),
                is_available=self.seconds_until_available(stateful_set, pod) == 0,
                is_terminating=pod.is_terminating,
                has_ended=pod.has_ended,
            )
            for ordinal, pod in pods.items()
        ]

    def _create(self, stateful_set: KubeObject, ordinal: int, revision: str) -> None:
        name = f"{stateful_set.name}-{ordinal}"
        found = self.registry.store.get(CONTROLLER_REVISION, stateful_set.namespace, revision)
        template: JsonObject = found.copy()["data"]["spec"]["template"]
        template["spec"]["hostname"] = name
        if service := stateful_set.spec.get("serviceName"):
            template["spec"]["subdomain"] = service
        labels = {REVISION_LABEL: revision, POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}
        try:
            self.create_pod(stateful_set, template, name, labels)
        except ApiError as error:
            text = f"create Pod {name} failed error: {error.message}"
            self.events.record(stateful_set, "Warning", "FailedCreate", text)
            raise
        self._did(stateful_set, "Create", name)

    def _did(self, stateful_set: KubeObject, what: str, pod: str) -> None:
        text = f"{what.lower()} Pod {pod} in StatefulSet {stateful_set.name} successful"
        self.events.record(stateful_set, "Normal", f"Successful{what}", text)

    def _write_counts(self, stateful_set: KubeObject, wanted: Wanted) -> None:
        """Write the pod counts. As on a cluster, ``replicas`` includes terminating pods."""
        pods = self._numbered(stateful_set)
        replicas, ready = self._replicas(stateful_set, pods), sum(p.is_ready for p in pods.values())
        status = counts(wanted, replicas, ready=ready)
        status["observedGeneration"] = stateful_set.metadata["generation"]
        status["collisionCount"] = 0
        self.write_status(stateful_set, lambda _: status)

    def _revisions(self, stateful_set: KubeObject) -> list[KubeObject]:
        held = self.registry.store.select(CONTROLLER_REVISION, stateful_set.namespace)
        return [found for found in held if found.controller_uid == stateful_set.uid]

    def _newest_revision(self, stateful_set: KubeObject) -> str:
        """Return the name of the present template's revision; make it the newest one.

        One that an earlier StatefulSet of this name has left is taken over.
        """
        template, place = stateful_set.copy().spec["template"], stateful_set.namespace
        template_hash, owners = hash_of(template), [stateful_set.reference()]
        name = f"{stateful_set.name}-{template_hash}"
        others = [found for found in self._revisions(stateful_set) if found.name != name]
        newest = max((int(found["revision"]) for found in others), default=0)

        def renew(revision: KubeObject) -> None:
            if revision.controller_uid is None:
                revision.metadata["ownerReferences"] = owners
            if int(revision["revision"]) <= newest:
                revision["revision"] = newest + 1

        if self.registry.change(CONTROLLER_REVISION, place, name, renew) is None:
            labels = (template.get("metadata") or {}).get("labels") or {}
            labels = {**labels, _HASH_LABEL: template_hash}
            revision = {
                "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
                "data": {"spec": {"template": {**template, "$patch": "replace"}}},
                "revision": newest + 1,
            }
            self.registry.create(CONTROLLER_REVISION, revision, place)
        return name

    def _forget_revisions(self, stateful_set: KubeObject, in_use: Collection[str]) -> None:
        """Delete the oldest unused revisions beyond ``revisionHistoryLimit``."""
        unused = [found for found in self._revisions(stateful_set) if found.name not in in_use]
        surplus = len(unused) - int(stateful_set.spec["revisionHistoryLimit"])
        for found in sorted(unused, key=lambda it: int(it["revision"]))[: max(0, surplus)]:
            self.deletion.delete(CONTROLLER_REVISION, found)


def ordinal_of(stateful_set: KubeObject, pod: KubeObject) -> int | None:
    """Return the number in the pod's name; None if it has no name of this StatefulSet."""
    found = _ORDINAL.fullmatch(pod.name)
    return int(found[2]) if found and found[1] == stateful_set.name else None


def wanted_of(stateful_set: KubeObject, current: str, update: str) -> Wanted:
    """Return what the spec asks, with the names of the two revisions."""
    spec = stateful_set.spec
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """The spec of a StatefulSet, with the names of its two revisions."""

    replicas: int
    current_revision: str
    update_revision: str
    start: int = 0
    is_parallel: bool = False
    partition: int | None = 0
    """None: OnDelete, a pod gets the new revision only after a client has deleted it."""

    @property
    def ordinals(self) -> range:
        """The ordinals of the pods that should exist."""
        return range(self.start, self.start + self.replicas)

    def revision_of(self, ordinal: int) -> str:
        """Return the revision with which a pod is created now."""
        stays = self.partition is not None and ordinal < self.start + self.partition
        return self.current_revision if stays else self.update_revision


@dataclass(frozen=True, slots=True)
class Replica:
    """One existing pod of a StatefulSet."""

    ordinal: int
    revision: str
    is_available: bool = True
    """Running and ready, for ``minReadySeconds``."""
    is_terminating: bool = False
    has_ended: bool = False

    @property
    def is_healthy(self) -> bool:
        """True: an ordered step may follow."""
        return self.is_available and not self.is_terminating


@dataclass(frozen=True, slots=True)
class Steps:
    """Ordinals of the pods to create and to delete now, in this order."""

    create: tuple[int, ...] = ()
    delete: tuple[int, ...] = ()


def next_steps(wanted: Wanted, replicas: Sequence[Replica]) -> Steps:
    """Return what can be done now; each change of a pod asks again."""
    existing = {replica.ordinal: replica for replica in replicas}
    create, delete = list[int](), list[int]()
    for ordinal in wanted.ordinals:
        found = existing.get(ordinal)
        if found is None:
            create.append(ordinal)
        elif found.has_ended and not found.is_terminating:
            delete.append(ordinal)
        is_blocked = found is None or found.has_ended or not found.is_healthy
        if is_blocked and not wanted.is_parallel:
            return Steps(tuple(create), tuple(delete))
    surplus, is_done = _surplus(wanted, existing)
    delete += surplus
    if is_done:
        delete += [ordinal for ordinal in _outdated(wanted, existing) if ordinal not in delete]
    return Steps(tuple(create), tuple(delete))


def _surplus(wanted: Wanted, existing: Mapping[int, Replica]) -> tuple[list[int], bool]:
    """Return the ordinals to remove now, and whether the rolling update may continue."""
    outside = [existing[n] for n in sorted(existing) if n not in wanted.ordinals]
    if wanted.is_parallel:
        return [r.ordinal for r in reversed(outside) if not r.is_terminating], True
    if not outside:
        return [], True
    highest = outside[-1]
    first_unhealthy = next((r for r in outside if not r.is_healthy), highest)
    if highest.is_terminating or (not highest.is_available and highest != first_unhealthy):
        return [], False
    return [highest.ordinal], False


def _outdated(wanted: Wanted, existing: Mapping[int, Replica]) -> list[int]:
    """Return the pod to replace now by one of the new revision: at most one at a time."""
    if wanted.partition is None:
        return []
    for ordinal in reversed(wanted.ordinals[wanted.partition :]):
        found = existing.get(ordinal)
        if found is None:
            return []
        if found.revision != wanted.update_revision and not found.is_terminating:
            return [ordinal]
        if not found.is_healthy:
            return []
    return []
