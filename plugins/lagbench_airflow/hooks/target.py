"""The target of runs, as the three Airflow connections name it."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from lagbench.core.cluster import EMBEDDED
from lagbench.embedded import bench
from lagbench.embedded.bench_state import BenchFiles
from lagbench.errors import NotReady
from lagbench.orchestrator.target import CONTEXT_PREFIX

CONNECTIONS = ("kafka_default", "kubernetes_default", "spark_default")


def require_connections() -> None:
    """Check that all connections are defined.

    :raises NotReady: one is not.
    """
    for name in CONNECTIONS:
        connection(name)


def is_embedded() -> bool:
    """Return whether the connection kubernetes_default names the embedded bench's localkube."""
    extra = connection("kubernetes_default").extra_dejson
    return str(extra.get("kube_config_path")) == str(BenchFiles(bench.state_dir()).kubeconfig)


def target_name() -> str:
    """Return the target of runs in the form of ``--target``; in_cluster: the pod's own cluster."""
    if is_embedded():
        return EMBEDDED
    extra = connection("kubernetes_default").extra_dejson
    return f"{CONTEXT_PREFIX}{extra.get('cluster_context') or 'in_cluster'}"


def connection(name: str) -> Any:
    """Return one of Airflow's connections.

    :raises NotReady: it is not defined.
    """
    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        raise NotReady(
            f"the connection {name} is not defined. Start Airflow through lagbench (make ui, "
            "lagbench run), or define kafka_default, kubernetes_default and spark_default"
        ) from error
