"""Setup: the rig, a broker, a Deployment of consumers, an account with the least rights, Airflow.

The example Dag of the docs restarts the Deployment on the real Kubernetes, and guards it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lagbench.adapters.kube.kube import Kube
from lagbench.embedded.broker import Broker
from tests.cluster.cluster_rehearsal import account_of, kubectl
from tests.cluster.rig.rig import Rig
from tests.integration.guarded_deployment import (
    CONF,
    GROUP,
    Airflow,
    Shop,
    running_airflow,
    shop_on,
)
from tests.integration.pod_manifests import NAMESPACE

pytestmark = pytest.mark.timeout(2700)
ROLE: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "guard"},
    "rules": [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ],
}
"""What docs/own-dags.md says that the example needs."""


@pytest.fixture(scope="module")
def shop(
    rig: Rig, rig_broker: Broker, program_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """Provide the shop on the rig."""
    folder = tmp_path_factory.mktemp("guard")
    kubeconfig = account_of(rig, NAMESPACE, ROLE, folder / "guard.kubeconfig")
    with closing(Kube.from_kubeconfig(str(rig.kubeconfig), namespace=NAMESPACE)) as kube:
        image = {"image": program_image, "imagePullPolicy": "Never"}
        with shop_on(kube, rig_broker, kubeconfig, **image) as shop:
            yield shop
        kubectl(rig, "-n", NAMESPACE, "delete", "deployment", GROUP)


@pytest.fixture
def airflow(shop: Shop, tmp_path: Path) -> Iterator[Airflow]:
    """Provide an Airflow with the example Dag."""
    with running_airflow(shop.connections, tmp_path) as airflow:
        yield airflow


def test_the_example_guards_a_restart_on_a_real_cluster(shop: Shop, airflow: Airflow) -> None:
    """With these rights it drains, watches, restarts and settles; all pods are new."""
    shop.scale(2)
    shop.await_members(2, hold=1)
    before = _pods(shop)

    run_id = airflow.start(CONF)
    state, states = airflow.await_end(run_id)

    assert state == "success", states
    assert "deferred" in states["rebalances_during"]
    assert "deferred" in states["replicas_settled"]
    assert not before & _pods(shop)
    watched = airflow.result(run_id, "rebalances_during")
    assert 1 <= watched["rebalances"] <= watched["max_rebalances"]
    assert airflow.result(run_id, "lag_drained_after")["total_lag"] == 0


def _pods(shop: Shop) -> set[str]:
    found = shop.kube.list("Pod", label_selector=f"app={GROUP}")
    return {str(pod["metadata"]["uid"]) for pod in found}
