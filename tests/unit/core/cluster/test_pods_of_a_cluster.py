"""Pods whose images are in a private registry."""

from __future__ import annotations

import base64
from typing import Any

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import (
    RunTarget,
    consumer_for_run,
    lag_scaler_for_run,
    recorder_for_run,
)
from lagbench.core.cluster.run_jobs import (
    SAMPLES_FILE,
    actions_job_for_run,
    producer_job_for_run,
    samples_for_run,
    with_samples_mounted,
)
from lagbench.core.cluster.spark_pods import SparkPlace, spark_consumer_for_run
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE

CELL = checked_cell("quick_spike")

SPARK = checked_cell("spark_consumer").scenario


def pods_of_a_run(settings: ClusterSettings) -> list[dict[str, Any]]:
    """Return the pod specs of all programs of a run."""
    target, scenario = RunTarget(RunNames("a-run"), "kafka:9092", settings), CELL.scenario
    place = SparkPlace("spark://master:7077", "4.2.0")
    manifests = [
        consumer_for_run(
            base_manifest("consumer", "Deployment"), target, scenario.consumer, replicas=1
        ),
        recorder_for_run(base_manifest("recorder", "Deployment"), target),
        lag_scaler_for_run(base_manifest("lag-scaler", "Deployment"), target),
        producer_job_for_run(base_manifest("producer", "Job"), target, scenario, tail=None),
        actions_job_for_run(base_manifest("actions", "Job"), target, scenario, CELL.policy.limits),
        *spark_consumer_for_run(
            lambda folder: base_manifest(folder, "Deployment"), target, SPARK, place, replicas=1
        ),
    ]
    return [manifest["spec"]["template"]["spec"] for manifest in manifests]


def test_every_pod_of_a_run_pulls_its_image_with_the_log_in() -> None:
    """The accounts of a run have no Secret of their own: a run creates them anew."""
    pods = pods_of_a_run(ClusterSettings(image_pull_secret="registry-login"))  # noqa: S106 - a name

    assert len(pods) == 8
    for pod in pods:
        assert pod["imagePullSecrets"] == [{"name": "registry-login"}]


SETTINGS_OF_PODS = "kafka-login"

NAMES = RunNames("quick-spike-1")


def test_every_pod_has_the_secret_as_a_folder_and_the_file_by_name() -> None:
    """Consumers and recorder have the volume once, read only, and the variable that names it."""
    target = RunTarget(NAMES, "kafka:9093", ClusterSettings(kafka_secret=SETTINGS_OF_PODS))
    committed = base_manifest("consumer", "Deployment")
    once = consumer_for_run(committed, target, ConsumerSettings(), replicas=1)
    twice = consumer_for_run(once, target, ConsumerSettings(), replicas=1)
    recorder = recorder_for_run(base_manifest("recorder", "Deployment"), target)
    for manifest in (once, twice, recorder):
        pod = manifest["spec"]["template"]["spec"]
        (volume,) = [v for v in pod["volumes"] if "secret" in v]
        assert volume["secret"]["secretName"] == SETTINGS_OF_PODS
        (container,) = pod["containers"]
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == volume["name"]]
        assert (mount["mountPath"], mount["readOnly"]) == ("/etc/lagbench/kafka", True)
        named = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert named[CONFIG_VARIABLE] == "/etc/lagbench/kafka/client.properties"


TARGET = RunTarget(RunNames("spike-1"), "kafka:9092", ClusterSettings(namespace="spikes"))


def test_the_producer_finds_them_as_a_file() -> None:
    """The volume is the run's ConfigMap, and its key at the mounted path is the file."""
    job = base_manifest("producer", "Job")
    samples = samples_for_run(b"\xff\n", TARGET)

    pod = with_samples_mounted(job, TARGET)["spec"]["template"]["spec"]

    (volume,) = pod["volumes"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    ((key, text),) = samples["binaryData"].items()
    assert base64.b64decode(text) == b"\xff\n"
    assert samples["metadata"]["labels"] == {RUN_ID_LABEL: "spike-1"}
    assert volume == {"name": mount["name"], "configMap": {"name": samples["metadata"]["name"]}}
    assert f"{mount['mountPath']}/{key}" == SAMPLES_FILE
    assert "volumes" not in job["spec"]["template"]["spec"]
