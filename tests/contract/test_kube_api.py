"""What the bench relies on in a Kubernetes API, tried on localkube and, when given, on a cluster.

``LAGBENCH_TEST_KUBECONFIG`` names a kubeconfig of a disposable cluster that can run
``LAGBENCH_TEST_IMAGE`` (a Python image) and has metrics-server and KEDA's custom resources.
"""

from __future__ import annotations

import re
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import (
    ApiException,
    ConflictError,
    NotFoundError,
    UnprocessibleEntityError,
)
from tests.contract.kube_endpoint import Endpoint, config_map, message_of, scaled_object

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.kube_client import ApiDiscovery, KubeKinds

CLUSTER_CONFIG_MAP = "kube-root-ca.crt"


def test_an_object_is_created_once(endpoint: Endpoint) -> None:
    """Creating stamps uid, version and time; creating again is a conflict."""
    maps = endpoint.kind("v1", "ConfigMap")

    created = maps.create(body=config_map(a="1"), namespace=endpoint.namespace)

    assert created.metadata.uid
    assert created.metadata.resourceVersion
    assert created.metadata.creationTimestamp
    with pytest.raises(ConflictError):
        maps.create(body=config_map(a="1"), namespace=endpoint.namespace)


def test_the_server_says_its_version(endpoint: Endpoint) -> None:
    """A run puts it on record; localkube gives no build date, which the typed client demands."""
    version = Kube(endpoint.client.client).server_version()

    assert re.fullmatch(r"v1\.\d+\.\d+(\+\w+)?", version), version


def test_the_kinds_of_a_server_are_found_without_a_file(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discovery leaves nothing behind, whatever ends the process, and reads no other server's."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kinds = KubeKinds(endpoint.client.client)

    assert kinds.resource("v1", "ConfigMap").kind == "ConfigMap"
    assert kinds.resource("apps/v1", "Deployment").kind == "Deployment"
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_exist_is_a_status_of_404(endpoint: Endpoint) -> None:
    """A missing object and a missing namespace are told as NotFound."""
    maps = endpoint.kind("v1", "ConfigMap")

    with pytest.raises(NotFoundError) as missing:
        maps.get(name="nothing", namespace=endpoint.namespace)
    assert 'configmaps "nothing"' in message_of(missing.value)
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
    """A field that another manager applied is rejected with 409, and taken over by force."""
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


STRICT = [("fieldValidation", "Strict")]


@pytest.mark.parametrize(
    ("spec", "status", "text"),
    [
        ({"minReplicas": 2}, 400, "spec.minReplicas"),
        ({"pollingInterval": 0}, 422, "spec.pollingInterval"),
        ({"minReplicaCount": 9, "maxReplicaCount": 3}, 422, "minReplicaCount"),
        ({"fallback": {"failureThreshold": 1, "replicas": 1, "behavior": "x"}}, 422, "behavior"),
        ({"idleReplicaCount": 2, "minReplicaCount": 2}, 403, "idleReplicaCount"),
    ],
)
def test_a_wrong_scaled_object_is_refused(
    endpoint: Endpoint, spec: dict[str, Any], status: int, text: str
) -> None:
    """Schema, its rule and KEDA's webhook reject what is not a policy; nothing is stored."""
    scalers = endpoint.kind("keda.sh/v1alpha1", "ScaledObject")

    with pytest.raises(ApiException) as refused:
        scalers.create(
            body=scaled_object(**spec), namespace=endpoint.namespace, query_params=STRICT
        )

    assert refused.value.status == status
    assert text.lower() in message_of(refused.value).lower()
    assert scalers.get(namespace=endpoint.namespace).items == []


def test_a_bare_request_drops_unknown_fields(endpoint: Endpoint) -> None:
    """Without fieldValidation a misspelt field of a ScaledObject is not stored."""
    scalers = endpoint.kind("keda.sh/v1alpha1", "ScaledObject")

    made = scalers.create(body=scaled_object(minReplicas=2), namespace=endpoint.namespace)

    assert "minReplicas" not in made.to_dict()["spec"]


def test_a_strict_request_refuses_unknown_fields_of_any_kind(endpoint: Endpoint) -> None:
    """As kubectl asks: a misspelt field of a Deployment is a 400 that names it."""
    manifest = endpoint.deployment("misspelt")
    manifest["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Never"

    with pytest.raises(ApiException) as refused:
        endpoint.kind("apps/v1", "Deployment").create(
            body=manifest, namespace=endpoint.namespace, query_params=STRICT
        )

    assert refused.value.status == 400
    place = "spec.template.spec.containers[0].imagePullPolice"
    assert f'"{place}"' in message_of(refused.value)


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
        return {item.metadata.name for item in found.items} - {CLUSTER_CONFIG_MAP}

    assert names(label_selector="tier=b") == {"two", "three"}
    assert names(label_selector="tier in (a),!old") == {"one"}
    assert names(field_selector="metadata.name=two") == {"two"}
    assert names(label_selector="tier!=b") == {"one"}


def test_a_watch_reports_each_change_once_and_in_order(endpoint: Endpoint) -> None:
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
    for event in maps.watch(namespace=endpoint.namespace, resource_version=version, timeout=120):
        if event["object"].metadata.name == CLUSTER_CONFIG_MAP:
            continue  # A cluster writes it into each new namespace, at a moment of its own.
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            break
    timer.join()

    kinds = [kind for kind, _ in seen]
    assert seen[0] == ("ADDED", "settings")
    assert set(kinds[1:-1]) == {"MODIFIED"}
    assert seen[-1] == ("DELETED", "settings")


def test_the_kinds_of_a_group_are_reported(endpoint: Endpoint) -> None:
    """The policy check asks for them: all of a group's, none of a group that is not there."""
    discovery = ApiDiscovery(endpoint.client.client)

    assert ("v1", "Pod") in discovery.kinds("")
    assert ("apps/v1", "Deployment") in discovery.kinds("apps")
    assert ("keda.sh/v1alpha1", "ScaledObject") in discovery.kinds("keda.sh")
    assert discovery.kinds("argoproj.io") == frozenset()
