"""Start a consumer on Spark: the master, the workers at the policy's floor, then the driver."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.manifest_files import base_manifest, base_objects
from lagbench.core.cluster import (
    RunTarget,
    SparkPlace,
    companion_for_run,
    spark_consumer_for_run,
)
from lagbench.core.scenario import PORT_ANNOTATION, SPARK_MASTER, SPARK_MASTER_PORT
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.run_consumers import wait_ready

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
    for companion in base_objects(SPARK_MASTER):
        kube.apply(companion_for_run(companion, target))
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

    _start(kube, parts(place)[0])
    if is_embedded:  # a Service's name means nothing here; its port is known by now
        place = replace(place, master_url=f"spark://127.0.0.1:{_service_port(kube)}")
    _, workers, driver = parts(place)
    _start(kube, workers)
    _start(kube, driver)
    container = driver["spec"]["template"]["spec"]["containers"][0]
    return {"replicas": replicas, "args": container["args"]}


def _start(kube: Kube, deployment: dict[str, Any]) -> None:
    kube.apply(deployment)
    name, replicas = deployment["metadata"]["name"], deployment["spec"]["replicas"]
    wait_ready(kube, name, replicas, timeout_seconds=START_SECONDS)


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
