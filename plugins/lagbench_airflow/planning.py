"""First and outer tasks of a cell: plan the run, bring the bench up, clean up."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Literal

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from lagbench.adapters.kafka.kafka_admin import BROKER_DEFAULT, TopicSpec
from lagbench.adapters.kube.cluster_check import check_cluster, ready_namespace
from lagbench.adapters.kube.cluster_lease import ClusterLease
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import clear_cluster, remove_everything
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.run_manifest import write_manifest
from lagbench.adapters.runs.topic_copies import keep_evidence
from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster import longest_run_seconds, rights_of_run
from lagbench.core.compare import content_digest
from lagbench.core.scenario import NAMESPACE, RunNames, new_run_id
from lagbench.core.spark import SparkPlace
from lagbench.embedded import bench
from lagbench.embedded.bench_state import BenchFiles
from lagbench.errors import NotReady, WrongInput
from lagbench.orchestrator.target import CONTEXT_PREFIX, EMBEDDED
from lagbench.results.prediction import predict_run
from lagbench_airflow.bench_versions import started_versions
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.hooks.kafka import KafkaHook
from lagbench_airflow.hooks.kube import PATIENCE_SECONDS, open_kube, settings_of_cluster
from lagbench_airflow.hooks.spark import SparkTarget
from lagbench_airflow.lease_holder import lease_holder
from lagbench_airflow.own_bench import note_started_bench
from lagbench_airflow.params import settings_of

LEDGER_PARTITIONS, TELEMETRY_PARTITIONS = 6, 1
TOPIC_SETTINGS = {
    # Offsets are accounted for by identity, so no record may be dropped or merged during a run,
    # whatever the broker does with other topics: the bench's broker keeps 1 GiB of a partition.
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    # Producers wait for all in-sync replicas; a broker that requires two would accept nothing in
    # topics with one.
    "min.insync.replicas": "1",
}
CONNECTIONS = ("kafka_default", "kubernetes_default", "spark_default")
Say = Callable[[str], None]


def plan_run(params: Mapping[str, Any], *, dag_run: str) -> dict[str, Any]:
    """Validate the parameters and create the run folder; return the input of later tasks.

    Nothing is started: wrong input ends the run here.
    """
    overrides = settings_of(params)
    cell = checked_cell(
        str(params["scenario"]), policy=params.get("policy") or None, overrides=overrides
    )
    run_id = params.get("run_id") or new_run_id(
        cell.scenario.name, planned_at=datetime.now(UTC), unique_digits=secrets.token_hex(2)
    )
    folder = _new_folder(run_id)
    conf = {
        "scenario": params["scenario"],
        "policy": cell.policy_name,
        "overrides": overrides,
        "dag_run": dag_run,
    }
    fidelity: Literal["processes", "kubernetes"] = "processes" if is_embedded() else "kubernetes"
    write_manifest(
        folder,
        scenario=cell.scenario.name,
        policy=cell.policy_name,
        seed=cell.scenario.seed,
        fidelity=fidelity,
        conf=conf,
        scenario_text=cell.scenario_text,
        policy_text=cell.policy_text,
        created_at=time.time_ns(),
        cell={
            "policy": content_digest(cell.policy),
            "target": content_digest(target_name()),
        },
    )
    predict_run(folder, cell.scenario, cell.policy, where=cell.policy_name)
    return {
        "run_id": run_id,
        "run_folder": str(folder.path),
        "scenario": cell.scenario.name,
        "policy": cell.policy_name,
        "seed": cell.scenario.seed,
        "fidelity": fidelity,
    }


def is_embedded() -> bool:
    """Return whether the connection kubernetes_default names the embedded bench's localkube."""
    extra = _connection("kubernetes_default").extra_dejson
    return str(extra.get("kube_config_path")) == str(BenchFiles(bench.state_dir()).kubeconfig)


def target_name() -> str:
    """Return the target of runs in the form of ``--target``; in_cluster: the pod's own cluster."""
    if is_embedded():
        return EMBEDDED
    extra = _connection("kubernetes_default").extra_dejson
    return f"{CONTEXT_PREFIX}{extra.get('cluster_context') or 'in_cluster'}"


