"""Start a consumer on Spark: the master, the workers at the policy's floor, then the driver."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.manifest_files import base_manifest, base_objects
from lagbench.adapters.kube.ready_pods import wait_ready
from lagbench.core.cluster import (
    RunTarget,
    SparkPlace,
    claim_for_cluster,
    companion_for_run,
    spark_consumer_for_run,
    spark_secret_for_run,
)
from lagbench.core.scenario import (
    CONSUMER_DEPLOYMENT,
    PORT_ANNOTATION,
    SPARK_DRIVER,
    SPARK_MASTER,
    SPARK_MASTER_PORT,
)
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.imposed_limits import require_unthrottled

START_SECONDS = 300.0
"""Of each part: two JVMs of a worker took 7 s on a busy machine of two cores, the driver 40 s."""
CHECKPOINT = "checkpoint"


def start_spark_consumers(
    kube: Kube, cell: CellRun, target: RunTarget, *, is_embedded: bool
) -> dict[str, Any]:
    """Apply all parts, each when the one before is Ready; return the replicas and the arguments.

    The driver is Ready after its first batch, on warm executors. A retry applies the same again.
    """
    replicas = cell.policy.limits.floor_replicas
    for companion in _companions(is_embedded=is_embedded):
        kube.apply(companion_for_run(companion, target))
    if not is_embedded:
        _claim_checkpoint(kube, target)
    service = kube.get("Service", SPARK_MASTER) or {}
    # After a retry the first one stays: pods have it.
    kube.create(spark_secret_for_run(service, target, secrets.token_hex()))
    url = f"spark://{SPARK_MASTER}:{SPARK_MASTER_PORT}"
    place = _place(cell, master_url=url, is_embedded=is_embedded)

    def parts(place: SparkPlace) -> list[dict[str, Any]]:
        return spark_consumer_for_run(
            lambda folder: base_manifest(folder, "Deployment"),
            target,
            cell.scenario,
            place,
            replicas=replicas,
        )

    _start(kube, parts(place)[0], is_embedded=is_embedded)
    place = replace(place, master_url=_master_url(kube, is_embedded=is_embedded))
    _, workers, driver = parts(place)
    _start(kube, workers, is_embedded=is_embedded)
    _start(kube, driver, is_embedded=is_embedded)
    container = driver["spec"]["template"]["spec"]["containers"][0]
    return {"replicas": replicas, "args": container["args"]}


def _start(kube: Kube, deployment: dict[str, Any], *, is_embedded: bool) -> None:
    kube.apply(deployment)
    name, replicas = deployment["metadata"]["name"], deployment["spec"]["replicas"]
    wait_ready(kube, name, replicas, timeout_seconds=START_SECONDS)
    if not is_embedded:
        require_unthrottled(kube, deployment)


def _companions(*, is_embedded: bool) -> list[dict[str, Any]]:
    """Return the master's Service and, where nodes are drained, the workers' disruption budget."""
    services = base_objects(SPARK_MASTER)
    return services if is_embedded else [*services, *base_objects(CONSUMER_DEPLOYMENT)]


def _claim_checkpoint(kube: Kube, target: RunTarget) -> None:
    """Create the claim for checkpoints, which outlives the run, unless nothing is to be stored."""
    for claim in base_objects(SPARK_DRIVER):
        made = claim_for_cluster(claim, target)
        if made is not None:
            kube.create_missing(made)  # what exists stays: its class and size cannot change


def _master_url(kube: Kube, *, is_embedded: bool) -> str:
    """Return the address of the master's Service, which is known when it has been applied.

    The address and not the name: localkube has no names, and a cluster may have no DNS for pods.
    """
    service = kube.get("Service", SPARK_MASTER) or {}
    if is_embedded:
        return f"spark://127.0.0.1:{service['metadata']['annotations'][f'{PORT_ANNOTATION}rpc']}"
    address = str(service["spec"]["clusterIP"])
    host = f"[{address}]" if ":" in address else address
    return f"spark://{host}:{SPARK_MASTER_PORT}"


def _place(cell: CellRun, *, master_url: str, is_embedded: bool) -> SparkPlace:
    own = version("pyspark")
    if not is_embedded:
        return SparkPlace(master_url, own)
    from lagbench.embedded.spark_packages import SPARK_JOBS, spark_jars, submit_environment

    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(dict.fromkeys([str(SPARK_JOBS), *filter(None, known)]))
    return SparkPlace(
        master_url,
        own,
        checkpoint=f"file://{cell.folder.path / CHECKPOINT}",
        jars=",".join(map(str, spark_jars())),
        environment={**submit_environment(), "PYTHONPATH": path},
    )
