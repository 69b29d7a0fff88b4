"""Deployments, pods and Jobs behave the same on localkube and on a real API server."""

from __future__ import annotations

from typing import Any

from tests.contract.kube_endpoint import Endpoint
from tests.eventually import eventually

TWENTIETH_OF_A_CORE = 50_000_000  # nanocores


def test_a_deployment_becomes_ready_and_scales(endpoint: Endpoint) -> None:
    """Pods start, pass their probe, are counted in the status, and follow the scale subresource."""
    deployments = endpoint.kind("apps/v1", "Deployment")
    endpoint.apply(endpoint.deployment("web", replicas=1))

    def ready() -> int:
        found = deployments.get(name="web", namespace=endpoint.namespace)
        if found.status.observedGeneration != found.metadata.generation:
            return -1
        return int(found.status.readyReplicas or 0)

    eventually(lambda: ready() == 1, "one ready pod")
    scaled = deployments.scale.patch(
        body={"spec": {"replicas": 3}},
        name="web",
        namespace=endpoint.namespace,
        content_type="application/merge-patch+json",
    )
    eventually(lambda: ready() == 3, "three ready pods")
    scale = deployments.scale.get(name="web", namespace=endpoint.namespace)
    deployments.scale.patch(
        body={"spec": {"replicas": 1}},
        name="web",
        namespace=endpoint.namespace,
        content_type="application/merge-patch+json",
    )

    assert scaled.spec.replicas == 3
    assert scale.status.replicas == 3
    assert scale.status.selector == "app=web"
    eventually(lambda: len(endpoint.pods("app=web")) == 1, "one pod left")


def test_a_pod_reports_how_it_ended(endpoint: Endpoint) -> None:
    """Phase, exit code and reason of an ended container are in the status; its log can be read."""
    pods = endpoint.kind("v1", "Pod")
    script = "import sys; print('one'); print('two'); sys.exit(3)"
    pods.create(body=endpoint.pod("ends", script), namespace=endpoint.namespace)

    pod = eventually(
        lambda: next(
            (p for p in endpoint.pods("app=ends") if p.status.phase in {"Succeeded", "Failed"}),
            None,
        ),
        "the end of the pod",
    )

    ended = pod.status.containerStatuses[0].state.terminated
    assert (pod.status.phase, ended.exitCode, ended.reason) == ("Failed", 3, "Error")
    assert endpoint.log("ends") == "one\ntwo\n"
    assert endpoint.log("ends", tail_lines=1) == "two\n"


def test_a_deleted_pod_gets_its_grace_period(endpoint: Endpoint) -> None:
    """A pod that handles SIGTERM ends in its own way; until then it is terminating."""
    pods = endpoint.kind("v1", "Pod")
    script = (
        "import signal, sys, time; "
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit(7))); "
        "print('up', flush=True); signal.pause()"
    )
    manifest = endpoint.pod("polite", script, terminationGracePeriodSeconds=30)
    pods.create(body=manifest, namespace=endpoint.namespace)
    eventually(
        lambda: (
            endpoint.pods("app=polite")[0].status.phase == "Running"
            and "up" in endpoint.log("polite")
        ),
        "the running pod",
    )
    version = pods.get(namespace=endpoint.namespace).metadata.resourceVersion

    terminating = pods.delete(name="polite", namespace=endpoint.namespace)

    assert terminating.metadata.deletionTimestamp
    assert terminating.metadata.deletionGracePeriodSeconds == 30
    codes = []
    for event in pods.watch(namespace=endpoint.namespace, resource_version=version, timeout=300):
        statuses = event["object"].status.containerStatuses or ()
        codes += [s.state.terminated.exitCode for s in statuses if s.state.terminated]
        if event["type"] == "DELETED":
            break
    assert codes
    assert set(codes) == {7}


def test_deleting_an_owner_deletes_what_it_owns(endpoint: Endpoint) -> None:
    """The pods of a deleted Deployment go; with Orphan they stay."""
    deployments = endpoint.kind("apps/v1", "Deployment")
    for name in ("goes", "leaves"):
        endpoint.apply(endpoint.deployment(name, replicas=1))
        eventually(lambda name=name: endpoint.pods(f"app={name}"), f"a pod of {name}")

    deployments.delete(name="goes", namespace=endpoint.namespace)
    deployments.delete(
        name="leaves", namespace=endpoint.namespace, body={"propagationPolicy": "Orphan"}
    )

    eventually(lambda: not endpoint.pods("app=goes"), "no pod of the deleted owner")
    assert endpoint.pods("app=leaves")


def test_a_job_completes(endpoint: Endpoint) -> None:
    """A Job whose pod succeeds has the condition Complete and counts it."""
    spec = endpoint.pod("once", "print('done')")["spec"]
    endpoint.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "once"},
            "spec": {"template": {"spec": spec}},
        }
    )
    jobs = endpoint.kind("batch/v1", "Job")

    def is_complete() -> bool:
        status = jobs.get(name="once", namespace=endpoint.namespace).status
        return any(c.type == "Complete" and c.status == "True" for c in status.conditions or ())

    eventually(is_complete, "the Complete condition")
    assert jobs.get(name="once", namespace=endpoint.namespace).status.succeeded == 1


def test_metrics_tell_what_a_busy_pod_uses(endpoint: Endpoint) -> None:
    """PodMetrics give a busy pod's CPU in nanocores and its memory."""
    pods = endpoint.kind("v1", "Pod")
    manifest = endpoint.pod("busy", "while True: pass", terminationGracePeriodSeconds=0)
    pods.create(body=manifest, namespace=endpoint.namespace)
    metrics = endpoint.kind("metrics.k8s.io/v1beta1", "PodMetrics")

    def usage_when_busy() -> Any:
        found = metrics.get(namespace=endpoint.namespace, label_selector="app=busy").items
        usage = found[0].containers[0].usage if found else None
        return usage if usage and int(usage.cpu.removesuffix("n")) > TWENTIETH_OF_A_CORE else None

    # Whatever else runs on the machine takes its share of the core; a pod that sleeps uses none.
    usage = eventually(usage_when_busy, "CPU time of the busy pod in its metrics")
    assert usage.cpu.endswith("n")
    assert usage.memory.endswith("Ki")


def test_events_tell_why(endpoint: Endpoint) -> None:
    """Scaling and starting leave events that can be selected by the object's name."""
    endpoint.apply(endpoint.deployment("web", replicas=1))
    events = endpoint.kind("v1", "Event")

    def reasons(name: str) -> set[str]:
        found = events.get(
            namespace=endpoint.namespace, field_selector=f"involvedObject.name={name}"
        )
        return {event.reason for event in found.items}

    eventually(lambda: "ScalingReplicaSet" in reasons("web"), "the scaling event")
    pod = eventually(lambda: endpoint.pods("app=web"), "the pod")[0]
    eventually(lambda: "Started" in reasons(pod.metadata.name), "the start event")
