"""What Prometheus scrapes, on a cluster and beside the embedded bench."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.k8s.base_pods import pod_spec, workloads

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.core.cluster.manifests import (
    RunTarget,
    consumer_for_run,
    lag_scaler_for_run,
    recorder_for_run,
)
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.project import PROJECT_ROOT

CLUSTER = PROJECT_ROOT / "k8s/base/monitoring/prometheus.yml"
EMBEDDED = PROJECT_ROOT / "k8s/compose/prometheus.yml"
RUN = RunNames("quick-spike-1")
SCRAPED = ("Deployment/consumer", "Deployment/recorder", "Deployment/lagbench-lag-scaler")


def test_both_give_a_pods_series_the_same_labels() -> None:
    """The dashboard's queries hold in both places: app, run_id, run_group, namespace, pod."""
    assert labels_given(CLUSTER) == labels_given(EMBEDDED)
    assert set(labels_given(CLUSTER)) == {"app", "run_id", "run_group", "namespace", "pod"}


@pytest.mark.parametrize("path", [CLUSTER, EMBEDDED], ids=["cluster", "embedded"])
@pytest.mark.parametrize("kind", ["consumer", "recorder", "lag-scaler"])
def test_the_series_of_two_groups_of_a_run_differ_in_the_label_run_group(
    path: Path, kind: str
) -> None:
    """Both groups' pods have the run's id, and only ``run_group`` keeps their sums apart."""
    first, second = (group_label(path, pod_labels(kind, names)) for names in (RUN, RUN.second))

    assert (first, second) == ("first", "second")
    assert group_label(path, {"app.kubernetes.io/name": "lagbench-autoscaler"}) is None


def test_both_scrape_alike_and_often() -> None:
    """Grafana's shortest step is the scrape interval, which the data source tells it."""
    settings = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (CLUSTER, EMBEDDED)]
    sources = PROJECT_ROOT / "k8s/base/monitoring/grafana-datasources.yaml"
    (source,) = yaml.safe_load(sources.read_text(encoding="utf-8"))["datasources"]

    assert settings[0]["global"] == settings[1]["global"]
    assert settings[0]["global"]["scrape_interval"] == source["jsonData"]["timeInterval"]


@pytest.mark.parametrize("name", SCRAPED)
def test_what_exports_metrics_is_scraped(name: str) -> None:
    """It has the port and the labels that the relabelling keeps."""
    workload = workloads()[name]
    ports = [
        port["name"] for each in pod_spec(workload)["containers"] for port in each.get("ports", ())
    ]
    labels = workload["spec"]["template"]["metadata"]["labels"]

    assert "metrics" in ports
    assert labels["app.kubernetes.io/part-of"] == "lagbench"
    dropped = [rule for rule in rules(CLUSTER) if rule.get("action") == "drop"]
    assert [rule["source_labels"] for rule in dropped] == [["__meta_kubernetes_pod_phase"]]


def test_keda_is_scraped_by_the_names_of_its_services() -> None:
    """That takes no right in KEDA's namespace, and none is given."""
    jobs = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))["scrape_configs"]
    (keda,) = [job for job in jobs if job["job_name"] == "keda"]
    documents = yaml.safe_load_all(CLUSTER.with_name("rbac.yaml").read_text(encoding="utf-8"))

    assert {part["labels"]["app"]: part["targets"] for part in keda["static_configs"]} == {
        "keda-operator": ["keda-operator.keda.svc:8080"],
        "keda-metrics-apiserver": ["keda-metrics-apiserver.keda.svc:8080"],
    }
    assert {item["metadata"]["namespace"] for item in documents} == {"lagbench"}


def pod_labels(kind: str, names: RunNames) -> dict[str, str]:
    """Return the labels of a group's pods."""
    target, committed = RunTarget(names, "127.0.0.1:19092"), base_manifest(kind, "Deployment")
    made = {
        "consumer": lambda: consumer_for_run(committed, target, ConsumerSettings(), replicas=1),
        "recorder": lambda: recorder_for_run(committed, target),
        "lag-scaler": lambda: lag_scaler_for_run(committed, target),
    }[kind]()
    return dict(made["spec"]["template"]["metadata"]["labels"])


def group_label(path: Path, labels: Mapping[str, str]) -> str | None:
    """Return what the relabelling makes of a pod's labels as ``run_group``."""
    given = {
        f"__meta_kubernetes_pod_label_{re.sub('[^a-z0-9]', '_', name)}": value
        for name, value in labels.items()
    }
    found = None
    for rule in rules(path):
        if rule.get("target_label") != "run_group":
            continue
        (source,) = rule["source_labels"]
        if re.fullmatch(rule["regex"], given.get(source, "")):
            found = str(rule["replacement"])
    return found


def rules(path: Any) -> list[dict[str, Any]]:
    """Return the relabelling of pods."""
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["scrape_configs"]
    (found,) = [job["relabel_configs"] for job in jobs if job["job_name"] == "pods"]
    return list(found)


def labels_given(path: Any) -> dict[str, list[str]]:
    """Return the labels that pods' series get, with what each is taken from."""
    return {
        rule["target_label"]: rule["source_labels"]
        for rule in rules(path)
        if not rule.get("target_label", "__").startswith("__")
    }
