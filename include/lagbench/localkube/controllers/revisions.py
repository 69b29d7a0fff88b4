"""Keep the pod templates that a workload has had, as ControllerRevisions.

A pod below a rolling update's partition is created again from an earlier template, and
``kubectl rollout history`` and ``undo`` read them.
"""

from __future__ import annotations

from collections.abc import Collection

from lagbench.localkube.controllers.owned_pods import hash_of
from lagbench.localkube.objects import (
    JsonObject,
    controller_uid,
    copy_of,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import CONTROLLER_REVISION

REVISION_LABEL = "controller-revision-hash"
_HASH_LABEL = "controller.kubernetes.io/hash"


class Revisions:
    """The revisions of the StatefulSets in the store."""

    def __init__(self, registry: Registry, deletion: Deletion) -> None:
        """Write through ``registry``."""
        self._registry, self._deletion = registry, deletion

    def newest(self, workload: JsonObject) -> str:
        """Return the name of the present template's revision; make it the newest one."""
        template = workload["spec"]["template"]
        template_hash = hash_of(template)
        name = f"{name_of(workload)}-{template_hash}"
        self._adopt(workload, name)
        known = self._of(workload)
        number = max((int(found["revision"]) for found in known), default=0)
        mine = next((found for found in known if name_of(found) == name), None)
        if mine is None:
            self._registry.create(
                CONTROLLER_REVISION,
                {
                    "metadata": {
                        "name": name,
                        "labels": {**labels_of(template), _HASH_LABEL: template_hash},
                        "ownerReferences": [owner_reference(workload)],
                    },
                    "data": {"spec": {"template": {**copy_of(template), "$patch": "replace"}}},
                    "revision": number + 1,
                },
                namespace_of(workload),
            )
        elif int(mine["revision"]) < number:

            def renumber(revision: JsonObject) -> None:
                revision["revision"] = number + 1

            place = namespace_of(workload)
            self._registry.change(CONTROLLER_REVISION, place, name, renumber)
        return name

    def exists(self, workload: JsonObject, name: object) -> bool:
        """Return whether the workload has a revision of that name."""
        return any(name_of(found) == name for found in self._of(workload))

    def template(self, workload: JsonObject, name: str) -> JsonObject:
        """Return a copy of the pod template of a revision."""
        found = self._registry.store.get(CONTROLLER_REVISION, namespace_of(workload), name)
        template: JsonObject = copy_of(found["data"]["spec"]["template"])
        del template["$patch"]
        return template

    def forget(self, workload: JsonObject, in_use: Collection[str]) -> None:
        """Delete the oldest unused revisions beyond ``revisionHistoryLimit``."""
        unused = [found for found in self._of(workload) if name_of(found) not in in_use]
        surplus = len(unused) - int(workload["spec"]["revisionHistoryLimit"])
        for found in sorted(unused, key=lambda it: int(it["revision"]))[: max(0, surplus)]:
            self._deletion.delete(CONTROLLER_REVISION, found)

    def _adopt(self, workload: JsonObject, name: str) -> None:
        """Take over a revision that an earlier workload of this name has left."""

        def edit(revision: JsonObject) -> None:
            if controller_uid(revision) is None:
                revision["metadata"]["ownerReferences"] = [owner_reference(workload)]

        self._registry.change(CONTROLLER_REVISION, namespace_of(workload), name, edit)

    def _of(self, workload: JsonObject) -> list[JsonObject]:
        held = self._registry.store.select(CONTROLLER_REVISION, namespace_of(workload))
        return [found for found in held if controller_uid(found) == uid_of(workload)]
