"""The target of runs, as the three Airflow connections name it."""

from __future__ import annotations

from contextlib import closing

from lagbench import project
from lagbench.core.cluster.cluster_settings import EMBEDDED
from lagbench.embedded.bench_state import BenchFiles
from lagbench.orchestrator.target import CONTEXT_PREFIX
from lagbench_airflow.hooks.kafka import EXAMPLES, connection
from lagbench_airflow.hooks.kube import asks_for_own_account, open_kube, provider_field


def require_connections() -> None:
    """Check that all connections are defined."""
    for sort in EXAMPLES:
        connection(f"{sort}_default", sort)


def is_embedded() -> bool:
    """Return whether the connection kubernetes_default names the embedded bench's localkube."""
    extra = connection("kubernetes_default", "kubernetes").extra_dejson
    return str(extra.get("kube_config_path")) == str(BenchFiles(project.state_dir()).kubeconfig)


def target_name() -> str:
    """Return the target of runs, by which cells of different clusters differ.

    It is in the form of ``--target`` if the connection names a context; in_cluster: the pod's own
    cluster. Without either it is the address of the API server: kubeconfigs of different clusters
    may have one current context, as those of k8s/runner-kubeconfig.sh do.
    """
    if is_embedded():
        return EMBEDDED
    extra = connection("kubernetes_default", "kubernetes").extra_dejson
    context = provider_field(extra, "cluster_context")
    if context or asks_for_own_account(extra):
        return f"{CONTEXT_PREFIX}{context or 'in_cluster'}"
    with closing(open_kube()) as kube:
        return f"server:{kube.api_client.configuration.host}"
