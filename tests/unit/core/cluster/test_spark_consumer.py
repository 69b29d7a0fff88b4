"""The pods of a consumer on Spark: names, flags that the programs read, grace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.k8s.base_pods import base_objects, pod_spec, workloads

from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import RunTarget, grace_seconds
from lagbench.core.cluster.policy_manifest import refuse_kind_on_cluster
from lagbench.core.cluster.spark_pods import (
    CHECKPOINT_MOUNT,
    SparkPlace,
    spark_driver_for_run,
    spark_master_for_run,
    spark_workers_for_run,
)
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.errors import WrongInput
from lagbench.programs.spark_daemon.daemon import parse_settings
from lagbench_enrich.session import parse_options

TARGET = RunTarget(RunNames("one-run"), "kafka:9092")
PLACE = SparkPlace("spark://master:7077", "4.2.0", checkpoint="file:///run/checkpoint", jars="a,b")
BASE = workloads()
SETTINGS = ConsumerSettings.model_validate(
    {
        "kind": "spark",
        "process_ms": {"kind": "lognormal", "mean_ms": 4, "p99_ms": 40},
        "concurrency": 4,
        "spark": {"cores_per_worker": 2, "decommission": False},
    }
)
POD = {"POD_NAME": "pod-1", "BIND_ADDRESS": "10.0.0.1", "_SPARK_AUTH_SECRET": "of-the-run"}


def _environment(container: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e["value"] for e in container["env"] if "value" in e} | POD


def _workers() -> dict[str, Any]:
    base = BASE["Deployment/spark-stream-worker"]
    return spark_workers_for_run(base, TARGET, SETTINGS, PLACE, replicas=3)


def test_workers_have_the_name_that_policies_scale() -> None:
    """Name, selector and labels are the stand-in's, so policy, recorder and actions find them."""
    manifest = _workers()

    assert manifest["metadata"]["name"] == CONSUMER_DEPLOYMENT
    assert manifest["spec"]["replicas"] == 3
    template = manifest["spec"]["template"]
    assert manifest["spec"]["selector"]["matchLabels"] == {"app": CONSUMER_DEPLOYMENT}
    assert template["metadata"]["labels"]["app"] == CONSUMER_DEPLOYMENT
    assert template["spec"]["terminationGracePeriodSeconds"] == grace_seconds(SETTINGS)


def test_the_programs_read_the_flags_of_their_manifests() -> None:
    """Worker, master and driver get the scenario's settings through their own command lines."""
    container = pod_spec(_workers())["containers"][0]
    worker = parse_settings(container["args"], _environment(container))
    assert (worker.role, worker.cores_per_worker, worker.decommission) == ("worker", 2, False)
    assert worker.process_ms == SETTINGS.process_ms

    manifest = spark_master_for_run(BASE["Deployment/spark-stream-master"], TARGET, PLACE)
    container = pod_spec(manifest)["containers"][0]
    assert parse_settings(container["args"], _environment(container)).role == "master"

    base = BASE["Deployment/spark-stream-driver"]
    manifest = spark_driver_for_run(base, TARGET, SETTINGS, PLACE, floor_workers=3, seed=7)
    container = pod_spec(manifest)["containers"][0]
    driver = parse_options(container["args"], _environment(container))
    assert (driver.master, driver.jars) == (PLACE.master_url, PLACE.jars)
    assert (driver.checkpoint, driver.floor_workers) == (PLACE.checkpoint, 3)
    assert (driver.group, driver.work_seed) == (TARGET.names.group, 7)
    assert driver.process_ms == SETTINGS.process_ms
    assert driver.max_messages_per_trigger is None


def test_a_cluster_gives_the_pods_their_image_and_the_checkpoint_its_volume() -> None:
    """Spark's image, not the programs'; a folder of the claim for each run."""
    cluster = ClusterSettings(image="registry/programs:1", spark_image="registry/spark:1")
    manifest = _driver(cluster)
    pod = pod_spec(manifest)

    assert [container["image"] for container in pod["containers"]] == ["registry/spark:1"]
    options = parse_options(pod["containers"][0]["args"], _environment(pod["containers"][0]))
    assert options.checkpoint == f"{CHECKPOINT_MOUNT}/one-run"
    (mounted,) = (m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "checkpoint")
    assert mounted["mountPath"] == CHECKPOINT_MOUNT
    claims = {o["metadata"]["name"] for o in base_objects() if o["kind"] == "PersistentVolumeClaim"}
    assert _checkpoint_volume(pod)["persistentVolumeClaim"]["claimName"] in claims


def test_without_storage_the_checkpoint_ends_with_the_pod() -> None:
    """A claim could never be bound there."""
    pod = pod_spec(_driver(ClusterSettings(storage_class="none")))

    assert _checkpoint_volume(pod) == {"name": "checkpoint", "emptyDir": {}}


def test_a_registry_without_sparks_image_is_refused() -> None:
    """Its pods would wait for an image that nobody has; a kind cluster names neither image."""
    scenario = checked_cell("spark_consumer").scenario
    own = ClusterSettings(image="registry/programs:1")

    with pytest.raises(WrongInput, check=lambda error: error.field == "lagbench_spark_image"):
        refuse_kind_on_cluster(scenario, own)
    refuse_kind_on_cluster(scenario, replace(own, spark_image="registry/spark:1"))
    refuse_kind_on_cluster(scenario, ClusterSettings())
    refuse_kind_on_cluster(checked_cell("quick_spike").scenario, own)


@pytest.mark.parametrize("is_driver", [False, True], ids=["daemon", "driver"])
def test_a_pod_with_another_spark_is_rejected(*, is_driver: bool) -> None:
    """Before a JVM starts."""
    if is_driver:
        container = pod_spec(_driver(ClusterSettings()))["containers"][0]
        read: Callable[..., object] = parse_options
    else:
        container, read = pod_spec(_workers())["containers"][0], parse_settings
    variables = {**_environment(container), "SPARK_STREAM_VERSION": "3.5.0"}

    with pytest.raises(WrongInput, check=lambda error: error.field == "SPARK_STREAM_VERSION"):
        read(container["args"], variables)


def test_a_pod_without_a_secret_is_rejected() -> None:
    """An empty one would let everybody in."""
    container = pod_spec(_workers())["containers"][0]
    variables = {**_environment(container), "_SPARK_AUTH_SECRET": ""}

    with pytest.raises(WrongInput, check=lambda error: error.field == "_SPARK_AUTH_SECRET"):
        parse_settings(container["args"], variables)


def _driver(cluster: ClusterSettings) -> dict[str, Any]:
    base, target = BASE["Deployment/spark-stream-driver"], replace(TARGET, cluster=cluster)
    place = SparkPlace("spark://10.0.0.9:7077", PLACE.version)
    return spark_driver_for_run(base, target, SETTINGS, place, floor_workers=1)


def _checkpoint_volume(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(v for v in pod["volumes"] if v["name"] == "checkpoint")
    return found
