"""Open what reads offsets: a client is imported at the first use of its kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from lag_scaler.addresses import KafkaCluster, SourceAddress
from lag_scaler.offsets import GroupSample, GroupTopic


class LagSource(Protocol):
    """One cluster's offsets, for all requested groups at once."""

    def sample(self, wanted: Sequence[GroupTopic]) -> Mapping[GroupTopic, GroupSample]:
        """Return a sample for each requested group and topic; a failed one has an ``error``."""
        ...

    def close(self) -> None:
        """Close the connection; may be called twice."""
        ...


def open_source(
    address: SourceAddress, now_ns: Callable[[], int], environment: Mapping[str, str] | None = None
) -> LagSource:
    """Return the source of a cluster.

    :param now_ns: stamps the samples.
    :param environment: has the reader's own cluster and log-in; None: this process's.
    :raises NotReady: its settings cannot be used, for example a key that does not fit.
    """
    if isinstance(address, KafkaCluster):
        from lag_scaler.kafka_process import KafkaLagProcess

        own = os.environ if environment is None else environment
        return KafkaLagProcess(address.client_settings(own), now_ns=now_ns)
    from lag_scaler.iggy_source import IggySource

    return IggySource(address, now_ns=now_ns)
