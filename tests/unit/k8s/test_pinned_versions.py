"""What runs on a cluster is what the tests and the embedded bench run."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from tests.cluster.rig.versions import pinned
from tests.unit.k8s.base_pods import K8S, pod_spec, workloads

import lagbench
from lagbench.embedded.broker import BrokerLayout, server_properties
from lagbench.embedded.jars import BROKER

ADDRESSES = {
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "controller.quorum.voters",
    "log.dirs",
}
KIND_MAKEFILE = (K8S / "kind/kind.mk").read_text(encoding="utf-8")


def test_kafka_has_the_embedded_brokers_settings() -> None:
    """The two differ in addresses and folders, and in nothing else."""
    embedded = _properties(server_properties(BrokerLayout(Path("/x")), port=1, controller_port=2))

    cluster = _properties((K8S / "base/kafka/server.properties").read_text(encoding="utf-8"))

    assert embedded.keys() == cluster.keys()
    assert {name for name in embedded if embedded[name] != cluster[name]} == ADDRESSES


def test_kafka_has_the_embedded_brokers_version() -> None:
    """The image's tag is the version of the locked jars."""
    image = pod_spec(workloads()["StatefulSet/kafka"])["containers"][0]["image"]

    assert image == f"apache/kafka:{BROKER.version}"


def test_kind_installs_what_the_tests_run_against() -> None:
    """KEDA and metrics-server as the rig builds them, and its minor of Kubernetes."""
    rig = pinned()
    node = yaml.safe_load((K8S / "kind/cluster.yaml").read_text())["nodes"][0]["image"]

    assert _made("KEDA_VERSION") == rig.keda
    assert _made("METRICS_SERVER_VERSION") == rig.metrics_server
    assert node.split(":v")[1].rsplit(".", 1)[0] == rig.kubernetes.rsplit(".", 1)[0]


def test_the_images_carry_the_projects_version() -> None:
    """Makefile and manifests name one tag, lagbench's version."""
    ours = [
        container["image"]
        for workload in workloads().values()
        for container in pod_spec(workload)["containers"]
        if container["image"].startswith("lagbench/")
    ]

    assert set(ours) == {
        f"lagbench/{name}:{lagbench.__version__}" for name in ("programs", "spark")
    }
    assert _made("IMAGE_TAG") == lagbench.__version__


def _made(variable: str) -> str:
    found = re.search(rf"^{variable} := (\S+)$", KIND_MAKEFILE, re.MULTILINE)
    assert found is not None
    return found[1]


def _properties(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
