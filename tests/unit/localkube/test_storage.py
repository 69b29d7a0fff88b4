"""Defaults, rules, generation and deletion as the API server has them; the store; selectors."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from tests.fakes.localkube_cluster import PLACE, registry_of

from localkube.kinds import (
    AUTOSCALER,
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    POD,
    Resource,
)
from localkube.kube_objects import ApiError, KubeObject, label_matcher
from localkube.storage import object_store as store_module
from localkube.storage.deletion import Deletion
from localkube.storage.object_registry import Registry
from localkube.storage.object_store import Change, Store


@pytest.fixture
def registry() -> Registry:
    """Provide an empty cluster with one namespace and a clock that counts seconds."""
    seconds = count(1_700_000_000)
    return registry_of(lambda: next(seconds) * 1_000_000_000)


def pod_spec(**fields: Any) -> dict[str, Any]:
    """Return the spec of a pod."""
    return {"containers": [{"name": "main", "command": ["x"]}], **fields}


def deployment(**spec: Any) -> dict[str, Any]:
    """Return a Deployment."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def autoscaler(**spec: Any) -> dict[str, Any]:
    """Return a HorizontalPodAutoscaler."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"metadata": {"name": "x"}, "spec": {"scaleTargetRef": target, "maxReplicas": 9, **spec}}


def test_a_deployment_gets_its_defaults(registry: Registry) -> None:
    """One replica, rolling update by a quarter, 30 s of grace, probes every 10 s."""
    given = deployment()
    given["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = {"httpGet": {"port": 80}}

    spec = registry.create(DEPLOYMENT, given, PLACE)["spec"]

    template = spec["template"]["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert (template["restartPolicy"], template["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert template["containers"][0]["readinessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def test_a_job_selects_its_pods_by_its_uid(registry: Registry) -> None:
    """A Job gets six retries, and labels and a selector that name its uid."""
    spec = {"template": {"spec": pod_spec(restartPolicy="Never")}}
    job = registry.create(JOB, {"metadata": {"name": "j"}, "spec": spec}, PLACE)

    assert job["spec"]["backoffLimit"] == 6
    expected = {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]}
    assert job["spec"]["selector"]["matchLabels"] == expected
    assert job["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"


@pytest.mark.parametrize(
    ("resource", "given", "field"),
    [
        (DEPLOYMENT, deployment(replicas=-1), "spec.replicas"),
        (DEPLOYMENT, deployment(replicas="2"), "spec.replicas"),
        (DEPLOYMENT, deployment(selector=None), "spec.selector"),
        (POD, {"metadata": {"name": "Upper"}, "spec": pod_spec()}, "metadata.name"),
        (POD, {"metadata": {"name": "x"}, "spec": {}}, "spec.containers"),
        (
            POD,
            {"metadata": {"name": "x"}, "spec": pod_spec(restartPolicy="Maybe")},
            "restartPolicy",
        ),
        (JOB, {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod_spec()}}}, "restartP"),
        (AUTOSCALER, autoscaler(minReplicas=10), "spec.maxReplicas"),
        (AUTOSCALER, autoscaler(behavior={"scaleUp": {"policies": []}}), "scaleUp.policies"),
        (
            AUTOSCALER,
            autoscaler(behavior={"scaleDown": {"stabilizationWindowSeconds": 3601}}),
            "stabilizationWindowSeconds",
        ),
        (CONFIG_MAP, {"metadata": {"name": "x", "labels": {"a": 1}}}, "metadata.labels"),
    ],
)
def test_a_broken_rule_names_its_field(
    registry: Registry, resource: Resource, given: dict[str, Any], field: str
) -> None:
    """An object that the API would reject is a 422 whose message has the field's path."""
    with pytest.raises(ApiError) as refused:
        registry.create(resource, given, PLACE)

    assert refused.value.code == 422
    assert field in refused.value.message


def test_a_client_cannot_set_what_the_server_sets(registry: Registry) -> None:
    """The uid, times, generation and status of a new object are the server's."""
    given = deployment()
    given["metadata"] |= {
        "uid": "mine",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
    }
    given["status"] = {"replicas": 5}

    made = registry.create(DEPLOYMENT, given, PLACE)

    assert made["metadata"]["uid"] != "mine"
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["creationTimestamp"].startswith("2023-")
    assert "status" not in made


def test_a_finalizer_holds_a_deleted_object(registry: Registry) -> None:
    """Deletion of an object with a finalizer marks it; removing the finalizer removes it."""
    deletion = Deletion(registry)
    given = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    held = registry.create(CONFIG_MAP, given, PLACE)

    marked = deletion.delete(CONFIG_MAP, held)
    assert marked is not None
    assert "deletionTimestamp" in marked["metadata"]
    released = marked.copy()
    released["metadata"]["finalizers"] = []
    registry.update(CONFIG_MAP, released)

    assert registry.store.find(CONFIG_MAP, PLACE, "held") is None


