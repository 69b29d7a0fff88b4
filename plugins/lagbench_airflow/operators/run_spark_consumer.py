"""Run lagbench's consumer on Spark: as a task of a cell, and in any Dag."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import TaskDeferred

from lagbench import project
from lagbench.adapters.kafka.kafka_admin import BROKER_DEFAULT, TopicSpec
from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.adapters.kube.workloads import (
    WORKLOADS,
    logs_of_pod,
    remove_workloads,
    require_lasting,
)
from lagbench.core.cluster.spark_pods import (
    SparkPlace,
    spark_consumer_for_run,
    spark_secret_for_run,
)
from lagbench.core.scenario.consumer_kinds import SPARK_DRIVER, SPARK_MASTER, SPARK_MASTER_PORT
from lagbench.core.scenario.run_names import (
    CONSUMER_DEPLOYMENT,
    PORT_ANNOTATION,
    RUN_ID_LABEL,
    RunNames,
)
from lagbench.core.workload_state import is_ready
from lagbench.errors import NotReady, PodsEnded
from lagbench.results.cell_run import CellRun
from lagbench.results.stopped_run import pods_of, wait_pods_gone
from lagbench_airflow.hooks import kafka
from lagbench_airflow.hooks import kube as hook
from lagbench_airflow.operators.start_companions import CellOperator, Place, opened_place
from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.task_life import ends_when_killed, require, wrong_input_is_final
from lagbench_airflow.triggers.condition import KeptClients, Reading
from lagbench_airflow.triggers.conditions import Lag

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lagbench.adapters.kube.kube import Kube
    from lagbench.core.scenario.scenario import Scenario

log = logging.getLogger(__name__)

START_SECONDS = 300.0
"""Of each part: two JVMs of a worker took 7 s on a busy machine of two cores, the driver 40 s."""


class RunCellsSparkConsumerOperator(CellOperator):
    """Run the run's consumers on Spark, with the workers at the policy's floor.

    After success: each part is Ready, and the log has the driver's lines so far. fence_run ends the
    parts in the run's order, else the teardown. This task does not: it would have to last as long
    as they do, and in one process (``lagbench run``) a Dag has one task at a time. On failure they
    stay for inspection. A retry applies the same again and is safe.
    """

    def acts_on(self, cell: CellRun) -> Sequence[CellRun]:
        """Return the groups whose consumers are on Spark."""
        return [one for one in cell.groups if one.scenario.consumer.kind == "spark"]

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Start the parts."""
        replicas, checkpoint = cell.policy.limits.floor_replicas, cell.folder.path / "checkpoint"
        with self.opened(cell) as place:
            arguments = start_spark(place, cell.scenario, replicas, checkpoint=checkpoint)
            for line in driver_lines(place.kube, cell.names):
                self.log.info("%s", line)
        return {"replicas": replicas, "args": arguments}


