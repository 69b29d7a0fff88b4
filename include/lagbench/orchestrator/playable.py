"""Reject a cell that its target lacks a part for, before anything starts."""

from __future__ import annotations

from pathlib import Path

import psutil

from lagbench.catalog.catalog import Cell
from lagbench.catalog.own_consumers import require_own_consumer
from lagbench.core.cluster.action_rights import (
    refuse_kind_on_cluster,
    refuse_on_cluster,
    refuse_without_own_broker,
)
from lagbench.core.cluster.settings import ClusterSettings
from lagbench.core.plan.spark_needs import check_spark_fit
from lagbench.core.policy.controller import require_own_controller
from lagbench.core.policy.kafka_log_in import require_kafka_log_in
from lagbench.core.scenario.hpa_phase import require_known_hpa
from lagbench.embedded import bench
from lagbench.embedded.prometheus_program import require_prometheus


def require_playable(cell: Cell, cluster: ClusterSettings | None, state_dir: Path) -> None:
    """Reject what the bench, or the cluster, cannot run as it is meant.

    :param cluster: None: the embedded bench.
    """
    require_known_hpa(cell.scenario, is_embedded=cluster is None)
    for name, policy in cell.policies:
        require_own_controller(policy.manifest, where=name, is_embedded=cluster is None)
    on = bench.kafka_settings(state_dir) if cluster is None else cluster
    require_own_consumer(cell.scenario, on=on)
    if cluster is None:
        free = psutil.virtual_memory().available // 2**20
        check_spark_fit(cell.scenario, cell.policy, memory_mebibytes=free)
        if not bench.has_own_broker(state_dir):
            refuse_without_own_broker(cell.scenario)
    else:
        refuse_on_cluster(cell.scenario)
        refuse_kind_on_cluster(cell.scenario, cluster)
    for name, policy in cell.policies:
        if cluster is None:
            require_prometheus(policy.manifest, where=name)
        elif cluster.kafka_secret:
            require_kafka_log_in(policy.manifest, where=name)
