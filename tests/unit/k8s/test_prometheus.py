"""What Prometheus scrapes, on a cluster and beside the embedded bench."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.unit.k8s.base_pods import pod_spec, workloads

from lagbench.project import PROJECT_ROOT

CLUSTER = PROJECT_ROOT / "k8s/base/monitoring/prometheus.yml"
EMBEDDED = PROJECT_ROOT / "k8s/compose/prometheus.yml"
SCRAPED = ("Deployment/consumer", "Deployment/recorder", "Deployment/lagbench-lag-scaler")


def test_both_give_a_pods_series_the_same_labels() -> None:
    """The dashboard's queries hold in both places: app, run_id, namespace, pod."""
    assert labels_given(CLUSTER) == labels_given(EMBEDDED)
    assert set(labels_given(CLUSTER)) == {"app", "run_id", "namespace", "pod"}


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
