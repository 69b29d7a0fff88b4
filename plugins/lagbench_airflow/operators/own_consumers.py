"""Start a consumer that the user brings, at the policy's floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.manifest_files import base_objects
from lagbench.adapters.kube.ready_pods import start_limit_seconds, wait_ready
from lagbench.catalog.own_consumers import read_environment, read_own_deployment
from lagbench.core.cluster import (
    OwnProcess,
    RunTarget,
    companion_for_run,
    own_consumer_as_process,
    own_consumer_for_cluster,
)
from lagbench.embedded import bench
from lagbench_airflow.cell_run import CellRun

START_SECONDS = 180.0
"""Code of others may take its time: an image is pulled, a JVM starts."""


def start_own_consumers(
    kube: Kube, cell: CellRun, target: RunTarget, *, is_embedded: bool
) -> dict[str, Any]:
    """Apply the user's workload and wait for its pods; return the replicas and what was left out.

    The run folder gets the workload as it was applied. Values of Secrets are not in it.
    """
    replicas = cell.policy.limits.floor_replicas
    found = _workload(cell, target, replicas, is_embedded=is_embedded)
    cell.folder.write_text(
        cell.folder.own_consumer, yaml.safe_dump(found.workload, sort_keys=False), mode=0o600
    )
    cell.folder.update_manifest(own_consumer_notes=list(found.notes))
    companions = (
        found.beside
        if is_embedded
        else [companion_for_run(one, target) for one in base_objects("consumer")]
    )
    for companion in companions:
        kube.apply(companion)
    kube.apply(found.workload)
    wait_ready(
        kube,
        target.names.consumers,
        replicas,
        timeout_seconds=max(START_SECONDS, start_limit_seconds(is_embedded=is_embedded)),
        written_in=str(cell.scenario.consumer.manifest),
    )
    return {"replicas": replicas, "left_out": list(found.notes)}


def _workload(cell: CellRun, target: RunTarget, replicas: int, *, is_embedded: bool) -> OwnProcess:
    consumer = cell.scenario.consumer
    own = read_own_deployment(cell.folder.own_deployment, consumer)
    if not is_embedded:
        workload = own_consumer_for_cluster(own, target, consumer, replicas=replicas)
        return OwnProcess(workload, (), own.notes)
    return own_consumer_as_process(
        own,
        target,
        consumer,
        replicas=replicas,
        environment=read_environment(consumer),
        folder=str(Path(str(consumer.manifest)).parent),
        kafka=bench.kafka_settings(bench.state_dir()),
    )
