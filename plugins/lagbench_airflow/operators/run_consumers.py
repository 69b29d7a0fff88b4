"""Start the consumers under test at the policy's floor: our stand-in, a user's own, or Spark's."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lagbench import project
from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.adapters.kube.workloads import wait_ready
from lagbench.catalog.own_consumers import read_environment, read_own_deployment
from lagbench.core.cluster.manifests import ConsumersWay, consumer_for_run
from lagbench.core.cluster.own_deployment import own_consumer_for_cluster
from lagbench.core.cluster.own_process import own_consumer_as_process
from lagbench.core.cluster.run_jobs import broker_proxy_for_run
from lagbench.core.cluster.spark_pods import (
    SparkPlace,
    spark_consumer_for_run,
    spark_secret_for_run,
)
from lagbench.core.scenario.actions import BrokerUnreachable, downstream_pace
from lagbench.core.scenario.consumer_kinds import SPARK_DRIVER, SPARK_MASTER, SPARK_MASTER_PORT
from lagbench.core.scenario.event_stream import poisoned_key
from lagbench.core.scenario.run_names import BROKER_PROXY, CONSUMER_DEPLOYMENT, PORT_ANNOTATION
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_start import start_delay
from lagbench.embedded import bench
from lagbench.embedded.broker import ProxiedListener
from lagbench.errors import NotReady
from lagbench.results.cell_run import CellRun
from lagbench_airflow.operators.start_companions import CellOperator, Place

if TYPE_CHECKING:
    from airflow.sdk import Context

OWN_START_SECONDS = 180.0
"""Code of others may take its time: an image is pulled, a JVM starts."""
SPARK_START_SECONDS = 300.0
"""Of each part: two JVMs of a worker took 7 s on a busy machine of two cores, the driver 40 s."""


class RunConsumersOperator(CellOperator):
    """Run the consumers' workload at the policy's floor.

    After success: every pod is Ready. On failure the workload stays, so that its pods can be
    inspected; the run's teardown deletes it. A retry applies the same manifest again and is safe.
    """

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Apply the workload and wait for its pods."""
        starts = {"stand-in": start_stand_in, "spark": start_spark, "own": start_own}
        with self.opened(cell) as place:
            return starts[cell.scenario.consumer.kind](cell, place)


def start_stand_in(cell: CellRun, place: Place) -> dict[str, Any]:
    """Start lagbench's own consumers; return the replicas and the arguments.

    If an action disturbs their connections to the broker, the broker proxy comes first.
    """
    scenario, replicas, way = cell.scenario, cell.policy.limits.floor_replicas, None
    start = start_delay(scenario.consumer, scenario.seed, is_embedded=place.is_embedded)
    # Its action disturbs the first group's connections: the second group's scenario lacks it.
    if (listener := listener_behind_proxy(scenario)) is not None:
        way = ConsumersWay(listener.bootstrap_servers, place.target.bootstrap_servers)
        ports = {"listen_port": listener.advertised_port, "upstream_port": listener.port}
        base = base_manifest(BROKER_PROXY, "Deployment")
        place.start(broker_proxy_for_run(base, place.target, **ports))
    place.apply_companions("consumer")
    manifest = consumer_for_run(
        base_manifest("consumer", "Deployment"),
        place.target,
        scenario.consumer,
        replicas=replicas,
        seed=scenario.seed,
        poison=poisoned_key(scenario),
        start=start,
        pace=downstream_pace(scenario.actions),
        has_payload=scenario.payload is not None,
        way=way,
    )
    delay = 0.0 if start is None else start.longest_seconds
    place.start(manifest, within_seconds=place.start_seconds + delay)
    return {"replicas": replicas, "args": _arguments(manifest)}


def listener_behind_proxy(scenario: Scenario) -> ProxiedListener | None:
    """Return the embedded broker's listener behind the proxy, if an action disturbs it."""
    if not any(isinstance(action, BrokerUnreachable) for action in scenario.actions):
        return None
    state = bench.running(project.state_dir())
    if state is None or state.proxied is None:
        raise NotReady(
            "the running bench has no listener behind the broker proxy: an earlier version started "
            "it. Stop it with `lagbench down` and start the run again"
        )
    return state.proxied


