"""The rig's own faults: what is stopped comes back, and the rest has lived through it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config

from lagbench.adapters.kube.kube import Kube
from lagbench.errors import NotReady
from tests.cluster.rig.node import NODE
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually

ON_NOTHING = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "on-nothing", "finalizers": ["finalizer.keda.sh"]},
    "spec": {
        "scaleTargetRef": {"name": "nothing"},
        "triggers": [
            {
                "type": "cron",
                "metadata": {
                    "timezone": "UTC",
                    "start": "0 0 * * *",
                    "end": "1 0 * * *",
                    "desiredReplicas": "1",
                },
            }
        ],
    },
}


@pytest.fixture
def kube(rig: Rig) -> Iterator[Kube]:
    """Provide a client that asks about policies."""
    connected = Kube.from_kubeconfig(str(rig.kubeconfig), namespace="default")
    yield connected
    connected.close()


def test_an_absent_api_server_is_noticed_and_comes_back(rig: Rig, kube: Kube) -> None:
    """While it is unreachable a client is told so; afterwards every other program still runs."""
    with rig.without_api_server(), pytest.raises(NotReady):
        kube.list("Deployment")

    assert kube.list("Deployment") == []
    assert rig.daemons.ended() == []


def test_keda_can_be_stopped_and_taken_off(rig: Rig, kube: Kube) -> None:
    """Stopped, its objects stay; taken off, even its definitions go, and then come back."""
    kube.apply(ON_NOTHING)
    with rig.without_keda():
        assert kube.get("ScaledObject", "on-nothing") is not None
    with rig.without_keda_installed(), pytest.raises(NotReady):
        kube.list("ScaledObject")

    rig.restart_keda_operator()
    assert kube.list("ScaledObject") == []
    assert rig.daemons.ended() == []


def test_a_new_kubelet_keeps_its_node(rig: Rig) -> None:
    """The node is the same one and Ready, as the new kubelet says."""
    core = client.CoreV1Api(config.new_client_from_config(str(rig.kubeconfig)))
    before = core.read_node(NODE)
    time.sleep(1)  # heartbeats are whole seconds: the new kubelet's is to be a later one

    rig.restart_kubelet()

    def is_ready_anew() -> bool:
        # A kubelet writes a status as it starts, and what it says first may be "not yet".
        ready = readiness(core.read_node(NODE))
        is_of_this_kubelet = ready.last_heartbeat_time > readiness(before).last_heartbeat_time
        return is_of_this_kubelet and ready.status == "True"

    eventually(is_ready_anew, "a node that its new kubelet finds Ready")
    assert core.read_node(NODE).metadata.uid == before.metadata.uid


def readiness(node: Any) -> Any:
    """Return the condition Ready of a node."""
    return next(item for item in node.status.conditions if item.type == "Ready")