def start_spark(
    place: Place, scenario: Scenario, replicas: int, *, checkpoint: Path, awaits_driver: bool = True
) -> list[str]:
    """Start master, workers and driver, each when the one before is Ready; a retry does so again.

    Return the driver's arguments. It is Ready after its first batch, which has all that waits.
    """
    kube = place.kube
    place.apply_companions(SPARK_MASTER, only_on_cluster=False)  # its Service
    place.apply_companions(CONSUMER_DEPLOYMENT)  # the workers' disruption budget
    place.apply_companions(SPARK_DRIVER)  # the claim for checkpoints, which outlives the run
    service = kube.get("Service", SPARK_MASTER) or {}
    # After a retry the first one stays: pods have it.
    kube.create(spark_secret_for_run(service, place.target, secrets.token_hex()))
    spark = SparkPlace(f"spark://{SPARK_MASTER}:{SPARK_MASTER_PORT}", version("pyspark"))
    if place.is_embedded:
        from lagbench.embedded.spark_packages import SPARK_JOBS, spark_jars, submit_environment

        known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        path = os.pathsep.join(dict.fromkeys([str(SPARK_JOBS), *filter(None, known)]))
        own, jars = {**submit_environment(), "PYTHONPATH": path}, ",".join(map(str, spark_jars()))
        spark = replace(spark, checkpoint=f"file://{checkpoint}", jars=jars, environment=own)
    base, made = partial(base_manifest, kind="Deployment"), dict[str, Any]()
    for number in range(3):
        if number:  # the Service's address is known when the master is there
            spark = replace(spark, master_url=_master_url(place))
        parts = spark_consumer_for_run(base, place.target, scenario, spark, replicas=replicas)
        made = parts[number]
        if number < 2 or awaits_driver:
            place.start(made, within_seconds=START_SECONDS)
        else:
            kube.apply(made)
    found: list[str] = made["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


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


def driver_lines(kube: Kube, names: RunNames) -> list[str]:
    """Return the lines that the driver has written so far; none without a driver."""
    pods = pods_of(kube, names.run_id, names.own(SPARK_DRIVER))
    logs = (text for pod in pods for text in logs_of_pod(kube, pod).values())
    return [line for text in logs for line in text.splitlines()]


def _owner(kube: Kube, part: str) -> str | None:
    """Return the run whose Deployment has a part's name; "": of none; None: it is not there."""
    found = kube.get("Deployment", part)
    return None if found is None else (found["metadata"].get("labels") or {}).get(RUN_ID_LABEL, "")


@dataclass(kw_only=True)
class WorkedOff(Lag):
    """The consumer on Spark has worked off its topic; ``shown`` of its lines are in the log."""

    run_id: str
    shown: int = 0
    is_above: bool = False

    def read(self, clients: KeptClients) -> Reading:
        """Read the lag and the driver's new lines; without a lasting driver no wait helps."""
        kube = clients.kube(self.kubernetes_conn_id)
        if _owner(kube, SPARK_DRIVER) != self.run_id:
            raise PodsEnded(f"Deployment/{SPARK_DRIVER} was deleted, and not by its task")
        pods = pods_of(kube, self.run_id, SPARK_DRIVER)
        require_lasting(kube, pods, SPARK_DRIVER)
        lines = driver_lines(kube, RunNames(self.run_id))
        new = lines[self.shown if self.shown <= len(lines) else 0 :]  # a new container begins at 0
        self.shown = len(lines)
        found = super().read(clients)  # before the first batch of commits that others have made
        is_met = found.is_met and any(map(is_ready, pods))
        return replace(found, is_met=is_met, lines=tuple(new))

    def end(self, clients: KeptClients) -> None:
        """End the driver, which then publishes its last offsets, then the rest and their topics.

        The group keeps its offsets.
        """
        kube, names = clients.kube(self.kubernetes_conn_id), RunNames(self.run_id)
        if _owner(kube, SPARK_DRIVER) == self.run_id:
            kube.delete("Deployment", SPARK_DRIVER)
            wait_pods_gone(kube, self.run_id, SPARK_DRIVER)
        is_embedded = hook.embedded_access(self.kubernetes_conn_id) is not None
        # A cluster collects the Secret.
        kinds = (*WORKLOADS, "Secret" if is_embedded else "PodDisruptionBudget")
        log.info("ended %s", remove_workloads(kube, f"{RUN_ID_LABEL}={self.run_id}", kinds))
        clients.kafka_admin(self.kafka_conn_id).delete_topics(names.topics[1:])
        shutil.rmtree(project.state_dir() / self.run_id, ignore_errors=True)  # its checkpoint


class RunSparkConsumerOperator(ConditionSensor):
    """Run lagbench's consumer on Spark until it has worked off a topic, or end an earlier task's.

    It starts master, workers and driver, and ends them when the lag of the group has been at most
    ``threshold_records`` for ``hold``; also on failure, and when the task is killed or cleared,
    deferred or not. ``ends`` in a teardown without setups ends what a crash leaves. The log has the
    driver's lines. A retry begins at the first message again. Messages: of lagbench's producer.
    The parts have the names of a run's: one consumer in a namespace, and not beside scenario_run.

    :param scenario: a file, or a name of the catalog with ``consumer.kind: spark``: the settings
        (templated, as all here and ``hold``).
    :param group: to which it publishes the offsets that it has read.
    :param replicas: workers at the start; a policy may scale the Deployment ``consumer``.
    :param ends: instead of all others: id of the task whose consumer is ended.
    """

    number_fields = ("replicas", "threshold_records", "hold")
    template_fields: Sequence[str] = (
        *("scenario", "topic", "group", "ends", "kafka_conn_id", "kubernetes_conn_id"),
        *number_fields,
    )

    def __init__(
        self,
        *,
        scenario: str = "spark_consumer",
        topic: str = "",
        group: str = "",
        replicas: int = 2,
        threshold_records: int = 0,
        ends: str | None = None,
        kafka_conn_id: str = "kafka_default",
        kubernetes_conn_id: str = hook.DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        """Check the arguments; nothing is read before the task runs."""
        super().__init__(**{"deferrable": True, "hold": 10, "poke_interval": 5, **kwargs})
        self.scenario, self.topic, self.group, self.ends = scenario, topic, group, ends
        self.replicas, self.threshold_records = replicas, threshold_records
        self.kafka_conn_id, self.kubernetes_conn_id = kafka_conn_id, kubernetes_conn_id
        is_one = bool(topic and group) is (ends is None)
        require(self.task_id, "topic", topic, "topic and group, or instead ends", holds=is_one)
        self.check_numbers("replicas", "threshold_records")

    def condition(self) -> WorkedOff:
        """Return the condition of the running consumer."""
        return WorkedOff(
            topic=self.topic,
            group=self.group,
            threshold_records=self.threshold_records,
            run_id=self._run_id,
            kafka_conn_id=self.kafka_conn_id,
            kubernetes_conn_id=self.kubernetes_conn_id,
        )

    def execute(self, context: Context) -> Any:
        """Start, watch and end the consumer; or end that of another task."""
        from lagbench.catalog.catalog import load_scenario

        self._note_run_id(context)
        with wrong_input_is_final(), ends_when_killed():
            self.check_connections()
            if self.ends is not None:
                return self._end()
            scenario, allowed = load_scenario(self.scenario), "one with consumer.kind spark"
            is_spark = scenario.consumer.kind == "spark"
            require(self.task_id, "scenario", self.scenario, allowed, holds=is_spark)
            try:
                self._start(scenario)
                event = self.await_event({"": self.condition()}, self.timeout, self.hold)
            except TaskDeferred:
                raise
            except BaseException:  # also a killed task: nothing of it stays
                self._end()
                raise
            self._end()
        return self.execute_complete(context, event)

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """End the consumer, whatever ended the wait: also a trigger that failed or was too late."""
        self._note_run_id(context)
        self._end()
        return super().resume_execution(next_method, next_kwargs, context)

    def _start(self, scenario: Scenario) -> None:
        names = RunNames(self._run_id)
        conn_ids = (self.kafka_conn_id, self.kubernetes_conn_id)
        with (
            opened_place(names, *conn_ids, topic=self.topic, group=self.group) as place,
            kafka.KafkaHook(self.kafka_conn_id).get_conn() as admin,
        ):
            for part in (SPARK_DRIVER, CONSUMER_DEPLOYMENT, SPARK_MASTER):
                if _owner(place.kube, part) not in (None, names.run_id):
                    there = f"Deployment/{part} in namespace {place.kube.namespace}"
                    raise NotReady(f"{there} belongs to a run or another task: end it first")
            factor = place.target.cluster.replication_factor or BROKER_DEFAULT
            topics = [TopicSpec(name, 1, replication_factor=factor) for name in names.topics[1:]]
            admin.create_topics(topics)
            folder = project.state_dir() / names.run_id
            start_spark(place, scenario, self.replicas, checkpoint=folder, awaits_driver=False)

    def _end(self) -> None:
        with closing(KeptClients()) as clients:
            self.condition().end(clients)

    def _note_run_id(self, context: Context) -> None:
        """Name the parts by the task instance: its retries and its ``ends`` find them."""
        ti = context["ti"]
        of = f"{ti.dag_id}/{ti.run_id}/{self.ends or self.task_id}/{ti.map_index}"
        self._run_id = f"spark-{hashlib.sha256(of.encode()).hexdigest()[:16]}"
