"""Start a consumer on Spark: the master, the workers at the policy's floor, then the driver."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.manifest_files import base_manifest, base_objects
from lagbench.core.cluster import (
    RunTarget,
    SparkPlace,
    companion_for_run,
    spark_driver_for_run,
    spark_master_for_run,
    spark_workers_for_run,
)
from lagbench.core.scenario import (
    PORT_ANNOTATION,
    SPARK_DRIVER,
    SPARK_MASTER,
    downstream_pace,
    kind_of,
)
from lagbench.core.scenario.stream import poisoned_key
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.run_consumers import wait_ready

START_SECONDS = 300.0
"""Of each part: two JVMs of a worker took 7 s on a busy machine of two cores, the driver 40 s."""
_RPC_PORT = 7077
CHECKPOINT = "checkpoint"


def start_spark_consumers(
    kube: Kube, cell: CellRun, target: RunTarget, *, is_embedded: bool
) -> dict[str, Any]:
    """Apply all parts, each when the one before is Ready; return the replicas and the arguments.

    The driver is Ready after its first batch, on warm executors. A retry applies the same again.
    """
    settings, replicas = cell.scenario.consumer, cell.policy.limits.floor_replicas
    for companion in base_objects(SPARK_MASTER):
        kube.apply(companion_for_run(companion, target))
    place = _place(cell, master_url="", is_embedded=is_embedded)
    kube.apply(spark_master_for_run(base_manifest(SPARK_MASTER, "Deployment"), target, place))
    wait_ready(kube, SPARK_MASTER, 1, timeout_seconds=START_SECONDS)
    url = f"spark://{SPARK_MASTER}:{_RPC_PORT}"
    if is_embedded:
        url = f"spark://127.0.0.1:{_service_port(kube)}"
    place = _place(cell, master_url=url, is_embedded=is_embedded)
    workers = spark_workers_for_run(
        base_manifest(kind_of("spark").workload, "Deployment"),
        target,
        settings,
        place,
        replicas=replicas,
    )
    kube.apply(workers)
    wait_ready(kube, workers["metadata"]["name"], replicas, timeout_seconds=START_SECONDS)
    driver = spark_driver_for_run(
        base_manifest(SPARK_DRIVER, "Deployment"),
        target,
        settings,
        place,
        floor_workers=replicas,
        seed=cell.scenario.seed,
        poison=poisoned_key(cell.scenario),
        pace=downstream_pace(cell.scenario.actions),
    )
    kube.apply(driver)
    wait_ready(kube, SPARK_DRIVER, 1, timeout_seconds=START_SECONDS)
    container = driver["spec"]["template"]["spec"]["containers"][0]
    return {"replicas": replicas, "args": container["args"]}


def _service_port(kube: Kube) -> str:
    """Return the loopback port behind which localkube has the master."""
    service = kube.get("Service", SPARK_MASTER) or {}
    return str(service["metadata"]["annotations"][f"{PORT_ANNOTATION}rpc"])


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