def start_own(cell: CellRun, place: Place) -> dict[str, Any]:
    """Start the user's workload; return the replicas and what was left out.

    The run folder gets the workload as it was applied. Values of Secrets are not in it.
    """
    consumer, replicas = cell.scenario.consumer, cell.policy.limits.floor_replicas
    own = read_own_deployment(cell.folder.own_deployment, consumer)
    if place.is_embedded:
        found = own_consumer_as_process(
            own,
            place.target,
            consumer,
            replicas=replicas,
            environment=read_environment(consumer),
            folder=str(Path(str(consumer.manifest)).parent),
            kafka=bench.kafka_settings(project.state_dir()),
        )
        workload, notes = found.workload, list(found.notes)
        for companion in found.beside:
            place.kube.apply(companion)
    else:
        workload = own_consumer_for_cluster(own, place.target, consumer, replicas=replicas)
        notes = list(own.notes)
        place.apply_companions("consumer")
    cell.folder.write_text(
        cell.folder.own_consumer, yaml.safe_dump(workload, sort_keys=False), mode=0o600
    )
    cell.folder.update_manifest(own_consumer_notes=notes)
    place.kube.apply(workload)
    wait_ready(
        place.kube,
        place.target.names.consumers,
        replicas,
        timeout_seconds=max(OWN_START_SECONDS, place.start_seconds),
        written_in=str(consumer.manifest),
    )
    return {"replicas": replicas, "left_out": notes}


def start_spark(cell: CellRun, place: Place) -> dict[str, Any]:
    """Start master, workers and driver, each when the one before is Ready.

    Return the replicas and the driver's arguments. The driver is Ready after its first batch, on
    warm executors. A retry applies the same again.
    """
    kube, replicas = place.kube, cell.policy.limits.floor_replicas
    place.apply_companions(SPARK_MASTER, only_on_cluster=False)  # its Service
    place.apply_companions(CONSUMER_DEPLOYMENT)  # the workers' disruption budget
    place.apply_companions(SPARK_DRIVER)  # the claim for checkpoints, which outlives the run
    service = kube.get("Service", SPARK_MASTER) or {}
    # After a retry the first one stays: pods have it.
    kube.create(spark_secret_for_run(service, place.target, secrets.token_hex()))
    spark = _spark_place(cell, is_embedded=place.is_embedded)

    def parts(spark: SparkPlace) -> list[dict[str, Any]]:
        return spark_consumer_for_run(
            lambda folder: base_manifest(folder, "Deployment"),
            place.target,
            cell.scenario,
            spark,
            replicas=replicas,
        )

    place.start(parts(spark)[0], within_seconds=SPARK_START_SECONDS)
    _, workers, driver = parts(replace(spark, master_url=_master_url(place)))
    place.start(workers, within_seconds=SPARK_START_SECONDS)
    place.start(driver, within_seconds=SPARK_START_SECONDS)
    return {"replicas": replicas, "args": _arguments(driver)}


def _master_url(place: Place) -> str:
    """Return the address of the master's Service, which is known when it has been applied.

    The address and not the name: localkube has no names, and a cluster may have no DNS for pods.
    """
    service = place.kube.get("Service", SPARK_MASTER) or {}
    if place.is_embedded:
        return f"spark://127.0.0.1:{service['metadata']['annotations'][f'{PORT_ANNOTATION}rpc']}"
    address = str(service["spec"]["clusterIP"])
    host = f"[{address}]" if ":" in address else address
    return f"spark://{host}:{SPARK_MASTER_PORT}"


def _spark_place(cell: CellRun, *, is_embedded: bool) -> SparkPlace:
    spark = SparkPlace(f"spark://{SPARK_MASTER}:{SPARK_MASTER_PORT}", version("pyspark"))
    if not is_embedded:
        return spark
    from lagbench.embedded.spark_packages import SPARK_JOBS, spark_jars, submit_environment

    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(dict.fromkeys([str(SPARK_JOBS), *filter(None, known)]))
    return replace(
        spark,
        checkpoint=f"file://{cell.folder.path / 'checkpoint'}",
        jars=",".join(map(str, spark_jars())),
        environment={**submit_environment(), "PYTHONPATH": path},
    )


def _arguments(manifest: dict[str, Any]) -> list[str]:
    found: list[str] = manifest["spec"]["template"]["spec"]["containers"][0]["args"]
    return found
