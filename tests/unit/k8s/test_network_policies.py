"""Who may connect to which port of the pods in the namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from tests.unit.k8s.base_pods import K8S, pod_spec, workloads

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
