"""Pods, status and revisions that the StatefulSet controller writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lagbench.localkube.controllers.events import EventRecorder
from lagbench.localkube.controllers.stateful_set_steps import Replica, Wanted
from lagbench.localkube.controllers.stateful_sets import StatefulSetController, counts
from lagbench.localkube.objects import JsonObject, copy_of, name_of
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import (
    CONTROLLER_REVISION,
    EVENT,
    NAMESPACE,
    POD,
    STATEFUL_SET,
)
from lagbench.localkube.storage.store import Store

PLACE = "bench"


class Cluster:
    """A store with the controller and no node: pods do what the test writes into them."""

    def __init__(self) -> None:
        """Start empty; needs a running event loop."""
        self.registry = Registry(Store())
        self.deletion = Deletion(self.registry)
        self.registry.create(NAMESPACE, {"metadata": {"name": PLACE}}, "")
        events = EventRecorder(self.registry, source="statefulset-controller")
        self.controller = StatefulSetController(self.registry, self.deletion, events)

    async def settle(self) -> None:
        """Let the controller work until it waits for a pod."""
        for _ in range(10):
            await asyncio.sleep(0)

    def create(self, **spec: Any) -> None:
        """Create the StatefulSet ``web``."""
        labels = {"app": "web"}
        template = {
            "metadata": {"labels": labels, "annotations": {"mine": "1"}},
            "spec": {"containers": [{"name": "main", "command": ["x"]}]},
        }
        given = {"selector": {"matchLabels": labels}, "template": template, "serviceName": "hosts"}
        manifest = {"metadata": {"name": "web"}, "spec": {**given, **spec}}
        self.registry.create(STATEFUL_SET, manifest, PLACE)

    def change(self, edit: Callable[[JsonObject], None]) -> None:
        """Change the StatefulSet as a client does."""
        obj = copy_of(self.registry.store.get(STATEFUL_SET, PLACE, "web"))
        edit(obj["spec"])
        self.registry.update(STATEFUL_SET, obj)

    def make_ready(self) -> None:
        """Make every pod run and be ready."""
        for pod in self.pods():
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": self.registry.now()}

            def edit(obj: JsonObject, ready: JsonObject = ready) -> None:
                obj["status"] = {"phase": "Running", "conditions": [ready]}

            self.registry.change(POD, PLACE, name_of(pod), edit)

    def end(self, name: str) -> None:
        """Remove a pod, as its node does when its processes have ended."""
        self.registry.store.remove(POD, PLACE, name)

    def pods(self) -> list[JsonObject]:
        """Return the pods by name."""
        return self.registry.store.select(POD, PLACE)

    def names(self) -> list[str]:
        """Return the names of the pods."""
        return [name_of(pod) for pod in self.pods()]

    def status(self) -> JsonObject:
        """Return the status of the StatefulSet."""
        found: JsonObject = self.registry.store.get(STATEFUL_SET, PLACE, "web")["status"]
        return found

    def revision_of(self, pod: str) -> str:
        """Return the name of a pod's revision."""
        found = self.registry.store.get(POD, PLACE, pod)
        return str(found["metadata"]["labels"]["controller-revision-hash"])


async def started(cluster: Cluster, **spec: Any) -> None:
    """Create a StatefulSet whose pods come at once, and make them ready."""
    cluster.create(podManagementPolicy="Parallel", **spec)
    await cluster.settle()
    cluster.make_ready()
    await cluster.settle()


def annotate_template(value: str) -> Callable[[JsonObject], None]:
    """Return a change that makes a new revision."""

    def edit(spec: JsonObject) -> None:
        spec["template"]["metadata"]["annotations"] = {"mine": value}

    return edit


