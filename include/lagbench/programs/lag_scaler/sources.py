"""From an address to the source that reads it; a kind's client is imported at its first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from lagbench.core.lag_scaler import KafkaCluster, LagSource, SourceAddress, is_own_cluster

SourceOpener = Callable[[SourceAddress, Callable[[], int]], LagSource]


def open_source(
    address: SourceAddress,
    now_ns: Callable[[], int],
    environment: Mapping[str, str] | None = None,
) -> LagSource:
    """Return the source of a cluster; ``now_ns`` stamps its samples.

    :param environment: has the reader's own cluster and log-in; None: this process's.
    :raises NotReady: its settings cannot be used, for example a key that does not fit.
    """
    if isinstance(address, KafkaCluster):
        from lagbench.adapters.kafka.kafka_lag_process import KafkaLagProcess

        return KafkaLagProcess(
            kafka_settings(address, os.environ if environment is None else environment),
            now_ns=now_ns,
        )
    from lagbench.adapters.iggy.iggy_connection import IggyConnection
    from lagbench.adapters.iggy.iggy_source import IggySource

    connection = IggyConnection(
        server_address=address.server_address,
        username=address.username,
        password=address.password,
        access_token=address.access_token,
        is_tls=address.is_tls,
        tls_ca_pem=address.ca,
    )
    return IggySource(connection, wall_clock_ns=now_ns)


def kafka_settings(cluster: KafkaCluster, environment: Mapping[str, str]) -> dict[str, object]:
    """Return the settings of a cluster's client; the file's only for the server's own cluster.

    The file is the login of the server: any author of a ScaledObject names a cluster. It wins over
    what the object states, and is not mixed with a login of the object.

    :raises NotReady: the login that the object states cannot be used.
    """
    from lagbench.adapters.kafka.client_settings import SERVERS, own_settings
    from lagbench.adapters.kafka.kafka_security import security_settings

    servers = ",".join(cluster.bootstrap_servers)
    is_own = is_own_cluster(cluster, environment) and not cluster.has_login_of_object
    stated = cluster.security.sasl != "none" or cluster.security.is_tls
    return {
        **(security_settings(cluster.security) if stated else {}),
        **(own_settings(servers, environment) if is_own else {SERVERS: servers}),
    }
