"""What the bench relies on in a Kubernetes API, tried on localkube and, when given, on a cluster.

``LAGBENCH_TEST_KUBECONFIG`` names a kubeconfig of a disposable cluster that can run
``LAGBENCH_TEST_IMAGE`` (a Python image) and has metrics-server and KEDA's custom resources.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as core_client
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import (
    ApiException,
    ConflictError,
    NotFoundError,
    UnprocessibleEntityError,
)
from tests.integration.localkube_process import client_of, eventually, running_localkube

pytestmark = pytest.mark.integration

SERVER_SCRIPT = (
    "import http.server, os; "
    "http.server.ThreadingHTTPServer(('', int(os.environ['PORT_HTTP'])), "
    "http.server.SimpleHTTPRequestHandler).serve_forever()"
)


@dataclass(frozen=True)
class Endpoint:
    """An API server to try: its client, a fresh namespace, and the image that its pods name."""

    client: DynamicClient
    namespace: str
    image: str

    def kind(self, api_version: str, kind: str) -> Any:
        """Return the client's handle of a kind."""
        return self.client.resources.get(api_version=api_version, kind=kind)

    def apply(self, manifest: dict[str, Any], manager: str = "bench", **options: Any) -> Any:
        """Apply a manifest in the namespace, as ``manager``."""
        return self.kind(manifest["apiVersion"], manifest["kind"]).server_side_apply(
            body=manifest, namespace=self.namespace, field_manager=manager, **options
        )

    def pods(self, label_selector: str) -> list[Any]:
        """Return the pods of a label selector that are not being deleted."""
        found = self.kind("v1", "Pod").get(namespace=self.namespace, label_selector=label_selector)
        return [pod for pod in found.items if not pod.metadata.deletionTimestamp]

    def log(self, pod: str, **options: Any) -> str:
        """Return the log of a pod (the client's own decoding gives the repr of the bytes)."""
        core = core_client.CoreV1Api(self.client.client)
        answer = core.read_namespaced_pod_log(
            pod, self.namespace, _preload_content=False, **options
        )
        return str(answer.data.decode())

    def pod(self, name: str, script: str, **spec: Any) -> dict[str, Any]:
        """Return the manifest of a pod that runs a Python script."""
        container = {
            "name": "main",
            "image": self.image,
            "command": ["python", "-c", script],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
        }

    def deployment(self, name: str, replicas: int | None = None) -> dict[str, Any]:
        """Return the manifest of a Deployment of small web servers with a readiness probe."""
        spec = self.pod(name, SERVER_SCRIPT)["spec"]
        del spec["restartPolicy"]
        spec["terminationGracePeriodSeconds"] = 1
        spec["containers"][0] |= {
            "env": [{"name": "PORT_HTTP", "value": "8080"}],
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        }
        manifest: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            },
        }
        if replicas is not None:
            manifest["spec"]["replicas"] = replicas
        return manifest


def config_map(**data: str) -> dict[str, Any]:
    """Return the manifest of a ConfigMap named ``settings``."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": data,
    }


def scaled_object(**spec: Any) -> dict[str, Any]:
    """Return the manifest of a ScaledObject named ``policy``."""
    trigger = {"type": "kafka", "metadata": {"lagThreshold": "10"}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "policy"},
        "spec": {"scaleTargetRef": {"name": "web"}, "triggers": [trigger], **spec},
    }


def message_of(error: Any) -> str:
    """Return the message of the Status object that an error carries."""
    return str(json.loads(error.body)["message"])


@pytest.fixture(scope="module", params=["localkube", "cluster"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Provide the kubeconfig of a running API server."""
    if request.param == "cluster":
        given = os.environ.get("LAGBENCH_TEST_KUBECONFIG")
        if not given:
            pytest.skip("LAGBENCH_TEST_KUBECONFIG names no cluster")
        yield Path(given)
        return
    with running_localkube(tmp_path_factory.mktemp("localkube")) as localkube:
        yield localkube.kubeconfig


@pytest.fixture
def endpoint(server: Path) -> Iterator[Endpoint]:
    """Provide a client and a namespace that is deleted afterwards."""
    client = client_of(server)
    namespaces = client.resources.get(api_version="v1", kind="Namespace")
    name = f"contract-{secrets.token_hex(3)}"
    namespaces.create(body={"metadata": {"name": name}})
    yield Endpoint(client, name, os.environ.get("LAGBENCH_TEST_IMAGE", "python:3.11-slim"))
    namespaces.delete(name=name)


