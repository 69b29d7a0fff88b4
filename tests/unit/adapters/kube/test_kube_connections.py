"""The connections of a client of Kubernetes end with it."""

from __future__ import annotations

from kubernetes import client

from lagbench.adapters.kube.kube import Kube


def test_a_closed_client_keeps_no_connection() -> None:
    """The library's own close ends its threads and leaves its connections to chance."""
    api_client = client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))
    pools = api_client.rest_client.pool_manager
    pools.connection_from_url("http://127.0.0.1:1")

    Kube(api_client).close()

    assert len(pools.pools) == 0
