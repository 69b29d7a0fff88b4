"""The real KEDA asks the lag scaler, and the real HPA follows its answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lagbench.adapters.kube.kube import Kube
from lagbench.core.scenario.run_names import NAMESPACE, RunNames
from lagbench.embedded.broker import Broker
from tests.cluster.lagging_group import commit, idle_consumers, let_lag, scaled_object
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually
from tests.integration.lag_scaler.scaler_process import running_scaler

NAMES, NAME, PARTITIONS, LAG_EACH = RunNames("persistent-lag"), "orders", 4, 500


@pytest.fixture
def broker(rig: Rig, tmp_path: Path) -> Iterator[Broker]:
    """Provide a broker in the rig's network with a group that lags on every partition."""
    running = Broker(tmp_path / "broker")
    running.start()
    lag = PARTITIONS * LAG_EACH
    let_lag(running.bootstrap_servers, NAMES, lag, partitions=PARTITIONS)
    yield running
    running.stop()


@pytest.fixture
def kube(rig: Rig) -> Iterator[Kube]:
    """Provide the namespace; what the test has there goes, the ScaledObject first."""
    connected = Kube.from_kubeconfig(str(rig.kubeconfig))
    connected.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield connected
    connected.delete("ScaledObject", NAME)
    eventually(lambda: connected.get("ScaledObject", NAME) is None, "its deletion")
    connected.delete("Deployment", NAME)
    connected.close()


def test_real_keda_scales_on_persistent_lag(broker: Broker, kube: Kube, tmp_path: Path) -> None:
    """Lag of 20 thresholds on 4 partitions gives 4 pods, not 5; a drained group gives the floor."""
    kube.apply(idle_consumers(NAMESPACE, 1, name=NAME))

    def replicas() -> int:
        return int((kube.get("Deployment", NAME) or {})["spec"]["replicas"])

    def is_active() -> bool:
        status = (kube.get("ScaledObject", NAME) or {}).get("status") or {}
        conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
        return conditions.get("Active") == "True"

    with running_scaler(tmp_path) as scaler:
        metadata = {
            "scalerAddress": scaler.address,
            "bootstrapServers": broker.bootstrap_servers,
            "topic": NAMES.events_topic,
            "consumerGroup": NAMES.group,
            "lagThreshold": "100",
            "sustainSeconds": "4",
            "samplingInterval": "1",
            "windowSize": "30",
        }
        trigger = {"type": "external", "metadata": metadata}
        kube.apply(scaled_object(NAMESPACE, NAME, trigger, at_once=15, maxReplicaCount=10))
        eventually(lambda: replicas() == PARTITIONS, "one pod per partition")
        eventually(is_active, "KEDA's own look, which follows another clock than the HPA's")

        commit(broker.bootstrap_servers, NAMES, LAG_EACH, partitions=PARTITIONS)
        eventually(lambda: replicas() == 1, "the floor")
        served = scaler.metrics

    assert 'method="GetMetrics"' in served