def test_an_object_is_created_once(endpoint: Endpoint) -> None:
    """Creating stamps uid, version and time; creating again is a conflict."""
    maps = endpoint.kind("v1", "ConfigMap")

    created = maps.create(body=config_map(a="1"), namespace=endpoint.namespace)

    assert created.metadata.uid
    assert created.metadata.resourceVersion
    assert created.metadata.creationTimestamp
    with pytest.raises(ConflictError):
        maps.create(body=config_map(a="1"), namespace=endpoint.namespace)


def test_what_does_not_exist_is_a_status_of_404(endpoint: Endpoint) -> None:
    """A missing object and a missing namespace are told as NotFound."""
    maps = endpoint.kind("v1", "ConfigMap")

    with pytest.raises(NotFoundError) as missing:
        maps.get(name="nothing", namespace=endpoint.namespace)
    assert 'configmaps "nothing" not found' in message_of(missing.value)
    with pytest.raises(NotFoundError):
        maps.create(body=config_map(a="1"), namespace="no-such-namespace")


def test_generate_name_gives_a_unique_name(endpoint: Endpoint) -> None:
    """Two objects of one generateName get two names with that prefix."""
    maps = endpoint.kind("v1", "ConfigMap")
    body = {"metadata": {"generateName": "many-"}}

    names = {maps.create(body=body, namespace=endpoint.namespace).metadata.name for _ in range(2)}

    assert len(names) == 2
    assert all(name.startswith("many-") for name in names)


def test_an_outdated_write_is_refused(endpoint: Endpoint) -> None:
    """A replace with the resourceVersion of an older state is a conflict and changes nothing."""
    maps = endpoint.kind("v1", "ConfigMap")
    old = maps.create(body=config_map(a="1"), namespace=endpoint.namespace).to_dict()
    maps.patch(
        body={"data": {"a": "2"}},
        name="settings",
        namespace=endpoint.namespace,
        content_type="application/merge-patch+json",
    )

    with pytest.raises(ConflictError):
        maps.replace(body={**old, "data": {"a": "3"}}, namespace=endpoint.namespace)

    assert maps.get(name="settings", namespace=endpoint.namespace).data.a == "2"


def test_a_field_left_out_of_the_next_apply_is_removed(endpoint: Endpoint) -> None:
    """An apply owns what it names: what the same manager leaves out later goes away."""
    endpoint.apply(config_map(a="1", b="2"))

    after = endpoint.apply(config_map(a="1"))

    assert after.data.to_dict() == {"a": "1"}


def test_a_policy_block_left_out_goes_with_its_defaults(endpoint: Endpoint) -> None:
    """HPA behavior, filled in by the server, is gone as a whole when the next apply has none."""
    autoscaler: dict[str, Any] = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "cpu"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
        },
    }
    with_behavior = endpoint.apply(autoscaler).spec.behavior
    del autoscaler["spec"]["behavior"]

    without = endpoint.apply(autoscaler).to_dict()

    assert with_behavior.scaleDown.stabilizationWindowSeconds == 60
    assert [rule.to_dict() for rule in with_behavior.scaleUp.policies] == [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]
    assert with_behavior.scaleUp.stabilizationWindowSeconds == 0
    assert [rule.to_dict() for rule in with_behavior.scaleDown.policies] == [
        {"type": "Percent", "value": 100, "periodSeconds": 15}
    ]
    assert not without["spec"].get("behavior")


def test_two_managers_conflict_unless_forced(endpoint: Endpoint) -> None:
    """A field that another manager applied is refused with 409, and taken over by force."""
    endpoint.apply(config_map(a="1"), manager="first")

    with pytest.raises(ConflictError) as refused:
        endpoint.apply(config_map(a="2"), manager="second")
    forced = endpoint.apply(config_map(a="2"), manager="second", force_conflicts=True)

    assert 'conflict with "first"' in message_of(refused.value)
    assert forced.data.a == "2"
    managers = {entry.manager for entry in forced.metadata.managedFields}
    assert managers == {"second"}


def test_what_another_manager_shares_stays(endpoint: Endpoint) -> None:
    """A field dropped by one of two managers that applied the same value stays."""
    endpoint.apply(config_map(a="1", b="1"), manager="first")
    endpoint.apply(config_map(b="1"), manager="second")

    after = endpoint.apply(config_map(a="1"), manager="first")

    assert after.data.to_dict() == {"a": "1", "b": "1"}


