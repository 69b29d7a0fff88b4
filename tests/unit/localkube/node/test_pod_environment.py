"""What pods inherit from localkube, and how their CPU time is read."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from lagbench.localkube.node.pod_environment import (
    ContainerConfigFault,
    LaunchPlan,
    NodeEnvironment,
    inheritable,
    plan_launch,
    variable_of,
)
from lagbench.localkube.node.pod_metrics import read_sessions
from lagbench.localkube.storage.object_store import Store
from lagbench.localkube.storage.resources import CONFIG_MAP


def test_secrets_and_airflow_settings_are_not_inherited() -> None:
    """Pods get the plain variables, nothing that names a secret, and our python first on PATH."""
    given = {
        "HOME": "/home/x",
        "PATH": "/usr/bin",
        "API_TOKEN": "t",
        "db_password": "p",
        "AWS_SECRET_ACCESS_KEY": "k",
        "AIRFLOW_CONN_KAFKA_DEFAULT": "c",
        "AIRFLOW__CORE__FERNET_KEY": "f",
        "AIRFLOW_HOME": "a",
        "MYSQL_PWD": "p",
        "DATABASE_URL": "postgres://u:p@db/x",
        "HTTPS_PROXY": "http://u:p@proxy",
        "SENTRY_DSN": "https://k@sentry/1",
        "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092",
    }

    kept = inheritable(given)

    assert set(kept) == {"HOME", "PATH", "KAFKA_BOOTSTRAP_SERVERS", "PYTHONUNBUFFERED"}
    assert kept["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"


def test_a_port_is_reported_in_a_variable_of_its_name() -> None:
    """Dashes become underscores, letters upper case."""
    assert variable_of("PORT", "metrics-http") == "PORT_METRICS_HTTP"


def test_usage_is_summed_per_session(tmp_path: Path) -> None:
    """Processes of one session add up, children waited for included; odd names do no harm."""
    for pid, command, session, ticks, pages in (
        (10, "python", 10, (100, 50, 25, 25), 3),
        (11, "a) b (c", 10, (100, 0, 0, 0), 1),
        (12, "other", 12, (1, 0, 0, 0), 1),
    ):
        folder = tmp_path / str(pid)
        folder.mkdir()
        before = f"{pid} ({command}) S 1 {session} {session} 0 -1 4194304 0 0 0 0 "
        after = " ".join(map(str, ticks)) + f" 20 0 1 0 5 1000 {pages} 0"
        (folder / "stat").write_text(before + after)
    (tmp_path / "meminfo").write_text("not a process")

    sessions = read_sessions(tmp_path)

    ticks_per_second = os.sysconf("SC_CLK_TCK")
    assert sessions[10].cpu_seconds == 300 / ticks_per_second
    assert sessions[10].memory_bytes == 4 * os.sysconf("SC_PAGE_SIZE")
    assert set(sessions) == {10, 12}


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
