"""The records of trigger types: what the rooms that ask them rely on."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.keda.object.scaled_object import TriggerRefused, parse_scaled_object
from lagbench.core.keda.triggers.registry import RESOURCE_TYPES, TRIGGER_TYPES
from lagbench.core.keda.triggers.trigger_type import RunSources

SOURCES = RunSources("broker:9092", "run.events", "enrich.run", "http://here:9090")
METADATA = {
    "serverAddress": "http://prometheus:9090",
    "query": 'sum(kafka_consumergroup_lag{consumergroup="enrich"})',
    "threshold": "500",
}


def scaled_object(**trigger: Any) -> dict[str, Any]:
    """Return an object with one prometheus trigger."""
    given = {"type": "prometheus", "metadata": METADATA, **trigger}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "consumer"},
        "spec": {"scaleTargetRef": {"name": "consumer"}, "triggers": [given]},
    }


@pytest.mark.parametrize("name", TRIGGER_TYPES)
def test_a_type_has_a_target_or_somebody_else_knows_it(name: str) -> None:
    """Of a resource the HPA knows the metric, of an external trigger its server."""
    known = TRIGGER_TYPES[name]

    assert known.name == name
    assert (known.target_milli is None) == (name in RESOURCE_TYPES or name.startswith("external"))


def test_what_cannot_be_cached_is_refused() -> None:
    """The readings of prometheus may be cached, those of cron, cpu and memory may not."""
    assert parse_scaled_object(scaled_object(useCachedMetrics=True), where="f").uses_cached_metrics
    not_cached = [name for name, known in TRIGGER_TYPES.items() if not known.may_be_cached]

    assert not_cached == ["cron", "cpu", "memory"]
    for name in not_cached:
        with pytest.raises(TriggerRefused, match=f'"{name}"'):
            parse_scaled_object(scaled_object(type=name, useCachedMetrics=True), where="f")


def test_a_run_fills_in_what_a_prometheus_trigger_reads() -> None:
    """The group is the run's, the address that of the bench; the threshold stays."""
    filled = TRIGGER_TYPES["prometheus"].for_run(METADATA, SOURCES)

    assert filled == {
        "serverAddress": "http://here:9090",
        "query": 'sum(kafka_consumergroup_lag{consumergroup="enrich.run"})',
        "threshold": "500",
    }


def test_on_a_cluster_the_address_of_prometheus_stays() -> None:
    """A run knows of no Prometheus there but the one that the policy names."""
    sources = RunSources("broker:9092", "run.events", "enrich.run")

    filled = TRIGGER_TYPES["prometheus"].for_run(METADATA, sources)

    assert filled["serverAddress"] == METADATA["serverAddress"]


def test_a_target_below_half_a_thousandth_is_no_target() -> None:
    """KEDA makes 0 of it, which the API server rejects for an HPA."""
    metadata = {**METADATA, "threshold": "0.0004"}

    with pytest.raises(TriggerRefused, match=r"spec\.metrics\[0\]\.external\.target\.value"):
        parse_scaled_object(scaled_object(metadata=metadata, metricType="Value"), where="f")