def test_a_dry_run_shows_and_stores_nothing(endpoint: Endpoint) -> None:
    """An apply with dryRun answers with the result and leaves the object as it is."""
    endpoint.apply(config_map(a="1"))

    shown = endpoint.apply(config_map(a="2"), dry_run="All")

    maps = endpoint.kind("v1", "ConfigMap")
    assert shown.data.a == "2"
    assert maps.get(name="settings", namespace=endpoint.namespace).data.a == "1"


def test_list_items_are_merged_by_name(endpoint: Endpoint) -> None:
    """Applying one variable of a container leaves another manager's variable alone."""
    manifest = endpoint.deployment("idle", replicas=0)
    endpoint.apply(manifest, manager="first")
    container = {"name": "main", "env": [{"name": "EXTRA", "value": "x"}]}
    partial: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "idle"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }

    both = endpoint.apply(partial, manager="second")
    del container["env"]
    first_only = endpoint.apply(partial, manager="second")

    def variables(deployment: Any) -> set[str]:
        return {entry.name for entry in deployment.spec.template.spec.containers[0].env}

    assert variables(both) == {"PORT_HTTP", "EXTRA"}
    assert variables(first_only) == {"PORT_HTTP"}


def test_json_patch_and_strategic_merge_patch(endpoint: Endpoint) -> None:
    """The two other patch formats change what they name; a custom kind takes no strategic one."""
    deployments = endpoint.kind("apps/v1", "Deployment")
    endpoint.apply(endpoint.deployment("idle", replicas=0))
    endpoint.apply(scaled_object(maxReplicaCount=3))

    annotated = deployments.patch(
        body=[{"op": "add", "path": "/metadata/annotations", "value": {"a": "1"}}],
        name="idle",
        namespace=endpoint.namespace,
        content_type="application/json-patch+json",
    )
    container = {"name": "main", "env": [{"name": "MORE", "value": "y"}]}
    merged = deployments.patch(
        body={"spec": {"template": {"spec": {"containers": [container]}}}},
        name="idle",
        namespace=endpoint.namespace,
    )

    assert annotated.metadata.annotations.a == "1"
    assert len(merged.spec.template.spec.containers[0].env) == 2
    with pytest.raises(ApiException) as refused:
        endpoint.kind("keda.sh/v1alpha1", "ScaledObject").patch(
            body={"spec": {"maxReplicaCount": 4}}, name="policy", namespace=endpoint.namespace
        )
    assert refused.value.status == 415


def test_an_unreadable_parameter_is_a_bad_request(endpoint: Endpoint) -> None:
    """A selector or a number that cannot be parsed is a 400, not a failure of the server."""
    maps = endpoint.kind("v1", "ConfigMap")

    for parameters in ({"label_selector": "a=b=c"}, {"field_selector": "spec.nothing=1"}):
        with pytest.raises(ApiException) as refused:
            maps.get(namespace=endpoint.namespace, **parameters)
        assert refused.value.status == 400


def test_an_invalid_object_is_refused_with_its_field(endpoint: Endpoint) -> None:
    """A broken rule is a 422 that names the field."""
    manifest = endpoint.deployment("wrong")
    manifest["spec"]["selector"] = {"matchLabels": {"app": "other"}}

    with pytest.raises(UnprocessibleEntityError) as refused:
        endpoint.apply(manifest)

    assert "spec.template.metadata.labels" in message_of(refused.value)


def test_generation_counts_changes_of_the_spec_only(endpoint: Endpoint) -> None:
    """A status write leaves the generation and the spec alone; a spec change raises it."""
    scalers = endpoint.kind("keda.sh/v1alpha1", "ScaledObject")
    first = endpoint.apply(scaled_object(maxReplicaCount=3))

    status = scalers.status.patch(
        body={"status": {"hpaName": "keda-hpa-policy"}, "spec": {"maxReplicaCount": 9}},
        name="policy",
        namespace=endpoint.namespace,
        content_type="application/merge-patch+json",
    )
    second = endpoint.apply(scaled_object(maxReplicaCount=4))

    assert first.metadata.generation == 1
    assert status.status.hpaName == "keda-hpa-policy"
    assert status.spec.maxReplicaCount == 3
    assert status.metadata.generation == 1
    assert second.metadata.generation == 2
    assert second.status.hpaName == "keda-hpa-policy"