def test_foreground_waits_for_the_dependents(registry: Registry) -> None:
    """The owner stays, terminating, until a dependent with a finalizer of its own is gone."""
    deletion = Deletion(registry)
    owner = registry.create(CONFIG_MAP, {"metadata": {"name": "owner"}}, PLACE)
    metadata = {
        "name": "owned",
        "ownerReferences": [owner.reference()],
        "finalizers": ["example.com/hold"],
    }
    registry.create(CONFIG_MAP, {"metadata": metadata}, PLACE)

    deletion.delete(CONFIG_MAP, owner, {"propagationPolicy": "Foreground"})
    waiting = registry.store.find(CONFIG_MAP, PLACE, "owner")
    released = registry.store.get(CONFIG_MAP, PLACE, "owned").copy()
    released["metadata"]["finalizers"] = []
    registry.update(CONFIG_MAP, released)

    assert waiting is not None
    assert registry.store.find(CONFIG_MAP, PLACE, "owner") is None


def test_a_pod_gets_its_grace_once(registry: Registry) -> None:
    """A pod's deletion sets its grace period; asked again it can only get shorter."""
    deletion = Deletion(registry)
    given = {"metadata": {"name": "p"}, "spec": pod_spec(terminationGracePeriodSeconds=20)}
    pod = registry.create(POD, given, PLACE)

    graces = []
    for asked in (None, 50, 5):
        options = {} if asked is None else {"gracePeriodSeconds": asked}
        left = deletion.delete(POD, registry.store.get(POD, PLACE, "p"), options)
        graces.append((left or pod)["metadata"]["deletionGracePeriodSeconds"])

    assert graces == [20, 20, 5]
    assert deletion.delete(POD, pod, {"gracePeriodSeconds": 0}) is None


def test_a_deleted_namespace_takes_its_content(registry: Registry) -> None:
    """It is terminating, and closed for new objects, until its last pod is gone."""
    deletion = Deletion(registry)
    registry.create(POD, {"metadata": {"name": "p"}, "spec": pod_spec()}, PLACE)
    registry.create(CONFIG_MAP, {"metadata": {"name": "c"}}, PLACE)

    deletion.delete(NAMESPACE, registry.store.get(NAMESPACE, "", PLACE))
    terminating = registry.store.get(NAMESPACE, "", PLACE).copy()
    with pytest.raises(ApiError) as refused:
        registry.create(CONFIG_MAP, {"metadata": {"name": "d"}}, PLACE)
    registry.store.remove(POD, PLACE, "p")

    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert terminating["status"]["phase"] == "Terminating"
    assert registry.store.find(NAMESPACE, "", PLACE) is None


def test_a_precondition_protects_the_next_object_of_that_name(registry: Registry) -> None:
    """A delete with another uid is a conflict."""
    made = registry.create(CONFIG_MAP, {"metadata": {"name": "c"}}, PLACE)

    with pytest.raises(ApiError, match="Precondition failed"):
        Deletion(registry).delete(CONFIG_MAP, made, {"preconditions": {"uid": "other"}})


def named(name: str) -> KubeObject:
    """Return an object."""
    return KubeObject(metadata={"name": name, "namespace": "default"})


def test_a_write_of_the_same_is_no_change() -> None:
    """Writing what is there already keeps the version and tells nobody."""
    store = Store()
    stored = store.insert(CONFIG_MAP, named("a"))
    heard: list[Change] = []
    store.subscribe(heard.append)

    again = store.replace(CONFIG_MAP, stored.copy())

    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert heard == []


def test_the_history_knows_when_it_is_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes since a version are complete, or the answer is None when some were dropped."""
    monkeypatch.setattr(store_module, "_HISTORY_LENGTH", 3)
    store = Store()
    start = store.version
    for number in range(3):
        store.insert(CONFIG_MAP, named(f"n{number}"))
    complete = store.changes_since(start)
    store.insert(CONFIG_MAP, named("one-more"))

    assert complete is not None
    assert [change.obj["metadata"]["name"] for change in complete] == ["n0", "n1", "n2"]
    assert store.changes_since(start) is None
    assert store.changes_since(store.version) == []


LABELS = {"app": "web", "tier": "front", "example.com/team": "a-1"}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("missing!=x", True),
        ("tier in (front, back)", True),
        ("tier notin (front,back)", False),
        ("missing notin (x)", True),
        ("example.com/team", True),
        ("!missing", True),
        ("!app", False),
        ("app in (web),tier notin (back),example.com/team=a-1", True),
    ],
)
def test_label_selectors(selector: str, *, matches: bool) -> None:
    """Equality, sets and existence follow the API's rules; absence satisfies the negations."""
    assert label_matcher(selector)(LABELS) is matches


def test_an_unreadable_selector_is_a_bad_request() -> None:
    """What cannot be parsed is rejected, not ignored."""
    with pytest.raises(ApiError) as refused:
        label_matcher("a=b=c")

    assert refused.value.code == 400
