"""Build the pods of a consumer on Spark: master, workers (which the policy scales), driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.cluster.manifests import (
    Manifest,
    RunTarget,
    first_container,
    grace_seconds,
    group_settings,
    named,
    set_environment,
    set_variable,
    work_settings,
    workload_for_run,
)
from lagbench.core.scenario.actions import downstream_pace
from lagbench.core.scenario.consumer_kinds import (
    SPARK_DRIVER,
    SPARK_MASTER,
    SparkFlags,
    kind_of,
    worker_mebibytes,
)
from lagbench.core.scenario.event_stream import poisoned_key
from lagbench.core.scenario.message_costs import DownstreamPace, PoisonedKey
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario, WorkFlags
from lagbench.shared_with_spark.spark_job import SECRET_VARIABLE

CHECKPOINT_MOUNT = "/checkpoint"
"""Of the driver's volume on a cluster. The driver alone writes there: workers need no access."""
_SECRET_KEY = "secret"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """Where the run's Spark finds its master, its files and its libraries.

    ``checkpoint``: None keeps the committed manifest's folder, on the driver's own volume, with a
    part for each run. ``environment``: variables of every pod; empty on a cluster, where the image
    has all of it.
    """

    master_url: str
    version: str
    checkpoint: str | None = None
    jars: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def spark_master_for_run(
    deployment: Mapping[str, Any], target: RunTarget, place: SparkPlace
) -> Manifest:
    """Return the master's Deployment."""
    return _spark_pod(deployment, target, place, {"role": "master"})


def spark_workers_for_run(
    deployment: Mapping[str, Any],
    target: RunTarget,
    settings: ConsumerSettings,
    place: SparkPlace,
    *,
    replicas: int,
) -> Manifest:
    """Return the workers' Deployment under the name that every policy scales."""
    spark, work = settings.spark_settings, _work(settings)
    of_pod = {**work, "shutdown_timeout_seconds": settings.shutdown_timeout_seconds}
    manifest = _spark_pod(deployment, target, place, of_pod, name=CONSUMER_DEPLOYMENT)
    spec = manifest["spec"]
    spec["replicas"] = replicas
    metadata = (manifest["metadata"], spec["template"]["metadata"])
    for labels in (spec["selector"]["matchLabels"], *(one["labels"] for one in metadata)):
        labels["app"] = CONSUMER_DEPLOYMENT
    pod, memory = spec["template"]["spec"], worker_mebibytes(spark)
    pod["terminationGracePeriodSeconds"] = grace_seconds(settings)
    first_container(pod)["resources"] = {
        "requests": {"cpu": f"{settings.cpu_request_millicores}m", "memory": f"{memory}Mi"},
        "limits": {"memory": f"{memory + memory // 2}Mi"},
    }
    return manifest


def spark_driver_for_run(
    deployment: Mapping[str, Any],
    target: RunTarget,
    settings: ConsumerSettings,
    place: SparkPlace,
    *,
    floor_workers: int,
    seed: int = 0,
    poison: PoisonedKey | None = None,
    pace: DownstreamPace | None = None,
) -> Manifest:
    """Return the driver's Deployment; ``seed`` draws the costs of messages."""
    work = {**_work(settings), **work_settings(seed, poison, pace)}
    work |= {} if target.group is None else {"group": target.group}
    manifest = _spark_pod(deployment, target, place, {**work, "floor_workers": floor_workers})
    pod = manifest["spec"]["template"]["spec"]
    pod["terminationGracePeriodSeconds"] = grace_seconds(settings)
    checkpoint = place.checkpoint or f"{CHECKPOINT_MOUNT}/{target.names.run_id}"
    jars = {"SPARK_STREAM_JARS": place.jars} if place.jars else {}
    set_environment(first_container(pod), {"SPARK_STREAM_CHECKPOINT": checkpoint, **jars})
    return manifest


def spark_consumer_for_run(
    base: Callable[[str], Mapping[str, Any]],
    target: RunTarget,
    scenario: Scenario,
    place: SparkPlace,
    *,
    replicas: int,
) -> list[Manifest]:
    """Return master, workers and driver in the order of their start."""
    settings = scenario.consumer
    return [
        spark_master_for_run(base(SPARK_MASTER), target, place),
        spark_workers_for_run(
            base(kind_of("spark").workload), target, settings, place, replicas=replicas
        ),
        spark_driver_for_run(
            base(SPARK_DRIVER),
            target,
            settings,
            place,
            floor_workers=min(replicas, settings.spark_settings.dynamic_allocation_min or replicas),
            seed=scenario.seed,
            poison=poisoned_key(scenario),
            pace=downstream_pace(scenario.actions),
        ),
    ]


def spark_secret_for_run(service: Mapping[str, Any], target: RunTarget, secret: str) -> Manifest:
    """Return the Secret that lets the run's pods of Spark know each other."""
    manifest: Manifest = {"apiVersion": "v1", "kind": "Secret"}
    metadata = named(manifest, _secret_name(target), target)
    owner = {key: service["metadata"][key] for key in ("name", "uid")}
    metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Service", **owner}]
    manifest["stringData"] = {_SECRET_KEY: secret}
    return manifest


def _secret_name(target: RunTarget) -> str:
    return f"spark-stream-{target.names.run_id}"


def _work(settings: ConsumerSettings) -> dict[str, Any]:
    """Return what workers and driver know of the work, and of Spark."""
    spark = settings.spark_settings.model_dump(mode="json", include=set(SparkFlags.model_fields))
    return {**settings.model_dump(mode="json", include=set(WorkFlags.model_fields)), **spark}


def _spark_pod(
    deployment: Mapping[str, Any],
    target: RunTarget,
    place: SparkPlace,
    settings: Mapping[str, Any],
    *,
    name: str | None = None,
) -> Manifest:
    environment = {
        "KAFKA_BOOTSTRAP_SERVERS": target.bootstrap_servers,
        "SPARK_STREAM_MASTER_URL": place.master_url,
        "SPARK_STREAM_VERSION": place.version,
        **place.environment,
    }
    settings = {**group_settings(target), **settings}
    manifest = workload_for_run(
        deployment, target, name=name, settings=settings, environment=environment, is_spark=True
    )
    reference = {"name": _secret_name(target), "key": _SECRET_KEY}
    variable = {"name": SECRET_VARIABLE, "valueFrom": {"secretKeyRef": reference}}
    set_variable(first_container(manifest["spec"]["template"]["spec"]), variable)
    return manifest
