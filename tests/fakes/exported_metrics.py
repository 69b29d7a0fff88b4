"""Names of the series that can be scraped, asked of the programs' own code."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from lag_scaler.metrics import ScalerMetrics, sampling_metrics
from lagbench.programs.consumer.pod_reports import Exposition as ConsumerExposition
from lagbench.programs.consumer.pod_reports import PodCounts
from lagbench.programs.recorder.kafka_readings import NewestReadings
from lagbench.programs.recorder.recorder_metrics import Exposition as RecorderExposition
from lagbench.programs.recorder.sources import parse_options

OF_PROMETHEUS = {"up"}
# pkg/metricscollector/prommetrics.go of KEDA 2.21.0; the suite on the real cluster scrapes them.
OF_KEDA = {
    "keda_internal_scale_loop_latency_seconds",
    "keda_scaled_object_errors_total",
    "keda_scaler_detail_errors_total",
    "keda_scaler_metrics_latency_seconds",
    "keda_scaler_metrics_value",
}
_ENDINGS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def exported_names() -> set[str]:
    """Return what consumers, recorder and lag scaler export, whether it has series yet or not."""
    return (
        _names(ConsumerExposition(PodCounts()).collect())
        | _names(RecorderExposition(NewestReadings(interval_seconds=1.0)).collect())
        | _names(ScalerMetrics().registry.collect())
        | _names(sampling_metrics([], 0, 0))
    )


def exported_alias_names() -> set[str]:
    """Return the names of other exporters under which the recorder tells its readings."""
    newest = NewestReadings(interval_seconds=1.0)
    names = parse_options(["--run-id=r", "--bootstrap-servers=b:1"], {})
    every = _names(RecorderExposition(newest, aliases=names).collect())
    return {name for name in every if not name.startswith("lagbench_")}


def _names(families: Iterable[Metric]) -> set[str]:
    return {family.name + ending for family in families for ending in _ENDINGS[family.type]}
