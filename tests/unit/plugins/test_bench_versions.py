"""The versions that a run's tasks add to its manifest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.plugins.conftest import HPA, SCALED_OBJECT, World

from lagbench.core.keda.loop.keda_hpa import CONTROLLER, KEDA_VERSION, SCALED_BY
from lagbench.core.spark.spark_connection import SparkPlace
from lagbench.embedded import bench
from lagbench.embedded.jars import BROKER
from lagbench.embedded.java import find_java
from lagbench_airflow.operators.apply_scaling_policy import (
    ApplyScalingPolicyOperator,
    autoscaler_version,
    started_versions,
)

OF_KEDA = {"metadata": {"labels": {"app.kubernetes.io/version": "2.99.1"}}}
OURS_INSTEAD = SCALED_OBJECT | {"metadata": {"name": "c", "annotations": {SCALED_BY: CONTROLLER}}}


@pytest.mark.parametrize(("kafka", "broker"), [("embedded", BROKER.version), ("foreign", None)])
def test_the_embedded_broker_s_version_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: str, broker: str | None
) -> None:
    """A Kafka of somebody else tells no client its version, so none is made up."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(bench, "running", lambda _: SimpleNamespace(kafka=kafka))

    assert started_versions(SparkPlace.KUBERNETES).get("kafka-broker") == broker


def test_the_driver_s_java_is_named_where_it_runs_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the Java that the bench uses; a driver in a pod has its image's."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path))

    assert started_versions(SparkPlace.LOCAL) == {"java": find_java().version}
    assert started_versions(SparkPlace.KUBERNETES) == {}


@pytest.mark.parametrize(
    ("policy", "hpa", "is_embedded", "versions"),
    [
        (SCALED_OBJECT, OF_KEDA, False, {"keda": "2.99.1"}),
        (SCALED_OBJECT, {"metadata": {}}, False, {"keda": "unknown"}),
        (SCALED_OBJECT, OF_KEDA, True, {"keda-rules": KEDA_VERSION}),
        (OURS_INSTEAD, {"metadata": None}, False, {"keda-rules": KEDA_VERSION}),
        (HPA, OF_KEDA, False, {}),
    ],
)
def test_keda_is_distinguished_from_its_rules(
    policy: dict[str, Any], hpa: dict[str, Any], is_embedded: bool, versions: dict[str, str]
) -> None:
    """KEDA's own version is read off the HPA that it made; our autoscaler has the rules of one."""
    assert autoscaler_version(policy, hpa, is_embedded=is_embedded) == versions


def test_keda_s_version_stands_in_the_manifest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Putting the policy into force adds it; the HPA's metadata stay out of hpa.json."""
    made = world.kube._hpa

    def labelled(name: str, owner: dict[str, Any]) -> None:
        made(name, owner)
        metadata = world.kube.objects["HorizontalPodAutoscaler", name]["metadata"]
        metadata.setdefault("labels", {})["app.kubernetes.io/version"] = "2.99.1"

    monkeypatch.setattr(world.kube, "_hpa", labelled)
    operator = ApplyScalingPolicyOperator(
        task_id="apply_scaling_policy", run_folder=str(world.folder.path)
    )
    operator.execute(world.context)

    assert world.folder.read_json(world.folder.manifest)["versions"]["keda"] == "2.99.1"
    assert set(world.folder.read_json("hpa.json")) == {"name", "spec", "conditions"}
