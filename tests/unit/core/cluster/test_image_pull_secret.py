"""Pods whose images are in a private registry."""

from __future__ import annotations

from typing import Any

from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster.jobs import actions_job_for_run, producer_job_for_run
from lagbench.core.cluster.manifests import (
    RunTarget,
    consumer_for_run,
    lag_scaler_for_run,
    recorder_for_run,
)
from lagbench.core.cluster.settings import ClusterSettings
from lagbench.core.cluster.spark_consumer import SparkPlace, spark_consumer_for_run
from lagbench.core.scenario.run_names import RunNames

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
