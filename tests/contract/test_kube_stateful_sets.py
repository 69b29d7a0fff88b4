"""StatefulSets behave the same on localkube and on a real API server."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import UnprocessibleEntityError
from tests.contract.kube_endpoint import Endpoint, message_of
from tests.eventually import eventually


def scale(endpoint: Endpoint, name: str, replicas: int) -> Any:
    """Set the replicas through the scale subresource."""
    return endpoint.kind("apps/v1", "StatefulSet").scale.patch(
        body={"spec": {"replicas": replicas}},
        name=name,
        namespace=endpoint.namespace,
        content_type="application/merge-patch+json",
    )


def status_of(endpoint: Endpoint, name: str) -> Any:
    """Return the status when the controller has seen the newest spec, else an empty one."""
    found = endpoint.kind("apps/v1", "StatefulSet").get(name=name, namespace=endpoint.namespace)
    is_seen = found.status.observedGeneration == found.metadata.generation
    return found.status if is_seen else type(found.status)({})


def ready(endpoint: Endpoint, name: str) -> int:
    """Return how many pods are ready."""
    return int(status_of(endpoint, name).readyReplicas or 0)


def names(endpoint: Endpoint, name: str) -> list[str]:
    """Return the names of the pods that are not being deleted."""
    return sorted(pod.metadata.name for pod in endpoint.pods(f"app={name}"))


def existing(endpoint: Endpoint, name: str) -> list[str]:
    """Return the names of all pods, terminating ones too."""
    pods = endpoint.kind("v1", "Pod")
    found = pods.get(namespace=endpoint.namespace, label_selector=f"app={name}")
    return sorted(pod.metadata.name for pod in found.items)


def events_until(endpoint: Endpoint, version: str, last: tuple[str, str]) -> list[tuple[str, str]]:
    """Return what happened to pods since ``version``: ADDED, READY, LEAVING, DELETED and a name."""
    seen: list[tuple[str, str]] = []
    pods = endpoint.kind("v1", "Pod")
    for event in pods.watch(namespace=endpoint.namespace, resource_version=version, timeout=300):
        pod = event["object"]
        conditions = {c.type: c.status for c in pod.status.conditions or ()}
        kinds = [event["type"]] if event["type"] != "MODIFIED" else []
        kinds += ["LEAVING"] if pod.metadata.deletionTimestamp else []
        is_ready = conditions.get("Ready") == "True" and not pod.metadata.deletionTimestamp
        kinds += ["READY"] if is_ready else []
        for kind in kinds:
            if (kind, pod.metadata.name) not in seen:
                seen.append((kind, pod.metadata.name))
        if last in seen:
            break
    return seen


def version_of_pods(endpoint: Endpoint) -> str:
    """Return the version of the list of pods, where a watch begins."""
    listed = endpoint.kind("v1", "Pod").get(namespace=endpoint.namespace)
    return str(listed.metadata.resourceVersion)


def test_in_order_each_pod_waits_for_the_one_before(endpoint: Endpoint) -> None:
    """OrderedReady is the default: a pod is created when the one before it is ready."""
    version = version_of_pods(endpoint)
    endpoint.apply(endpoint.stateful_set("web", replicas=2))

    seen = events_until(endpoint, version, ("READY", "web-1"))

    order = [step for step in seen if step[0] in {"ADDED", "READY"}]
    assert order == [
        ("ADDED", "web-0"),
        ("READY", "web-0"),
        ("ADDED", "web-1"),
        ("READY", "web-1"),
    ]


def test_in_order_the_highest_leaves_first_and_alone(endpoint: Endpoint) -> None:
    """A scale-down deletes the highest ordinal, and the next one when that one is gone."""
    endpoint.apply(endpoint.stateful_set("web", replicas=3))
    eventually(lambda: ready(endpoint, "web") == 3, "three ready pods")
    version = version_of_pods(endpoint)

    scale(endpoint, "web", 1)
    seen = events_until(endpoint, version, ("DELETED", "web-1"))

    order = [step for step in seen if step[0] in {"LEAVING", "DELETED"}]
    assert order == [
        ("LEAVING", "web-2"),
        ("DELETED", "web-2"),
        ("LEAVING", "web-1"),
        ("DELETED", "web-1"),
    ]
    assert names(endpoint, "web") == ["web-0"]


def test_in_parallel_all_come_at_once_and_the_highest_leave(endpoint: Endpoint) -> None:
    """Parallel waits for no pod: all start without being ready, and the highest ones leave."""
    manifest = endpoint.stateful_set("web", replicas=3, podManagementPolicy="Parallel")
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["readinessProbe"]["httpGet"]["path"] = "/never"
    endpoint.apply(manifest)

    eventually(lambda: len(names(endpoint, "web")) == 3, "three pods")
    assert ready(endpoint, "web") == 0
    scale(endpoint, "web", 1)
    eventually(lambda: existing(endpoint, "web") == ["web-0"], "one pod left")


def test_a_deleted_pod_comes_back_with_its_identity(endpoint: Endpoint) -> None:
    """Name, host name and labels stay; the uid is another one."""
    manifest = endpoint.stateful_set("web", replicas=2, podManagementPolicy="Parallel")
    manifest["spec"]["serviceName"] = "hosts"
    endpoint.apply(manifest)
    eventually(lambda: ready(endpoint, "web") == 2, "two ready pods")
    pods = endpoint.kind("v1", "Pod")
    before = pods.get(name="web-1", namespace=endpoint.namespace)

    pods.delete(name="web-1", namespace=endpoint.namespace)

    def again() -> Any:
        found = [p for p in endpoint.pods("app=web") if p.metadata.name == "web-1"]
        return next((p for p in found if p.metadata.uid != before.metadata.uid), None)

    after = eventually(again, "the pod with a new uid")
    assert (after.spec.hostname, after.spec.subdomain) == ("web-1", "hosts")
    labels = after.metadata.labels.to_dict()
    assert labels == before.metadata.labels.to_dict()
    assert labels["apps.kubernetes.io/pod-index"] == "1"
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-1"
    assert labels["controller-revision-hash"] == status_of(endpoint, "web").currentRevision
    assert after.metadata.ownerReferences[0].kind == "StatefulSet"


def test_a_rolling_update_stops_at_the_partition(endpoint: Endpoint) -> None:
    """Pods at or above it get the new revision, from the highest; the others keep theirs."""
    manifest = endpoint.stateful_set("web", replicas=3, podManagementPolicy="Parallel")
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    manifest["spec"]["updateStrategy"] = rolling
    endpoint.apply(manifest)
    eventually(lambda: ready(endpoint, "web") == 3, "three ready pods")
    old, version = status_of(endpoint, "web").currentRevision, version_of_pods(endpoint)

    manifest["spec"]["template"]["metadata"]["annotations"] = {"changed": "yes"}
    endpoint.apply(manifest)
    seen = events_until(endpoint, version, ("ADDED", "web-1"))

    def is_updated() -> bool:
        status = status_of(endpoint, "web")
        return (status.updatedReplicas, status.readyReplicas) == (2, 3)

    eventually(is_updated, "two updated pods")
    leaving = [name for kind, name in seen if kind == "LEAVING"]
    assert leaving == ["web-2", "web-1"]
    status = status_of(endpoint, "web")
    assert status.currentRevision == old != status.updateRevision
    assert status.currentReplicas == 1
    revisions = {
        pod.metadata.name: pod.metadata.labels["controller-revision-hash"]
        for pod in endpoint.pods("app=web")
    }
    new = status.updateRevision
    assert revisions == {"web-0": old, "web-1": new, "web-2": new}


def test_the_status_counts_terminating_pods(endpoint: Endpoint) -> None:
    """Unlike a Deployment's: the scale's replicas include a pod that has not ended yet."""
    manifest = endpoint.stateful_set("web", replicas=2, podManagementPolicy="Parallel")
    pod = manifest["spec"]["template"]["spec"]
    pod["terminationGracePeriodSeconds"] = 20
    pod["containers"][0]["command"][-1] = (
        "import signal, time; signal.signal(signal.SIGTERM, lambda *_: time.sleep(3) or exit()); "
        f"{pod['containers'][0]['command'][-1]}"
    )
    endpoint.apply(manifest)
    eventually(lambda: ready(endpoint, "web") == 2, "two ready pods")

    scale(endpoint, "web", 1)

    def leaves() -> Any:
        status = status_of(endpoint, "web")
        return status if status.replicas and names(endpoint, "web") == ["web-0"] else None

    status = eventually(leaves, "the scale-down")
    assert status.replicas == 2
    eventually(lambda: status_of(endpoint, "web").replicas == 1, "one replica")


def test_scale_reads_and_writes_replicas(endpoint: Endpoint) -> None:
    """The scale has the selector as a string, as the HPA needs it; zero replicas are left out."""
    endpoint.apply(endpoint.stateful_set("web", replicas=0))

    written = scale(endpoint, "web", 0)

    assert written.kind == "Scale"
    assert written.spec.to_dict() == {}
    assert written.status.selector == "app=web"


def test_the_defaults(endpoint: Endpoint) -> None:
    """One replica, in order, rolling update from the highest."""
    spec = endpoint.apply(endpoint.stateful_set("web"), dry_run="All").spec.to_dict()

    assert spec["replicas"] == 1
    assert spec["podManagementPolicy"] == "OrderedReady"
    strategy = spec["updateStrategy"]
    strategy["rollingUpdate"].pop("maxUnavailable", 1)  # newer Kubernetes writes this default, too
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert spec["revisionHistoryLimit"] == 10
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"podManagementPolicy": "Fast"}, "spec.podManagementPolicy"),
        ({"updateStrategy": {"type": "Recreate"}}, "spec.updateStrategy"),
        (
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            "spec.updateStrategy.rollingUpdate",
        ),
        ({"replicas": -1}, "spec.replicas"),
        ({"serviceName": "Not A Host"}, "spec.serviceName"),
        ({"selector": {}}, "spec.selector"),
        ({"selector": {"matchLabels": {"app": "other"}}}, "spec.template.metadata.labels"),
    ],
)
def test_what_the_api_server_refuses(endpoint: Endpoint, spec: dict[str, Any], field: str) -> None:
    """A broken rule is a 422 that names its field."""
    manifest = endpoint.stateful_set("web")
    manifest["spec"] |= spec

    with pytest.raises(UnprocessibleEntityError) as refused:
        endpoint.kind("apps/v1", "StatefulSet").create(body=manifest, namespace=endpoint.namespace)

    assert f"{field}: " in message_of(refused.value)


def test_a_name_with_a_dot_is_refused(endpoint: Endpoint) -> None:
    """The name becomes a host name, so it must be a label."""
    with pytest.raises(UnprocessibleEntityError) as refused:
        endpoint.apply(endpoint.stateful_set("a.b", replicas=0))

    assert "metadata.name: Invalid value" in message_of(refused.value)


@pytest.mark.parametrize(
    ("field", "value"), [("podManagementPolicy", "Parallel"), ("serviceName", "other")]
)
def test_most_fields_cannot_change(endpoint: Endpoint, field: str, value: str) -> None:
    """A later apply with another value is a 422 (1.34 names the spec, 1.37 the field)."""
    manifest = endpoint.stateful_set("web", replicas=0)
    endpoint.apply(manifest)
    manifest["spec"][field] = value

    with pytest.raises(UnprocessibleEntityError) as refused:
        endpoint.apply(manifest)

    assert re.search(f"spec(: Forbidden|.{field}: )", message_of(refused.value))
