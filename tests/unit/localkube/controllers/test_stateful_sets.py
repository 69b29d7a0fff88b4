"""Pods, status and revisions that the StatefulSet controller writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lagbench.localkube.controllers.events import EventRecorder
from lagbench.localkube.controllers.stateful_sets import (
    Replica,
    StatefulSetController,
    Steps,
    Wanted,
    counts,
    next_steps,
)
from lagbench.localkube.kube_objects import JsonObject, copy_of, name_of
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.object_registry import Registry
from lagbench.localkube.storage.object_store import Store
from lagbench.localkube.storage.resources import (
    CONTROLLER_REVISION,
    EVENT,
    NAMESPACE,
    POD,
    STATEFUL_SET,
)

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


def wanted(replicas: int, **fields: Any) -> Wanted:
    """Return a spec that wants so many pods of the revision ``new``."""
    return Wanted(replicas, **{"current_revision": "new", "update_revision": "new", **fields})


def pods(*ordinals: int, **fields: Any) -> list[Replica]:
    """Return pods with these ordinals, healthy and of the revision ``new`` unless named."""
    return [Replica(ordinal, **{"revision": "new", **fields}) for ordinal in ordinals]


def sick(*ordinals: int, **fields: Any) -> list[Replica]:
    """Return pods that are not available."""
    return pods(*ordinals, is_available=False, **fields)


def old(*ordinals: int) -> list[Replica]:
    """Return pods of the revision before."""
    return pods(*ordinals, revision="old")


@pytest.mark.parametrize(
    ("replicas", "existing", "steps"),
    [
        (3, [], Steps(create=(0,))),  # the next pod waits for the one before
        (3, sick(0), Steps()),
        (3, pods(0), Steps(create=(1,))),
        (3, pods(0, 1, 2), Steps()),
        (1, pods(0, 1, 2, 3), Steps(delete=(3,))),  # the highest leaves alone
        (1, [*pods(0, 1, 2), *pods(3, is_terminating=True)], Steps()),
        (1, pods(0, 1, 2), Steps(delete=(2,))),
        (2, pods(0, 3), Steps(create=(1,))),  # none leaves while one that stays is missing
        (2, [*pods(1, 3), *sick(0)], Steps()),
        (1, [*pods(0, 1), *sick(2)], Steps(delete=(2,))),  # a sick one leaves only as the first
        (1, [*pods(0), *sick(1, 2)], Steps()),
    ],
)
def test_in_order(replicas: int, existing: list[Replica], steps: Steps) -> None:
    """OrderedReady takes one step at a time, and only while the pods below are available."""
    assert next_steps(wanted(replicas), existing) == steps


@pytest.mark.parametrize(
    ("replicas", "existing", "steps"),
    [
        (4, sick(1), Steps(create=(0, 2, 3))),
        (2, [*pods(0, 1, 2, 3), *pods(4, is_terminating=True)], Steps(delete=(3, 2))),
    ],
)
def test_in_parallel(replicas: int, existing: list[Replica], steps: Steps) -> None:
    """Parallel creates or deletes all at once, the highest first; one that leaves is left."""
    assert next_steps(wanted(replicas, is_parallel=True), existing) == steps


@pytest.mark.parametrize("is_parallel", [False, True])
def test_a_pod_that_has_ended_is_removed_and_then_created_again(is_parallel: bool) -> None:
    """A failed pod must be gone before its name can be used again."""
    spec = wanted(2, is_parallel=is_parallel)

    assert next_steps(spec, [*pods(0), *sick(1, has_ended=True)]) == Steps(delete=(1,))
    assert next_steps(spec, pods(0)) == Steps(create=(1,))


@pytest.mark.parametrize("is_parallel", [False, True])
def test_a_rolling_update_replaces_one_pod_at_a_time_from_the_highest(is_parallel: bool) -> None:
    """The next pod is replaced when the one above it has the new revision and is available."""
    spec = wanted(3, is_parallel=is_parallel, current_revision="old")

    assert next_steps(spec, old(0, 1, 2)) == Steps(delete=(2,))
    assert next_steps(spec, old(0, 1)) == Steps(create=(2,))
    assert next_steps(spec, [*old(0, 1), *sick(2)]) == Steps()
    assert next_steps(spec, [*old(0, 1), *pods(2)]) == Steps(delete=(1,))


@pytest.mark.parametrize(
    ("fields", "existing", "steps", "revisions"),
    [
        pytest.param({"partition": 2}, [*old(0, 1), *pods(2)], Steps(), "old old new", id="below"),
        pytest.param({"partition": None}, old(0, 1, 2), Steps(), "new new new", id="on-delete"),
        pytest.param(
            {"partition": 1, "start": 5, "is_parallel": True},
            pods(4),
            Steps(create=(5, 6, 7), delete=(4,)),
            "old new new",
            id="start",
        ),
    ],
)
def test_which_revision_a_pod_gets(
    fields: dict[str, Any], existing: list[Replica], steps: Steps, revisions: str
) -> None:
    """Below the partition the old one; OnDelete replaces none; both count from the start."""
    spec = wanted(3, current_revision="old", **fields)
    first = fields.get("start", 0)

    assert next_steps(spec, existing) == steps
    assert [spec.revision_of(first + number) for number in range(3)] == revisions.split()
