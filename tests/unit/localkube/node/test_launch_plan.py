"""The command and the environment of a container: its ports and its volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lagbench.localkube.node.pod_environment import (
    ContainerConfigFault,
    LaunchPlan,
    NodeEnvironment,
    plan_launch,
)
from lagbench.localkube.storage.resources import CONFIG_MAP
from lagbench.localkube.storage.store import Store

CONTAINER: dict[str, Any] = {
    "name": "orders",
    "command": ["python", "orders.py", "--config=$(VOLUME_APP_CONFIG)/a.yaml"],
    "env": [{"name": "LISTEN", "value": "127.0.0.1:$(PORT_HTTP)"}],
    "volumeMounts": [
        {"name": "app-config", "mountPath": "/etc/app"},
        {"name": "cache", "mountPath": "/var/cache"},
    ],
}


def planned(folder: Path, store: Store) -> LaunchPlan:
    """Return the plan of the container in a pod with four volumes."""
    volumes = [
        {"name": "app-config", "configMap": {"name": "app"}},
        {"name": "cache", "emptyDir": {}},
        {"name": "not-mounted", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    pod = {
        "metadata": {"name": "orders-1", "namespace": "lagbench", "uid": "u"},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [CONTAINER],
            "volumes": volumes,
        },
    }
    node = NodeEnvironment({}, Path("/kubeconfig"), store)
    return plan_launch(pod, CONTAINER, {"http": 40_001}, node, folder)


def test_a_mounted_folder_is_in_a_variable_and_has_the_config_maps_files(tmp_path: Path) -> None:
    """EmptyDir and ConfigMap are folders of the pod; other volumes are none."""
    store = Store()
    metadata = {"name": "app", "namespace": "lagbench", "uid": "c"}
    store.insert(CONFIG_MAP, {"metadata": metadata, "data": {"a.yaml": "currency: EUR"}})

    plan = planned(tmp_path, store)

    config = tmp_path / "volumes" / "app-config"
    assert plan.command[-1] == f"--config={config}/a.yaml"
    assert (config / "a.yaml").read_text() == "currency: EUR"
    assert Path(plan.environment["VOLUME_CACHE"]).is_dir()
    assert not {"VOLUME_NOT_MOUNTED", "VOLUME_DATA"} & set(plan.environment)


def test_a_variable_may_hold_the_pods_port(tmp_path: Path) -> None:
    """The port is known before the variables are read."""
    store = Store()
    store.insert(
        CONFIG_MAP, {"metadata": {"name": "app", "namespace": "lagbench", "uid": "c"}, "data": {}}
    )

    assert planned(tmp_path, store).environment["LISTEN"] == "127.0.0.1:40001"


def test_a_missing_config_map_keeps_the_container_from_starting(tmp_path: Path) -> None:
    """As the kubelet does: the container waits with the reason."""
    with pytest.raises(ContainerConfigFault, match='"app"'):
        planned(tmp_path, Store())
