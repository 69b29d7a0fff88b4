"""Build the pods of a consumer on Spark: master, workers (which the policy scales), driver."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.cluster.group_manifests import Manifest
from lagbench.core.cluster.manifests import (
    RunTarget,
    first_container,
    grace_seconds,
    named,
    pod_template,
    set_arguments,
    set_environment,
    set_variable,
)
from lagbench.core.scenario import (
    CONSUMER_DEPLOYMENT,
    SPARK_DRIVER,
    SPARK_MASTER,
    ConsumerSettings,
    DownstreamPace,
    PoisonedKey,
    Scenario,
    SparkFlags,
    WorkFlags,
    downstream_pace,
    flag_text,
    flag_values,
    kind_of,
    worker_mebibytes,
)
from lagbench.core.scenario.stream import poisoned_key
from lagbench.shared_with_spark.spark_authentication import SECRET_VARIABLE

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
    manifest = _own(deployment, target)
    container = first_container(pod_template(manifest, target, is_spark=True))
    _set_place(container, target, place)
    set_arguments(container, {"run-id": target.names.run_id})
    return manifest


def spark_workers_for_run(
    deployment: Mapping[str, Any],
    target: RunTarget,
    settings: ConsumerSettings,
    place: SparkPlace,
    *,
    replicas: int,
) -> Manifest:
    """Return the workers' Deployment under the name that every policy scales."""
    manifest = _own(deployment, target, CONSUMER_DEPLOYMENT)
    manifest["spec"]["replicas"] = replicas
    spark = settings.spark_settings
    pod = pod_template(manifest, target, is_spark=True)
    for labels in (
        manifest["metadata"]["labels"],
        manifest["spec"]["selector"]["matchLabels"],
        manifest["spec"]["template"]["metadata"]["labels"],
    ):
        labels["app"] = CONSUMER_DEPLOYMENT
    pod["terminationGracePeriodSeconds"] = grace_seconds(settings)
    container = first_container(pod)
    memory = worker_mebibytes(spark)
    container["resources"] = {
        "requests": {"cpu": f"{settings.cpu_request_millicores}m", "memory": f"{memory}Mi"},
        "limits": {"memory": f"{memory + memory // 2}Mi"},
    }
    _set_place(container, target, place)
    set_arguments(
        container,
        {
            "run-id": target.names.run_id,
            **flag_values(settings, WorkFlags),
            **_flags(spark),
            "drain-timeout": flag_text(settings.shutdown_timeout_seconds),
        },
    )
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
    manifest = _own(deployment, target)
    pod = pod_template(manifest, target, is_spark=True)
    pod["terminationGracePeriodSeconds"] = grace_seconds(settings)
    container = first_container(pod)
    _set_place(container, target, place)
    checkpoint = place.checkpoint or f"{CHECKPOINT_MOUNT}/{target.names.run_id}"
    set_environment(container, {"SPARK_STREAM_CHECKPOINT": checkpoint})
    if place.jars:
        set_environment(container, {"SPARK_STREAM_JARS": place.jars})
    arguments = {
        "run-id": target.names.run_id,
        **flag_values(settings, WorkFlags),
        **_flags(settings.spark_settings),
        "floor-workers": str(floor_workers),
        "work-seed": str(seed),
    }
    if poison is not None:
        arguments["poison"] = flag_text(poison)
    if pace is not None and not pace.is_even:
        arguments["slow-downstream"] = pace.text
    set_arguments(container, arguments)
    return manifest


def spark_consumer_for_run(
    base: Callable[[str], Mapping[str, Any]],
    target: RunTarget,
    scenario: Scenario,
    place: SparkPlace,
    *,
    replicas: int,
) -> list[Manifest]:
    """Return master, workers and driver in the order of their start.

    :param base: returns the committed Deployment of a folder.
    """
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
    """Return the Secret that lets the run's pods of Spark know each other.

    It ends with the master's Service: a run's account may create Secrets, but not list or delete
    them.

    :param service: as the API server has it.
    """
    manifest: Manifest = {"apiVersion": "v1", "kind": "Secret"}
    metadata = named(manifest, _secret_name(target), target)
    owner = {key: service["metadata"][key] for key in ("name", "uid")}
    metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Service", **owner}]
    manifest["stringData"] = {_SECRET_KEY: secret}
    return manifest


def _secret_name(target: RunTarget) -> str:
    return f"spark-stream-{target.names.run_id}"


def _own(deployment: Mapping[str, Any], target: RunTarget, name: str | None = None) -> Manifest:
    manifest = copy.deepcopy(dict(deployment))
    named(manifest, name or manifest["metadata"]["name"], target)
    return manifest


def _flags(spark: SparkFlags) -> dict[str, str]:
    found = flag_values(spark, SparkFlags)
    return {name: text for name, text in found.items() if text != str(None)}


def _set_place(container: dict[str, Any], target: RunTarget, place: SparkPlace) -> None:
    set_environment(
        container,
        {
            "KAFKA_BOOTSTRAP_SERVERS": target.bootstrap_servers,
            "SPARK_STREAM_MASTER_URL": place.master_url,
            "SPARK_STREAM_VERSION": place.version,
            **place.environment,
        },
    )
    reference = {"name": _secret_name(target), "key": _SECRET_KEY}
    variable = {"name": SECRET_VARIABLE, "valueFrom": {"secretKeyRef": reference}}
    set_variable(container, variable)
