"""The recorder's readings under the names of kafka_exporter and kube-state-metrics."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from lagbench.core.telemetry.records import (
    GroupSample,
    HpaSample,
    LagSample,
    Record,
    ReplicaSample,
    ScaledObjectSample,
)
from lagbench.programs.recorder.metrics import Exposition, ObservedNames
from lagbench.programs.recorder.newest_readings import NewestReadings

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
NAMES = ObservedNames("enrich.r1", "lagbench.r1.events", "spikes", "consumer")
GROUP = {"consumergroup": "enrich.r1", "topic": "lagbench.r1.events"}
OF_HPA = {"namespace": "spikes", "horizontalpodautoscaler": "keda-hpa-consumer"}
OF_DEPLOYMENT = {"namespace": "spikes", "deployment": "consumer"}

Found = list[tuple[dict[str, str], float]]
"""Labels and value of each series of a name."""


def scrape(*records: Record, now: int = NOW, names: ObservedNames = NAMES) -> dict[str, Found]:
    """Return the series of other exporters that a scrape sees after ``records``, by name."""
    newest = NewestReadings(interval_seconds=1.0)
    for record in records:
        newest.take(record)
    _, text = Exposition(newest, aliases=names, now=lambda: now)()
    found: dict[str, Found] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            if not sample.name.startswith("lagbench_"):
                assert family.type == "gauge"
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def lag(*rows: tuple[int, int, int | None]) -> LagSample:
    """Return a sample of the lag: partition, end, committed."""
    return LagSample(at=NOW, source="r", partitions=list(rows))


def hpa(**fields: object) -> HpaSample:
    """Return a reading of an HPA that wants 6 replicas and sees 4."""
    known = {"desired": 6, "current": 4, "metrics": [], "conditions": []}
    return HpaSample(at=NOW, source="r", name="keda-hpa-consumer", **known | fields)  # type: ignore[arg-type]


def test_lag_has_the_names_of_kafka_exporter() -> None:
    """By partition, as a sum, and both offsets, with group and topic in the labels."""
    group = GroupSample(at=NOW, source="r", state="STABLE", members=3, members_without_partitions=1)

    found = scrape(lag((0, 100, 60), (1, 50, 52)), group)

    first, second = {**GROUP, "partition": "0"}, {**GROUP, "partition": "1"}
    topic = {"topic": GROUP["topic"]}
    assert found == {
        "kafka_consumergroup_lag": [(first, 40), (second, 0)],
        "kafka_consumergroup_lag_sum": [(GROUP, 40)],
        "kafka_consumergroup_current_offset": [(first, 60), (second, 52)],
        "kafka_consumergroup_members": [({"consumergroup": "enrich.r1"}, 3)],
        "kafka_topic_partition_current_offset": [
            ({**topic, "partition": "0"}, 100),
            ({**topic, "partition": "1"}, 50),
        ],
    }


def test_the_hpa_has_the_names_of_kube_state_metrics() -> None:
    """Replicas and bounds by namespace and name; of each condition one of three statuses is 1."""
    conditions = ["AbleToScale=True ReadyForNewScale", "ScalingActive=Unknown"]

    found = scrape(hpa(min_replicas=1, max_replicas=12, conditions=conditions))

    reported = found.pop("kube_horizontalpodautoscaler_status_condition")
    assert found == {
        "kube_horizontalpodautoscaler_status_desired_replicas": [(OF_HPA, 6)],
        "kube_horizontalpodautoscaler_status_current_replicas": [(OF_HPA, 4)],
        "kube_horizontalpodautoscaler_spec_min_replicas": [(OF_HPA, 1)],
        "kube_horizontalpodautoscaler_spec_max_replicas": [(OF_HPA, 12)],
    }
    assert len(reported) == 6
    assert [labels for labels, value in reported if value == 1] == [
        {**OF_HPA, "condition": "AbleToScale", "status": "true"},
        {**OF_HPA, "condition": "ScalingActive", "status": "unknown"},
    ]


def test_a_scaled_object_has_the_name_that_kube_state_metrics_is_reported_to_use() -> None:
    """KEDA's conditions by namespace and name, with one of three statuses at 1."""
    conditions = ["Ready=False TriggerError", "Fallback=False"]
    sample = ScaledObjectSample(at=NOW, source="r", name="consumer", conditions=conditions)

    found = scrape(sample)

    reported = found.pop("kube_customresource_scaledobject_status_condition")
    of_object = {"namespace": OF_HPA["namespace"], "scaledobject": "consumer", "status": "False"}
    assert found == {}
    assert len(reported) == 6
    assert [labels for labels, value in reported if value == 1] == [
        {**of_object, "condition": "Ready"},
        {**of_object, "condition": "Fallback"},
    ]


def test_the_deployment_has_the_names_of_kube_state_metrics() -> None:
    """Wanted, existing, Ready and available replicas by namespace and name."""
    sample = ReplicaSample(at=NOW, source="r", spec=6, current=4, ready=3, available=2)

    assert scrape(sample) == {
        "kube_deployment_spec_replicas": [(OF_DEPLOYMENT, 6)],
        "kube_deployment_status_replicas": [(OF_DEPLOYMENT, 4)],
        "kube_deployment_status_replicas_ready": [(OF_DEPLOYMENT, 3)],
        "kube_deployment_status_replicas_available": [(OF_DEPLOYMENT, 2)],
    }


def test_a_stateful_set_has_names_of_its_own() -> None:
    """Its wanted replicas have no spec in their name, as kube-state-metrics writes it."""
    sample = ReplicaSample(at=NOW, source="r", spec=6, current=4, ready=3, available=2)
    names = replace(NAMES, workload="StatefulSet")
    labels = {"namespace": "spikes", "statefulset": "consumer"}

    assert scrape(sample, names=names) == {
        "kube_statefulset_replicas": [(labels, 6)],
        "kube_statefulset_status_replicas": [(labels, 4)],
        "kube_statefulset_status_replicas_ready": [(labels, 3)],
        "kube_statefulset_status_replicas_available": [(labels, 2)],
    }


def test_without_aliases_there_are_none() -> None:
    """Where the exporters run, a series of the same name would be counted twice."""
    newest = NewestReadings(interval_seconds=1.0)
    newest.take(lag((0, 100, 60)))
    _, text = Exposition(newest, now=lambda: NOW)()

    names = {family.name for family in text_string_to_metric_families(text.decode())}
    assert "lagbench_lag_records" in names
    assert all(name.startswith("lagbench_") for name in names)
