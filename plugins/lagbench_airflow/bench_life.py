"""Outer tasks of a cell: bring the bench up, clean up, take the bench down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict
from typing import Any

from airflow.sdk import Variable

from lagbench import project
from lagbench.adapters.clean_up import clear_cluster, remove_everything
from lagbench.adapters.kafka.kafka_admin import BROKER_DEFAULT, TopicSpec
from lagbench.adapters.kube.cluster_check import check_cluster, ready_namespace
from lagbench.adapters.kube.cluster_lease import HOLDER_NAME, ClusterLease, new_holder
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import bring_back
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.topic_copies import keep_evidence
from lagbench.core.cluster.lease import longest_run_seconds
from lagbench.core.cluster.policy_manifest import rights_of_run
from lagbench.core.cluster.spark_connection import SparkPlace
from lagbench.core.policy.policy import require_kubernetes
from lagbench.core.scenario.run_names import AUTOSCALER_DEPLOYMENT, AUTOSCALER_NAMESPACE, NAMESPACE
from lagbench.embedded import bench
from lagbench.embedded.jars import BROKER
from lagbench.embedded.java import find_java
from lagbench.errors import NotReady
from lagbench.results.cell_run import CellRun
from lagbench.results.stopped_run import collect_pod_logs, unless_full
from lagbench_airflow.hooks import target
from lagbench_airflow.hooks.kafka import KafkaHook
from lagbench_airflow.hooks.kube import PATIENCE_SECONDS, open_kube, settings_of_cluster
from lagbench_airflow.hooks.spark import SparkTarget

Say = Callable[[str], None]


def bring_bench_up(say: Say, *, cell: CellRun | None) -> dict[str, Any]:
    """Start the embedded bench, or check that the foreign one answers.

    For a ``cell`` this takes a cluster's Lease and removes leftovers of crashed runs. Only a cell
    may do that, because it knows that no other cell runs. The result has whether this call started
    the bench (a cell's manifest records it before anything else can fail), the version of
    Kubernetes and of other parts, and the removed leftovers. After a failure the Lease is free
    again.
    """
    from lagbench.embedded.spark_packages import spark_jars

    target.require_connections()
    spark = SparkTarget.read("spark_default")  # reports a wrong one before anything is measured
    is_started, embedded = False, target.is_embedded()
    if embedded:
        state_dir = project.state_dir()
        is_started = bench.running(state_dir) is None
        bench.up(state_dir, attached=False, on_progress=say)
        if is_started and cell is not None:
            note_started_bench(cell.folder)
    versions = started_versions(spark.place)
    swept: dict[str, Any] = {}
    with (
        closing(open_kube(patience_seconds=PATIENCE_SECONDS)) as kube,
        KafkaHook().get_conn() as admin,
    ):
        version = kube.server_version()
        if embedded:
            kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        else:
            groups = () if cell is None else cell.groups
            swapped_in = [policy for one in groups for policy in one.swapped.values()]
            for policy in (*(one.policy for one in groups), *swapped_in):
                require_kubernetes(policy, version)
            policies = [one.policy.manifest for one in groups]
            kinds = {one.scenario.consumer.kind for one in groups}
            rights = rights_of_run(settings_of_cluster(), policies, kinds)
            check_cluster(
                kube,
                rights,
                holder=lease_holder(),
                has_second_group=len(groups) > 1,
                has_actions=cell is None or bool(cell.scenario.actions),
                policies=[*policies, *(policy.manifest for policy in swapped_in)],
            )
            ready_namespace(kube)
        admin.check_reachable()
        # Fetched here, so that the pipeline does not wait; Spark's pods have their own.
        jars = 0 if spark.place is SparkPlace.KUBERNETES else len(spark_jars())
        if cell is not None and embedded:
            bring_autoscaler_back(kube, say)
            swept = asdict(remove_everything(kube, admin, say, is_embedded=True))
        elif cell is not None:
            # The teardown releases the Lease; after a failure here no teardown runs.
            longest = longest_run_seconds(cell.scenario)
            ClusterLease(kube, lease_holder()).acquire(cell.names.run_id, duration_seconds=longest)
            with _released_on_failure(kube):
                swept = asdict(remove_everything(kube, admin, say, is_embedded=False))
    return {
        "is_started": is_started,
        "kubernetes": version,
        "swept": swept,
        "spark_jars": jars,
        "versions": versions,
    }


def started_versions(place: SparkPlace) -> dict[str, str]:
    """Return the versions of the broker and of the Java that Spark's driver runs in.

    An unknown version is left out: a foreign Kafka reports none to clients, and a driver in a pod
    has its image's Java.
    """
    versions = {}
    state = bench.running(project.state_dir())
    if state is not None and state.kafka == "embedded":
        versions["kafka-broker"] = BROKER.version
    if place is not SparkPlace.KUBERNETES:
        versions["java"] = find_java().version
    return versions


@contextmanager
def _released_on_failure(kube: Kube) -> Iterator[None]:
    """Release the Lease if the body fails."""
    try:
        yield
    except BaseException:  # also the task's own time limit
        with suppress(NotReady):  # the first error is reported
            ClusterLease(kube, lease_holder()).release()
        raise


def clean_up(say: Say, *, folder: RunFolder, is_last_try: bool) -> dict[str, Any]:
    """Remove all workloads, topics and groups of runs, and release a cluster's namespace.

    The logs of the pods of a run that ended before its fence are kept in the run folder. Topics
    that are not accounted for are copied there when the workloads have gone.
    If that fails, all topics stay. So does the Lease, for the next try; the last one releases it.
    """
    embedded = target.is_embedded()
    state = bench.running(project.state_dir()) if embedded else None
    own_broker = None if state is None or state.kafka != "embedded" else state.broker_state
    if own_broker == "stopped":  # an action did, and the run ended before its end
        bench.start_broker(project.state_dir())
        say("started the broker, which an action had stopped")
    with (
        closing(open_kube(patience_seconds=PATIENCE_SECONDS)) as kube,
        KafkaHook().get_conn() as admin,
    ):
        if not folder.fence.exists():
            with suppress(NotReady), unless_full():
                collect_pod_logs(kube, folder)
        if embedded:
            removed = remove_everything(
                kube, admin, say, is_embedded=True, before_topics=lambda: _copy(say, folder)
            )
            bring_autoscaler_back(kube, say)
            return asdict(removed)

        def copy_or_release() -> None:
            with _released_on_failure(kube) if is_last_try else nullcontext():
                _copy(say, folder)

        removed = clear_cluster(
            kube,
            admin,
            say,
            holder=lease_holder(),
            run_id=folder.run_id,
            before_topics=copy_or_release,
        )
        return asdict(removed)


def _copy(say: Say, folder: RunFolder) -> None:
    for group in folder.groups:
        for topic in keep_evidence(lambda: KafkaHook().settings(), group):
            say(f"copied {topic} to {group.path / 'copies'}: lagbench account {folder.run_id}")


def bring_autoscaler_back(kube: Kube, say: Say) -> None:
    """Undo an action whose player was killed: the bench's own autoscaler has its replicas again."""
    if bring_back(kube.elsewhere(AUTOSCALER_NAMESPACE), AUTOSCALER_DEPLOYMENT):
        say("brought the autoscaler back, which an action had left at no replica")


def take_bench_down(*, was_started_here: bool, keep_bench: bool) -> list[str]:
    """Stop the embedded bench if this run started it and it need not be kept."""
    if keep_bench or not was_started_here or not target.is_embedded():
        return []
    return bench.down(project.state_dir())


_FIELD = "started_bench"


def note_started_bench(folder: RunFolder) -> None:
    """Record the running bench as started by this run, for the teardown and for a retry.

    It is identified by its supervisor: a bench that is started later has another one.
    """
    state = bench.running(project.state_dir())
    if state is not None:
        folder.update_manifest(**{_FIELD: state.supervisor.model_dump()})


def is_own_bench(folder: RunFolder) -> bool:
    """Return whether this run has started the running bench."""
    state = bench.running(project.state_dir())
    noted = folder.read_json(folder.manifest).get(_FIELD)
    return state is not None and noted == state.supervisor.model_dump()


def lease_holder() -> str:
    """Return the Airflow Variable, which all tasks on all hosts share; it is created once.

    An Airflow that ``lagbench`` started has the name in its environment.
    """
    found: str | None = Variable.get(HOLDER_NAME, default=None)
    if found:
        return found
    made = new_holder()
    Variable.set(HOLDER_NAME, made, description="The name of this Airflow in a cluster's Lease")
    return made


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

BROKERS_CLOCK = {"message.timestamp.type": "LogAppendTime"}
"""Of an output topic: when its records were written is known by no other clock."""


def create_run_topics(cell: CellRun) -> dict[str, int]:
    """Create the run's topics; a retry finds them and is safe."""
    partitions = {cell.names.events_topic: cell.scenario.partitions}
    for group in cell.groups:
        partitions[group.names.processed_topic] = LEDGER_PARTITIONS
        partitions[group.names.telemetry_topic] = TELEMETRY_PARTITIONS
    factor = settings_of_cluster().replication_factor or BROKER_DEFAULT
    outputs = {g.names.processed_topic for g in cell.groups if g.has_output_topic}
    specs = [
        TopicSpec(
            name,
            count,
            {**TOPIC_SETTINGS, **(BROKERS_CLOCK if name in outputs else {})},
            replication_factor=factor,
        )
        for name, count in partitions.items()
    ]
    with KafkaHook().get_conn() as admin:
        admin.create_topics(specs)
    return partitions