def test_selectors_choose_objects(endpoint: Endpoint) -> None:
    """Label and field selectors narrow a list; the list has a version to watch from."""
    maps = endpoint.kind("v1", "ConfigMap")
    for name, tier in (("one", "a"), ("two", "b"), ("three", "b")):
        maps.create(
            body={"metadata": {"name": name, "labels": {"tier": tier}}},
            namespace=endpoint.namespace,
        )

    def names(**selectors: str) -> set[str]:
        found = maps.get(namespace=endpoint.namespace, **selectors)
        assert found.metadata.resourceVersion
        return {item.metadata.name for item in found.items} - {"kube-root-ca.crt"}

    assert names(label_selector="tier=b") == {"two", "three"}
    assert names(label_selector="tier in (a),!old") == {"one"}
    assert names(field_selector="metadata.name=two") == {"two"}
    assert names(label_selector="tier!=b") == {"one"}


def test_a_watch_tells_each_change_once_and_in_order(endpoint: Endpoint) -> None:
    """A watch from a list's version sees what came after the list, and nothing before."""
    maps = endpoint.kind("v1", "ConfigMap")
    maps.create(body={"metadata": {"name": "before"}}, namespace=endpoint.namespace)
    version = maps.get(namespace=endpoint.namespace).metadata.resourceVersion
    maps.create(body=config_map(a="1"), namespace=endpoint.namespace)

    def change_it() -> None:
        endpoint.apply(config_map(a="2"), force_conflicts=True)
        maps.delete(name="settings", namespace=endpoint.namespace)

    timer = threading.Timer(0.3, change_it)
    timer.start()
    seen = []
    for event in maps.watch(namespace=endpoint.namespace, resource_version=version, timeout=20):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            break
    timer.join()

    kinds = [kind for kind, _ in seen]
    assert seen[0] == ("ADDED", "settings")
    assert set(kinds[1:-1]) == {"MODIFIED"}
    assert seen[-1] == ("DELETED", "settings")


def test_a_deployment_becomes_ready_and_scales(endpoint: Endpoint) -> None:
    """Pods start, pass their probe, are counted in the status, and follow the scale subresource."""
    deployments = endpoint.kind("apps/v1", "Deployment")
    endpoint.apply(endpoint.deployment("web", replicas=1))

    def ready() -> int:
        found = deployments.get(name="web", namespace=endpoint.namespace)
        if found.status.observedGeneration != found.metadata.generation:
            return -1
        return int(found.status.readyReplicas or 0)

    eventually(lambda: ready() == 1, "one ready pod", within_seconds=60)
    scaled = deployments.scale.patch(
        body={"spec": {"replicas": 3}},
        name="web",
        namespace=endpoint.namespace,
        content_type="application/merge-patch+json",
    )
    eventually(lambda: ready() == 3, "three ready pods", within_seconds=60)
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
    eventually(lambda: len(endpoint.pods("app=web")) == 1, "one pod left", within_seconds=60)


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
        within_seconds=60,
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
        within_seconds=60,
    )
    version = pods.get(namespace=endpoint.namespace).metadata.resourceVersion

    pods.delete(name="polite", namespace=endpoint.namespace)

    terminating = pods.get(name="polite", namespace=endpoint.namespace)
    assert terminating.metadata.deletionTimestamp
    assert terminating.metadata.deletionGracePeriodSeconds == 30
    codes = []
    for event in pods.watch(namespace=endpoint.namespace, resource_version=version, timeout=40):
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

    eventually(is_complete, "the Complete condition", within_seconds=60)
    assert jobs.get(name="once", namespace=endpoint.namespace).status.succeeded == 1


def test_metrics_tell_what_a_busy_pod_uses(endpoint: Endpoint) -> None:
    """PodMetrics give a busy pod's CPU in nanocores and its memory."""
    pods = endpoint.kind("v1", "Pod")
    manifest = endpoint.pod("busy", "while True: pass", terminationGracePeriodSeconds=0)
    pods.create(body=manifest, namespace=endpoint.namespace)
    metrics = endpoint.kind("metrics.k8s.io/v1beta1", "PodMetrics")

    found = eventually(
        lambda: metrics.get(namespace=endpoint.namespace, label_selector="app=busy").items,
        "metrics of the pod",
        within_seconds=90,
    )

    usage = found[0].containers[0].usage
    assert usage.cpu.endswith("n")
    # Other tests' leftovers may share the core: a fifth of it shows that time is counted.
    assert int(usage.cpu.rstrip("n")) > 200_000_000
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
