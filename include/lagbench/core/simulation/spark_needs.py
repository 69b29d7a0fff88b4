"""Say what Spark needs to run the consumer, and reject what cannot run."""

from __future__ import annotations

from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.consumer_kinds import (
    DRIVER_SIDE_MEBIBYTES,
    MASTER_MEBIBYTES,
    worker_mebibytes,
)
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.errors import WrongInput

# Medians of 100 samples of 10 s in runs of spark_consumer (6 partitions, a batch each 2 s).
_DRIVER_CORES = 0.15
"""Of driver and master."""
_WORKER_CORES = 0.01
"""Of a worker's JVM and the pod's program."""
_PARTITION_CORES = 0.05
"""Of a task in each batch: executors and their Python took 0.30 with two workers and with four."""
WORKER_START_CORE_SECONDS = 8
"""Of two JVMs until the first task has ended: two workers at once took 15 seconds of a core."""


def spark_mebibytes(consumer: ConsumerSettings, workers: int) -> int | None:
    """Return the memory of master, driver and ``workers``; None: it does not run on Spark."""
    if consumer.kind != "spark":
        return None
    spark = consumer.spark_settings
    driver = spark.driver_memory_mebibytes + DRIVER_SIDE_MEBIBYTES
    return MASTER_MEBIBYTES + driver + workers * worker_mebibytes(spark)


def spark_cores(consumer: ConsumerSettings, workers: int, partitions: int) -> float | None:
    """Return the cores that Spark's pods keep busy while batches run; None: it is a stand-in.

    A batch costs more than its messages: 0.49 cores at 400/s with two workers and at 2,600/s with
    four, on two cores that other programs also used; one sample of ten was above 0.7. The work of
    ``consumer.cpu_ms`` is not in it.
    """
    if consumer.kind != "spark":
        return None
    return _DRIVER_CORES + workers * _WORKER_CORES + partitions * _PARTITION_CORES


def spark_warnings(
    consumer: ConsumerSettings, *, floor: int, ceiling: int, partitions: int
) -> list[str]:
    """Return what is different from a consumer group and may surprise."""
    if consumer.kind != "spark":
        return []
    spark = consumer.spark_settings
    prediction = (
        "the prediction plays a consumer group: with Spark a batch in flight does not use new "
        "workers, so reaction and drain are later by up to a batch"
    )
    found = [prediction]
    added = ceiling - floor
    if added > 0:
        found.append(
            f"a worker that is added starts two JVMs: about {WORKER_START_CORE_SECONDS} s of a "
            f"core, {added * WORKER_START_CORE_SECONDS} s for all {added}, while the batch in "
            "flight needs the cores, too"
        )
    cores = ceiling * spark.cores_per_worker
    if cores > partitions:
        found.append(
            f"{cores} cores at maxReplicaCount are more than the {partitions} partitions: a "
            "task is one partition, so the rest is idle"
        )
    elif partitions % cores:
        found.append(
            f"{partitions} partitions on {cores} cores take {-(-partitions // cores)} "
            "rounds of tasks in a batch, the last one with idle cores"
        )
    return found


def check_spark_fit(
    scenario: Scenario, policy: Policy, *, memory_mebibytes: int | None = None
) -> None:
    """Reject workers that have no partition at the floor, or no memory."""
    consumer, limits = scenario.consumer, policy.limits
    if consumer.kind != "spark":
        return
    spark, floor = consumer.spark_settings, limits.floor_replicas
    where = f"scenario {scenario.name}"
    cores = floor * spark.cores_per_worker
    if cores > scenario.partitions:
        allowed = f"at most {scenario.partitions // max(1, floor)}: the floor of {floor} workers "
        allowed += f"has {cores} cores, and a task is one of {scenario.partitions} partitions"
        field = "consumer.spark.cores_per_worker"
        raise WrongInput(where=where, field=field, value=spark.cores_per_worker, allowed=allowed)
    fewest = spark.dynamic_allocation_min
    if fewest is not None and fewest > floor:
        allowed = f"at most {floor}: an executor needs a worker, and the floor has no more"
        field = "consumer.spark.dynamic_allocation_min"
        raise WrongInput(where=where, field=field, value=fewest, allowed=allowed)
    needed = spark_mebibytes(consumer, limits.ceiling_replicas)
    if memory_mebibytes is not None and needed is not None and needed > memory_mebibytes:
        raise WrongInput(
            where=policy.where,
            field=limits.ceiling_field,
            value=limits.ceiling_replicas,
            allowed=f"fewer workers, or less consumer.spark.worker_memory_mebibytes: they, driver "
            f"and master take about {needed:,} MiB, and {memory_mebibytes:,} MiB are free here",
        )
