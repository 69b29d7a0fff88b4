"""The controllers of Deployments and StatefulSets: what they do next, and what they write."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.localkube_cluster import LABELS, PLACE, Cluster, on_cluster, registry_of

from localkube.controllers.deployments import roll_limits, scale_down_order
from localkube.controllers.events import KEPT_SECONDS, EventExpiry
from localkube.controllers.stateful_sets import (
    Replica,
    Steps,
    Wanted,
    counts,
    next_steps,
)
from localkube.kinds import CONTROLLER_REVISION, DEPLOYMENT, EVENT, NAMESPACE, POD, STATEFUL_SET
from localkube.kube_objects import KubeObject


def pod(name: str, *, phase: str = "Running", **notes: int) -> KubeObject:
    """Return a pod with what the order looks at; it is ready when it ever was."""
    written = {
        "lagbench.io/created-at-ns": str(notes.get("created_at", 1)),
        "controller.kubernetes.io/pod-deletion-cost": str(notes.get("cost", 0)),
    }
    if "ready_at" in notes:
        written["lagbench.io/ready-at-ns"] = str(notes["ready_at"])
    ready = {"type": "Ready", "status": str("ready_at" in notes)}
    restarts = [{"restartCount": notes.get("restarts", 0)}]
    status = {"phase": phase, "conditions": [ready], "containerStatuses": restarts}
    return KubeObject(metadata={"name": name, "annotations": written}, status=status)


def test_the_scale_down_order() -> None:
    """Pending, then not ready, then cheap, then ready last, then restarted, then youngest."""
    pods = [
        pod("oldest", ready_at=10),
        pod("younger", ready_at=10, created_at=2),
        pod("restarted", ready_at=10, restarts=3),
        pod("ready-later", ready_at=20),
        pod("cheap", ready_at=5, cost=-1),
        pod("unready"),
        pod("pending", phase="Pending"),
    ]

    names = [found.name for found in scale_down_order(pods)]

    order = "pending unready cheap ready-later restarted younger oldest"
    assert names == order.split()


@pytest.mark.parametrize(
    ("surge", "unavailable", "wanted", "expected"),
    [
        ("25%", "25%", 4, (1, 1)),
        ("25%", "25%", 1, (1, 0)),
        ("25%", "25%", 10, (3, 2)),
        (0, 0, 5, (0, 1)),
        (2, "100%", 3, (2, 3)),
        (0, 9, 3, (0, 3)),
    ],
)
def test_rollout_limits(
    surge: object, unavailable: object, wanted: int, expected: tuple[int, int]
) -> None:
    """Surplus rounds up, missing rounds down, and a rollout can always move."""
    limits = roll_limits({"maxSurge": surge, "maxUnavailable": unavailable}, wanted)

    assert limits == expected


def test_an_event_is_removed_an_hour_after_its_last_write() -> None:
    """Each has its own hour, a raised count begins another one, and other objects stay."""
    registry, now = registry_of(), 0.0
    expiry = EventExpiry(registry.store, clock=lambda: now)

    def left_at(seconds: float) -> list[str]:
        nonlocal now
        now = seconds
        expiry.expire()
        return [event.name for event in registry.store.select(EVENT, PLACE)]

    for name in ("first", "often"):
        registry.create(EVENT, {"metadata": {"name": name}}, PLACE)
    assert left_at(KEPT_SECONDS - 1) == ["first", "often"]
    registry.change(EVENT, PLACE, "often", lambda event: event.update(count=2))
    assert left_at(KEPT_SECONDS) == ["often"]
    assert left_at(2 * KEPT_SECONDS) == []
    assert registry.store.find(NAMESPACE, "", PLACE) is not None


def test_pods_of_a_deployment_are_numbered() -> None:
    """Each new pod has the next number, from 0, also after others went; the youngest goes first."""

    async def check(cluster: Cluster) -> None:
        cluster.create(DEPLOYMENT, selector={"matchLabels": LABELS}, replicas=2)
        for replicas, expected in ((1, ["0", "1"]), (3, ["0"]), (3, ["0", "2", "3"])):
            await cluster.settle()
            cluster.make_ready()
            left = [pod for pod in cluster.pods() if not pod.is_terminating]
            assert sorted(pod.annotations["lagbench.io/ordinal"] for pod in left) == expected
            obj = cluster.get(DEPLOYMENT).copy()
            obj.spec["replicas"] = replicas
            cluster.registry.update(DEPLOYMENT, obj)

    on_cluster(check)


def create(cluster: Cluster, **spec: Any) -> None:
    """Create the StatefulSet ``web``."""
    given = {"selector": {"matchLabels": LABELS}, "serviceName": "hosts"}
    cluster.create(STATEFUL_SET, **{**given, **spec})


async def annotate(cluster: Cluster, *values: str) -> dict[str, int]:
    """Make revisions, one after the other; return the numbers of all that are left."""
    for value in values:
        await cluster.settle()
        obj = cluster.get(STATEFUL_SET).copy()
        obj.spec["template"]["metadata"]["annotations"] = {"mine": value}
        cluster.registry.update(STATEFUL_SET, obj)
    await cluster.settle()
    found = cluster.store.select(CONTROLLER_REVISION, PLACE)
    return {revision.name: revision["revision"] for revision in found}


def test_going_back_to_an_earlier_template_uses_its_revision() -> None:
    """The revision gets the highest number instead of a second object."""

    async def check(cluster: Cluster) -> None:
        create(cluster, replicas=0)
        numbers = await annotate(cluster, "2", "1")

        assert sorted(numbers.values()) == [2, 3]
        assert numbers[cluster.get(STATEFUL_SET).status["updateRevision"]] == 3

    on_cluster(check)


def test_old_revisions_are_forgotten() -> None:
    """Beyond revisionHistoryLimit the oldest unused ones are deleted."""

    async def check(cluster: Cluster) -> None:
        create(cluster, replicas=0, revisionHistoryLimit=1)

        assert sorted((await annotate(cluster, "2", "3", "4")).values()) == [3, 4]

    on_cluster(check)


def test_a_pod_that_is_not_available_yet_holds_the_next_one_back() -> None:
    """Before minReadySeconds are over a ready pod is not available."""

    async def check(cluster: Cluster) -> None:
        create(cluster, replicas=2, minReadySeconds=3600)
        await cluster.settle()
        cluster.make_ready()
        await cluster.settle()

        status = cluster.get(STATEFUL_SET).status
        assert [pod.name for pod in cluster.pods()] == ["web-0"]
        assert (status["readyReplicas"], status["availableReplicas"]) == (1, 0)

    on_cluster(check)


def test_pods_without_an_owner_are_taken_over() -> None:
    """Pods that an earlier StatefulSet of this name left with Orphan belong to the new one."""

    async def check(cluster: Cluster) -> None:
        create(cluster, podManagementPolicy="Parallel", replicas=2)
        await cluster.settle()
        cluster.make_ready()
        before, first = [pod.uid for pod in cluster.pods()], cluster.get(STATEFUL_SET)
        cluster.deletion.delete(STATEFUL_SET, first, {"propagationPolicy": "Orphan"})
        assert not any(pod.owners for pod in cluster.pods())

        create(cluster, podManagementPolicy="Parallel", replicas=2)
        await cluster.settle()

        owner = cluster.get(STATEFUL_SET).uid
        assert [(pod.uid, pod.controller_uid) for pod in cluster.pods()] == [
            (uid, owner) for uid in before
        ]

    on_cluster(check)


def test_a_name_that_another_pod_has_is_an_event() -> None:
    """A pod that is not its own is left alone, and the reason can be read."""

    async def check(cluster: Cluster) -> None:
        spec = {"containers": [{"name": "main", "command": ["x"]}]}
        cluster.registry.create(POD, {"metadata": {"name": "web-0"}, "spec": spec}, PLACE)
        create(cluster)
        await cluster.settle()

        reasons = {event["reason"] for event in cluster.store.select(EVENT, PLACE)}
        assert reasons == {"FailedCreate"}

    on_cluster(check)


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
