"""Every pod of k8s/base runs with as little as it needs."""

from __future__ import annotations

import pytest
import yaml
from tests.fakes.triggers import read_trigger
from tests.unit.k8s.base_pods import K8S, base_objects, pod_spec, workloads

from lagbench.programs.lag_scaler.lag_scaler_options import parse_options

WORKLOADS = workloads()
RUN_ONCE = {"Job/producer", "Job/actions"}


@pytest.mark.parametrize("name", WORKLOADS)
def test_pods_meet_the_restricted_profile(name: str) -> None:
    """Not as root, default seccomp, no new privileges, no capabilities, nothing written to /."""
    pod = pod_spec(WORKLOADS[name])

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("name", WORKLOADS)
def test_pods_say_what_they_need_and_may_take(name: str) -> None:
    """Requests for CPU and memory, a limit on memory above its request, none on CPU."""
    for container in pod_spec(WORKLOADS[name])["containers"]:
        resources = container["resources"]

        assert set(resources["requests"]) == {"cpu", "memory"}
        assert set(resources["limits"]) == {"memory"}
        assert _mebibytes(resources["limits"]["memory"]) > _mebibytes(
            resources["requests"]["memory"]
        )


@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - RUN_ONCE))
def test_servers_are_probed_patiently(name: str) -> None:
    """Readiness and liveness; only a minute or more without an answer restarts a container."""
    for container in pod_spec(WORKLOADS[name])["containers"]:
        assert "readinessProbe" in container
        liveness = container["livenessProbe"]
        patience = liveness.get("periodSeconds", 10) * liveness.get("failureThreshold", 3)
        assert patience >= 30


@pytest.mark.parametrize("name", WORKLOADS)
def test_tokens_are_only_where_an_account_is(name: str) -> None:
    """A pod without an account of its own gets no token of the API."""
    pod = pod_spec(WORKLOADS[name])

    assert ("serviceAccountName" in pod) != (pod.get("automountServiceAccountToken") is False)


@pytest.mark.parametrize(
    "name", ["Job/producer", "Job/actions", "Deployment/recorder", "Deployment/lagbench-lag-scaler"]
)
def test_autoscalers_of_nodes_leave_pods_alone_that_a_run_cannot_restart(name: str) -> None:
    """Neither the Cluster Autoscaler nor Karpenter evicts them: the run would not be valid."""
    annotations = WORKLOADS[name]["spec"]["template"]["metadata"]["annotations"]

    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert annotations["karpenter.sh/do-not-disrupt"] == "true"


@pytest.mark.parametrize("name", WORKLOADS)
def test_images_are_pinned(name: str) -> None:
    """Each image has a version as its tag."""
    for container in pod_spec(WORKLOADS[name])["containers"]:
        tag = container["image"].rpartition(":")[2]

        assert any(character.isdigit() for character in tag), container["image"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_pod_fills_its_node(name: str) -> None:
    """Each empty folder has a limit."""
    for volume in pod_spec(WORKLOADS[name]).get("volumes") or ():
        assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"], volume["name"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_variables_name_only_earlier_ones(name: str) -> None:
    """A reference to a variable further down would stay unexpanded."""
    for container in pod_spec(WORKLOADS[name])["containers"]:
        known: set[str] = set()
        for entry in container.get("env") or ():
            named = {part.split(")")[0] for part in entry.get("value", "").split("$(")[1:]}
            assert named <= known, entry["name"]
            known.add(entry["name"])


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
