"""The target of runs, as the three Airflow connections name it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from lagbench.core.cluster import EMBEDDED
from lagbench.embedded import bench
from lagbench.embedded.bench_state import BenchFiles
from lagbench.errors import NotReady
from lagbench.orchestrator.target import CONTEXT_PREFIX
from lagbench_airflow.hooks.kube import asks_for_own_account, open_kube, provider_field

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
    """Return the target of runs, by which cells of different clusters differ.

    It is in the form of ``--target`` if the connection names a context; in_cluster: the pod's own
    cluster. Without either it is the address of the API server: kubeconfigs of different clusters
    may have one current context, as those of k8s/runner-kubeconfig.sh do.

    :raises NotReady: the kubeconfig cannot be used.
    """
    if is_embedded():
        return EMBEDDED
    extra = connection("kubernetes_default").extra_dejson
    context = provider_field(extra, "cluster_context")
    if context or asks_for_own_account(extra):
        return f"{CONTEXT_PREFIX}{context or 'in_cluster'}"
    with closing(open_kube()) as kube:
        return f"server:{kube.api_client.configuration.host}"


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
