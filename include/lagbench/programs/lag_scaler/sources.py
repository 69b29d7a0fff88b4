"""From an address to the source that reads it; a kind's client is imported at its first use."""

from __future__ import annotations

from collections.abc import Callable

from lagbench.core.lag_scaler import KafkaCluster, LagSource, SourceAddress

SourceOpener = Callable[[SourceAddress, Callable[[], int]], LagSource]


def open_source(address: SourceAddress, now_ns: Callable[[], int]) -> LagSource:
    """Return the source of a cluster; ``now_ns`` stamps its samples.

    :raises NotReady: its settings cannot be used, for example a key that does not fit.
    """
    if isinstance(address, KafkaCluster):
        from lagbench.adapters.kafka.client_settings import own_settings
        from lagbench.adapters.kafka.kafka_lag_process import KafkaLagProcess
        from lagbench.adapters.kafka.kafka_security import security_settings

        stated = address.security.sasl != "none" or address.security.is_tls
        settings = {
            **own_settings(",".join(address.bootstrap_servers)),
            **(security_settings(address.security) if stated else {}),
        }
        return KafkaLagProcess(settings, now_ns=now_ns)
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
