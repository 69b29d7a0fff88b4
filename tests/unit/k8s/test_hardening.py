"""Pods of k8s/base run with as little as they need; ports, rights and overlays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from tests.fakes.triggers import read_trigger
from tests.unit.k8s.program_imports import K8S, base_objects, pod_spec, workloads

from lag_scaler.options import parse_options

WORKLOADS = workloads()
RUN_ONCE = {"Job/producer", "Job/actions"}


@pytest.mark.parametrize("name", WORKLOADS)
def test_pods_meet_the_restricted_profile(name: str) -> None:
    """Not as root, default seccomp, no new privileges, no capabilities, nothing written to /.

    A pod without an account of its own gets no token, and no empty folder fills its node.
    """
    pod = pod_spec(WORKLOADS[name])

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert ("serviceAccountName" in pod) != (pod.get("automountServiceAccountToken") is False)
    for volume in pod.get("volumes") or ():
        assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"], volume["name"]
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("name", WORKLOADS)
def test_containers_say_what_they_need_and_may_take(name: str) -> None:
    """Requests, a limit on memory above its request, none on CPU; a version as image's tag.

    A reference to a variable further down would stay unexpanded.
    """
    for container in pod_spec(WORKLOADS[name])["containers"]:
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert (set(requests), set(limits)) == ({"cpu", "memory"}, {"memory"})
        assert _mebibytes(limits["memory"]) > _mebibytes(requests["memory"])
        tag = container["image"].rpartition(":")[2]
        assert any(character.isdigit() for character in tag), container["image"]
        known: set[str] = set()
        for entry in container.get("env") or ():
            named = {part.split(")")[0] for part in entry.get("value", "").split("$(")[1:]}
            assert named <= known, entry["name"]
            known.add(entry["name"])


@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - RUN_ONCE))
def test_servers_are_probed_patiently(name: str) -> None:
    """Readiness and liveness; only a minute or more without an answer restarts a container."""
    for container in pod_spec(WORKLOADS[name])["containers"]:
        assert "readinessProbe" in container
        liveness = container["livenessProbe"]
        patience = liveness.get("periodSeconds", 10) * liveness.get("failureThreshold", 3)
        assert patience >= 30


@pytest.mark.parametrize(
    "name", ["Job/producer", "Job/actions", "Deployment/recorder", "Deployment/lagbench-lag-scaler"]
)
def test_autoscalers_of_nodes_leave_pods_alone_that_a_run_cannot_restart(name: str) -> None:
    """Neither the Cluster Autoscaler nor Karpenter evicts them: the run would not be valid."""
    annotations = WORKLOADS[name]["spec"]["template"]["metadata"]["annotations"]

    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert annotations["karpenter.sh/do-not-disrupt"] == "true"


def test_rights_are_named_one_by_one() -> None:
    """No role has a wildcard, reads secrets, or reaches beyond its namespace but by name."""
    rules = [
        (o["kind"], rule)
        for o in base_objects()
        if o["kind"] in {"Role", "ClusterRole"}
        for rule in o["rules"]
    ]

    assert rules
    for kind, rule in rules:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        assert "secrets" not in rule["resources"] or rule["verbs"] == ["create"]
        assert kind == "Role" or rule["resourceNames"]


@pytest.mark.parametrize("name", ["recorder", "actions"])
def test_the_runner_may_grant_what_the_programs_of_a_run_get(name: str) -> None:
    """RBAC rejects a role that grants more than its creator has."""
    roles = {o["metadata"]["name"]: o["rules"] for o in base_objects() if o["kind"] == "Role"}

    assert _rights(roles[name]) <= _rights(roles["runner"])


def test_the_example_of_mutual_tls_names_flags_of_the_lag_scaler_and_parameters_of_keda() -> None:
    """The server's three files lie in its mount; KEDA gets the client's three from one Secret."""
    read = lambda name: yaml.safe_load((K8S / "lag-scaler-mtls" / name).read_text())  # noqa: E731
    (container,) = pod_spec(read("mutual-tls.yaml"))["containers"]
    options = parse_options([], {item["name"]: item["value"] for item in container["env"]})
    triggers = read("trigger-authentication.yaml")["spec"]["secretTargetRef"]
    trigger = read_trigger(
        "external",
        {"scalerAddress": "s:6000"},
        auth={item["parameter"]: item["key"] for item in triggers},
    )

    folder = container["volumeMounts"][0]["mountPath"]
    files = (options.tls_cert, options.tls_key, options.client_ca)
    secrets = (trigger.tls_client_cert, trigger.tls_client_key, trigger.ca_cert)
    keys = ["tls.crt", "tls.key", "ca.crt"]
    assert [str(file) for file in files] == [f"{folder}/{key}" for key in keys]
    assert [secret and secret.get_secret_value() for secret in secrets] == keys


def _rights(rules: list[dict[str, list[str]]]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _mebibytes(quantity: str) -> int:
    return int(quantity[:-2]) * {"Mi": 1, "Gi": 1024}[quantity[-2:]]


BASE = list(yaml.safe_load_all((K8S / "base/namespace/network-policies.yaml").read_text()))

KIND = [
    found
    for found in yaml.safe_load_all((K8S / "overlays/kind/outside.yaml").read_text())
    if found["kind"] == "NetworkPolicy"
]


def labels(name: str) -> dict[str, str]:
    """Return the labels of a committed workload's pods."""
    found: dict[str, str] = workloads()[name]["spec"]["template"]["metadata"]["labels"]
    return found


