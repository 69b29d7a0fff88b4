"""The Kubernetes of the bench, from the Kubernetes provider's connection."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException

from lagbench import project
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.kube_client import OUTAGE_SECONDS, patient_retries
from lagbench.core.cluster.cluster_settings import ClusterSettings, cluster_settings
from lagbench.core.hpa.controller_flags import followed_version
from lagbench.errors import NotReady
from lagbench_airflow.hooks.kafka import connection

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

DEFAULT_CONNECTION = "kubernetes_default"
PATIENCE_SECONDS = OUTAGE_SECONDS
"""Wait of an acting task for an unavailable API server.
Sensors have their own limits and try again by themselves."""


def open_kube(
    kubernetes_conn_id: str = DEFAULT_CONNECTION, *, patience_seconds: float = 0.0
) -> Kube:
    """Return a client for the cluster that the connection names, by the provider's own hook.

    Every field of the provider's connection counts (``kube_config``, ``disable_verify_ssl`` …).
    Each call waits for ``patience_seconds`` for an unavailable API server.
    """
    extra = _extra(kubernetes_conn_id)
    namespace = settings_of_cluster(kubernetes_conn_id).namespace
    return Kube(_log_in(kubernetes_conn_id, extra, patience_seconds), namespace=namespace)


def cluster_version() -> str | None:
    """Return the cluster's version as it is followed; None: it does not answer now."""
    try:
        with closing(open_kube()) as kube:
            return followed_version(kube.server_version())
    except NotReady:
        return None  # the run's first task says so


def _log_in(conn_id: str, extra: Mapping[str, object], patience_seconds: float) -> ApiClient:
    """Return the hook's client with our retries, which the hook cannot set for a pod's account.

    Our own configuration keeps a kubeconfig out of the library's default, which all threads of a
    triggerer share. For a pod's own account the hook would log in to the default only.
    """
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    from kubernetes import client, config

    is_in_cluster = asks_for_own_account(extra)
    own = None if is_in_cluster else client.Configuration()
    try:
        hook = KubernetesHook(conn_id, client_configuration=own, in_cluster=is_in_cluster)
        with hook.get_conn() as logged_in:
            configuration = logged_in.configuration
    except (config.ConfigException, AirflowException, OSError) as error:
        raise NotReady(
            f"the connection {conn_id} cannot be used: {str(error).rstrip('.')}. "
            "Bring the bench up (lagbench up) or correct the connection"
        ) from error
    configuration.retries = patient_retries(patience_seconds)
    return client.ApiClient(configuration)


def settings_of_cluster(kubernetes_conn_id: str = DEFAULT_CONNECTION) -> ClusterSettings:
    """Return the cluster's settings that the connection names."""
    where = f"the connection {kubernetes_conn_id}"
    return cluster_settings(_extra(kubernetes_conn_id), where=where)


def _extra(kubernetes_conn_id: str) -> dict[str, object]:
    extra: dict[str, object] = connection(kubernetes_conn_id, "kubernetes").extra_dejson
    return extra


@dataclass(frozen=True, slots=True)
class EmbeddedAccess:
    """The access of a pod of the embedded bench, which is a process of this machine."""

    kubeconfig: str
    observed_pids: dict[str, int]


def embedded_access(kubernetes_conn_id: str = DEFAULT_CONNECTION) -> EmbeddedAccess | None:
    """Return the embedded bench's access; None if the connection names a real cluster."""
    from lagbench.embedded import bench

    state = bench.running(project.state_dir())
    extra = _extra(kubernetes_conn_id)
    path = provider_field(extra, "kube_config_path")
    if state is None or path != str(state.kubeconfig):
        return None
    parts = {"broker": state.broker, "localkube": state.localkube, "supervisor": state.supervisor}
    return EmbeddedAccess(
        kubeconfig=path,
        observed_pids={name: part.pid for name, part in parts.items() if part is not None},
    )


def asks_for_own_account(extra: Mapping[str, object]) -> bool:
    """Return whether the connection names the account of the pod in which the task runs."""
    return provider_field(extra, "in_cluster") in ("True", "true")


def provider_field(extra: Mapping[str, object], name: str) -> str:
    """Return a field of the provider, which older forms store with a prefix; empty: not set."""
    value = extra.get(name, extra.get(f"extra__kubernetes__{name}"))
    return "" if value is None else str(value)