def test_a_pod_carries_its_identity() -> None:
    """Name, host name, subdomain, labels and owner are those that a cluster gives."""

    async def check() -> None:
        cluster = Cluster()
        cluster.create(ordinals={"start": 3})
        await cluster.settle()

        pod = cluster.pods()[0]
        assert name_of(pod) == "web-3"
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-3", "hosts")
        labels = pod["metadata"]["labels"]
        assert labels["app"] == "web"
        assert labels["apps.kubernetes.io/pod-index"] == "3"
        assert labels["statefulset.kubernetes.io/pod-name"] == "web-3"
        assert labels["controller-revision-hash"] == cluster.status()["updateRevision"]
        assert pod["metadata"]["annotations"]["mine"] == "1"
        assert pod["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"

    asyncio.run(check())


def test_a_removed_pod_comes_back_with_its_name_and_another_uid() -> None:
    """The name stays, the object is a new one; while the old one ends, no other is created."""

    async def check() -> None:
        cluster = Cluster()
        await started(cluster, replicas=3)
        before = {name_of(pod): pod["metadata"]["uid"] for pod in cluster.pods()}

        cluster.deletion.delete(POD, cluster.pods()[1])
        await cluster.settle()
        assert {name_of(p): p["metadata"]["uid"] for p in cluster.pods()} == before
        cluster.end("web-1")
        await cluster.settle()

        after = {name_of(pod): pod["metadata"]["uid"] for pod in cluster.pods()}
        assert sorted(after) == sorted(before)
        assert after["web-1"] != before["web-1"]
        assert (after["web-0"], after["web-2"]) == (before["web-0"], before["web-2"])

    asyncio.run(check())


def test_an_update_goes_from_the_highest_and_ends_in_one_revision() -> None:
    """Pods are replaced one by one; then the current revision is the new one."""

    async def check() -> None:
        cluster = Cluster()
        await started(cluster, replicas=3)
        old = cluster.status()["currentRevision"]

        cluster.change(annotate_template("2"))
        order = []
        for _ in range(3):
            await cluster.settle()
            leaving = [p for p in cluster.pods() if "deletionTimestamp" in p["metadata"]]
            order += [name_of(pod) for pod in leaving]
            assert cluster.status()["currentRevision"] == old
            cluster.end(name_of(leaving[0]))
            await cluster.settle()
            cluster.make_ready()
        await cluster.settle()

        status = cluster.status()
        assert order == ["web-2", "web-1", "web-0"]
        assert status["currentRevision"] == status["updateRevision"] != old
        assert (status["updatedReplicas"], status["currentReplicas"]) == (3, 3)

    asyncio.run(check())


def test_a_pod_below_the_partition_comes_back_with_the_old_template() -> None:
    """The earlier template is kept as a ControllerRevision and used again."""

    async def check() -> None:
        cluster = Cluster()
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await started(cluster, replicas=2, updateStrategy=rolling)
        old = cluster.status()["currentRevision"]
        cluster.change(annotate_template("2"))
        await cluster.settle()

        cluster.end("web-1")
        await cluster.settle()

        pod = cluster.registry.store.get(POD, PLACE, "web-1")
        assert cluster.revision_of("web-1") == old != cluster.status()["updateRevision"]
        assert pod["metadata"]["annotations"]["mine"] == "1"
        assert cluster.status()["currentReplicas"] == 2
        assert cluster.status()["updatedReplicas"] == 0

    asyncio.run(check())


def test_going_back_to_an_earlier_template_uses_its_revision() -> None:
    """The revision gets the highest number instead of a second object."""

    async def check() -> None:
        cluster = Cluster()
        cluster.create(replicas=0)
        for value in ("2", "1"):
            await cluster.settle()
            cluster.change(annotate_template(value))
        await cluster.settle()

        found = cluster.registry.store.select(CONTROLLER_REVISION, PLACE)
        numbers = {name_of(revision): revision["revision"] for revision in found}
        assert sorted(numbers.values()) == [2, 3]
        assert numbers[cluster.status()["updateRevision"]] == 3

    asyncio.run(check())


def test_old_revisions_are_forgotten() -> None:
    """Beyond revisionHistoryLimit the oldest unused ones are deleted."""

    async def check() -> None:
        cluster = Cluster()
        cluster.create(replicas=0, revisionHistoryLimit=1)
        for value in ("2", "3", "4"):
            await cluster.settle()
            cluster.change(annotate_template(value))
        await cluster.settle()

        found = cluster.registry.store.select(CONTROLLER_REVISION, PLACE)
        assert sorted(revision["revision"] for revision in found) == [3, 4]

    asyncio.run(check())


def test_a_pod_is_available_after_min_ready_seconds() -> None:
    """Until then a ready pod is not available, and the next one in order waits."""

    async def check() -> None:
        cluster = Cluster()
        cluster.create(replicas=2, minReadySeconds=3600)
        await cluster.settle()
        cluster.make_ready()
        await cluster.settle()

        assert cluster.names() == ["web-0"]
        assert (cluster.status()["readyReplicas"], cluster.status()["availableReplicas"]) == (1, 0)
        cluster.controller.close()

    asyncio.run(check())


def test_pods_without_an_owner_are_taken_over() -> None:
    """Pods that an earlier StatefulSet of this name left with Orphan belong to the new one."""

    async def check() -> None:
        cluster = Cluster()
        await started(cluster, replicas=2)
        before = [pod["metadata"]["uid"] for pod in cluster.pods()]
        first = cluster.registry.store.get(STATEFUL_SET, PLACE, "web")
        cluster.deletion.delete(STATEFUL_SET, first, {"propagationPolicy": "Orphan"})
        assert not any(pod["metadata"].get("ownerReferences") for pod in cluster.pods())

        cluster.create(podManagementPolicy="Parallel", replicas=2)
        await cluster.settle()

        second = cluster.registry.store.get(STATEFUL_SET, PLACE, "web")
        owners = [pod["metadata"]["ownerReferences"][0]["uid"] for pod in cluster.pods()]
        assert owners == [second["metadata"]["uid"]] * 2
        assert [pod["metadata"]["uid"] for pod in cluster.pods()] == before

    asyncio.run(check())


def test_a_name_that_another_pod_has_is_an_event() -> None:
    """A pod that is not its own is left alone, and the reason can be read."""

    async def check() -> None:
        cluster = Cluster()
        spec = {"containers": [{"name": "main", "command": ["x"]}]}
        cluster.registry.create(POD, {"metadata": {"name": "web-0"}, "spec": spec}, PLACE)
        cluster.create()
        await cluster.settle()

        reasons = {event["reason"] for event in cluster.registry.store.select(EVENT, PLACE)}
        assert reasons == {"FailedCreate"}
        cluster.controller.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([Replica(0, "new"), Replica(1, "new")], (2, 2, 2, "new")),
        ([Replica(0, "old"), Replica(1, "new")], (2, 1, 1, "old")),
        ([Replica(0, "new"), Replica(1, "new", is_terminating=True)], (2, 0, 1, "old")),
    ],
)
def test_the_counts(replicas: list[Replica], expected: tuple[int, int, int, str]) -> None:
    """A terminating pod counts as a replica, but as a pod of neither revision."""
    wanted = Wanted(replicas=2, current_revision="old", update_revision="new")

    status = counts(wanted, replicas, ready=2)

    assert expected == (
        status["replicas"],
        status["currentReplicas"],
        status["updatedReplicas"],
        status["currentRevision"],
    )