@pytest.mark.parametrize(
    ("to", "port", "who"),
    [
        ("Deployment/consumer", "metrics", {"consumer", "spark", "keda", "other"}),
        ("Deployment/spark-stream-worker", "page", {"spark"}),
        ("Deployment/spark-stream-master", "rpc", {"spark"}),
        ("Deployment/lagbench-lag-scaler", "grpc", {"keda"}),
        ("StatefulSet/kafka", "clients", {"consumer", "spark", "keda"}),
        ("Deployment/prometheus", "http", {"consumer", "spark", "keda"}),
        ("Deployment/grafana", "http", set()),
    ],
)
def test_a_port_is_open_to_those_who_need_it(to: str, port: str, who: set[str]) -> None:
    """Pods of the run, KEDA's namespace, another namespace; nobody outside of the cluster."""
    sources = {
        "consumer": ("lagbench", labels("Deployment/consumer")),
        "spark": ("lagbench", labels("Deployment/spark-stream-driver")),
        "keda": ("keda", {}),
        "other": ("other", {}),
        "outside": None,
    }

    found = {name for name, source in sources.items() if is_open(BASE, to, port, source)}

    assert found == who


@pytest.mark.parametrize("to", ["Deployment/prometheus", "Deployment/grafana"])
def test_kinds_node_ports_are_open(to: str) -> None:
    """This machine's browser is outside of the cluster."""
    assert is_open(BASE + KIND, to, "http", None)


def test_every_pod_is_closed_first() -> None:
    """One policy selects all pods; the others add to it, and none restricts what a pod reaches."""
    assert [found["spec"]["podSelector"] for found in BASE].count({}) == 1
    assert all(found["spec"]["policyTypes"] == ["Ingress"] for found in BASE + KIND)


def is_open(
    policies: list[dict[str, Any]],
    to: str,
    port: str,
    source: tuple[str, Mapping[str, str]] | None,
) -> bool:
    """Return whether a policy lets ``source`` (None: no pod) connect to a named port."""
    container = pod_spec(workloads()[to])["containers"][0]
    (number,) = (p["containerPort"] for p in container["ports"] if p["name"] == port)
    return any(
        ("ports" not in rule or {p["port"] for p in rule["ports"]} & {port, number})
        and ("from" not in rule or any(_is_from(peer, source) for peer in rule["from"]))
        for policy in policies
        if _selects(policy["spec"]["podSelector"], labels(to))
        for rule in policy["spec"]["ingress"]
    )


def _is_from(peer: dict[str, Any], source: tuple[str, Mapping[str, str]] | None) -> bool:
    if source is None:
        return False
    namespace, its_labels = source
    if "namespaceSelector" in peer:
        return _selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": namespace})
    return namespace == "lagbench" and _selects(peer["podSelector"], its_labels)


def _selects(selector: dict[str, Any], its_labels: Mapping[str, str]) -> bool:
    wanted = (selector.get("matchLabels") or {}).items()
    expressions = selector.get("matchExpressions") or ()
    return wanted <= dict(its_labels).items() and all(
        its_labels.get(one["key"]) in one["values"] for one in expressions
    )


CONTEXT = K8S / "overlays/context"


def read(folder: str) -> dict[str, Any]:
    """Return the kustomization of a folder below the overlay."""
    found: dict[str, Any] = yaml.safe_load((CONTEXT / folder / "kustomization.yaml").read_text())
    return found


def left_out() -> dict[str, str]:
    """Return the values of keys that the settings file does not have."""
    (generator,) = read("settings/left-out")["configMapGenerator"]
    return dict(literal.split("=", 1) for literal in generator["literals"])


def test_no_replacement_needs_a_key_of_the_file() -> None:
    """Kustomize rejects a replacement whose source is not there."""
    sources = [
        replacement["source"]
        for part in ("", "workloads")
        for replacement in read(part).get("replacements", [])
        if replacement["source"]["kind"] == "ConfigMap"
    ]

    (generator,) = read("settings")["configMapGenerator"]

    assert {source["fieldPath"].removeprefix("data.") for source in sources} == left_out().keys()
    assert generator["behavior"] == "merge"


def test_what_is_left_out_is_as_the_base_has_it() -> None:
    """Image and brokers are those of the consumers that a run makes without settings."""
    container = pod_spec(workloads()["Deployment/consumer"])["containers"][0]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}

    assert left_out() == {
        "IMAGE": container["image"],
        "KAFKA_BOOTSTRAP_SERVERS": environment["KAFKA_BOOTSTRAP_SERVERS"],
    }


def test_the_overlay_makes_no_claim() -> None:
    """Its class may be any, the default or none: the run that needs it makes it accordingly."""
    assert read("")["resources"] == ["../../base/namespace", "../../base/runner"]


def test_the_own_controllers_image_can_be_named() -> None:
    """A cluster of yours takes it from a registry of yours, as all others."""
    path = K8S / "base/autoscaler-instead-of-keda/kustomization.yaml"
    (image,) = yaml.safe_load(path.read_text())["images"]

    container = pod_spec(workloads()["Deployment/lagbench-autoscaler"])["containers"][0]

    assert f"{image['name']}:{image['newTag']}" == container["image"]
    assert f"{image['newName']}:{image['newTag']}" == container["image"]