def bring_bench_up(say: Say, *, cell: CellRun | None) -> dict[str, Any]:
    """Start the embedded bench, or check that the foreign one answers.

    For a ``cell`` this takes a cluster's Lease and removes leftovers of crashed runs. Only a cell
    may do that, because it knows that no other cell runs. The result has whether this call started
    the bench (a cell's manifest records it before anything else can fail), the version of
    Kubernetes and of other parts, and the removed leftovers. After a failure the Lease is free
    again.
    """
    from lagbench.embedded.spark_packages import spark_jars

    for name in CONNECTIONS:
        _connection(name)
    spark = SparkTarget.read("spark_default")  # reports a wrong one before anything is measured
    is_started, embedded = False, is_embedded()
    if embedded:
        state_dir = bench.state_dir()
        is_started = bench.running(state_dir) is None
        bench.up(state_dir, attached=False, on_progress=say)
        if is_started and cell is not None:
            note_started_bench(cell.folder)
    versions = started_versions(spark.place)
    swept: dict[str, Any] = {}
    with closing(open_kube()) as kube, KafkaHook().get_conn() as admin:
        version = kube.server_version()
        if embedded:
            kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        else:
            rights = rights_of_run(settings_of_cluster(), None if cell is None else cell.policy)
            check_cluster(kube, rights, holder=lease_holder())
            ready_namespace(kube)
        admin.check_reachable()
        # Fetched here, so that the pipeline does not wait; Spark's pods have their own.
        jars = 0 if spark.place is SparkPlace.KUBERNETES else len(spark_jars())
        if cell is not None:
            with nullcontext() if embedded else _leased(kube, cell):
                swept = asdict(remove_everything(kube, admin, say, is_embedded=embedded))
    return {
        "is_started": is_started,
        "kubernetes": version,
        "swept": swept,
        "spark_jars": jars,
        "versions": versions,
    }


@contextmanager
def _leased(kube: Kube, cell: CellRun) -> Iterator[None]:
    """Take the Lease, which the teardown releases; after a failure here no teardown runs."""
    lease = ClusterLease(kube, lease_holder())
    lease.acquire(cell.names.run_id, duration_seconds=longest_run_seconds(cell.scenario))
    try:
        yield
    except BaseException:  # also the task's own time limit
        with suppress(NotReady):  # the first error is reported
            lease.release()
        raise


def create_run_topics(cell: CellRun) -> dict[str, int]:
    """Create the run's topics; a retry finds them and is safe."""
    partitions = {
        cell.names.events_topic: cell.scenario.partitions,
        cell.names.processed_topic: LEDGER_PARTITIONS,
        cell.names.telemetry_topic: TELEMETRY_PARTITIONS,
    }
    factor = settings_of_cluster().replication_factor or BROKER_DEFAULT
    specs = [
        TopicSpec(name, count, TOPIC_SETTINGS, replication_factor=factor)
        for name, count in partitions.items()
    ]
    with KafkaHook().get_conn() as admin:
        admin.create_topics(specs)
    return partitions


def clean_up(say: Say, *, folder: RunFolder) -> dict[str, Any]:
    """Remove all workloads, topics and groups of runs, and release a cluster's namespace.

    Topics that are not accounted for are first copied into the run folder.
    """
    for topic in keep_evidence(_kafka_settings, folder):
        say(f"copied {topic} to {folder.path / 'copies'}: lagbench account {folder.run_id}")
    with (
        closing(open_kube(patience_seconds=PATIENCE_SECONDS)) as kube,
        KafkaHook().get_conn() as admin,
    ):
        if is_embedded():
            return asdict(remove_everything(kube, admin, say, is_embedded=True))
        return asdict(clear_cluster(kube, admin, say, holder=lease_holder(), run_id=folder.run_id))


def _kafka_settings() -> dict[str, Any]:
    return KafkaHook().settings()


def take_bench_down(*, was_started_here: bool, keep_bench: bool) -> list[str]:
    """Stop the embedded bench if this run started it and it need not be kept."""
    if keep_bench or not was_started_here or not is_embedded():
        return []
    return bench.down(bench.state_dir())


def _new_folder(run_id: str) -> RunFolder:
    """Create the run's folder; reject an id that another run has."""
    folder = RunFolder.create(RunNames(run_id).run_id)
    if folder.manifest.exists():
        raise WrongInput(
            where="conf", field="run_id", value=run_id, allowed="an id that no run has had yet"
        )
    return folder


def _connection(name: str) -> Any:
    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        raise NotReady(
            f"the connection {name} is not defined. Start Airflow through lagbench (make ui, "
            "lagbench run), or define kafka_default, kubernetes_default and spark_default"
        ) from error
