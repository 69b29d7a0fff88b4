"""KEDA at work: polls, values for the HPA, conditions, fallback."""

from lagbench.core.keda.loop.composite import compile_modifiers
from lagbench.core.keda.loop.cron_scaler import CronScaler
from lagbench.core.keda.loop.handover import (
    CONTROLLER,
    SCALED_BY,
    as_driven,
    hpa_on_target,
    is_driven,
    is_handed_over,
    standing_hpa_problem,
    unpaused_problem,
    with_paused_of,
)
from lagbench.core.keda.loop.health import MetricHealth
from lagbench.core.keda.loop.hpa_builder import (
    KEDA_VERSION,
    SCALED_OBJECT_LABEL,
    VERSION_LABEL,
    build_hpa,
)
from lagbench.core.keda.loop.kafka_lag import (
    LagReading,
    PartitionOffsets,
    PersistentLagMemory,
    TopicPartition,
    capped_total,
    divisors,
    even_factor,
    needs_earliest,
    read_lag,
)
from lagbench.core.keda.loop.metric_specs import trigger_metric_spec
from lagbench.core.keda.loop.prometheus_answer import read_answer
from lagbench.core.keda.loop.resource_scaler import ResourceScaler
from lagbench.core.keda.loop.runtime import FALLBACK_UNKNOWN, NO_FALLBACK, KedaObject, Tick
from lagbench.core.keda.loop.scale_loop import READY, ScaleLoopDecision, TriggerPoll
from lagbench.core.keda.loop.scaler import (
    COMPOSITE_METRIC,
    MetricReading,
    MetricSpec,
    Scaler,
    ScalerFailed,
    ScalersNotBuilt,
    TargetView,
)

__all__ = [
    "COMPOSITE_METRIC",
    "CONTROLLER",
    "FALLBACK_UNKNOWN",
    "KEDA_VERSION",
    "NO_FALLBACK",
    "READY",
    "SCALED_BY",
    "SCALED_OBJECT_LABEL",
    "VERSION_LABEL",
    "CronScaler",
    "KedaObject",
    "LagReading",
    "MetricHealth",
    "MetricReading",
    "MetricSpec",
    "PartitionOffsets",
    "PersistentLagMemory",
    "ResourceScaler",
    "ScaleLoopDecision",
    "Scaler",
    "ScalerFailed",
    "ScalersNotBuilt",
    "TargetView",
    "Tick",
    "TopicPartition",
    "TriggerPoll",
    "as_driven",
    "build_hpa",
    "capped_total",
    "compile_modifiers",
    "divisors",
    "even_factor",
    "hpa_on_target",
    "is_driven",
    "is_handed_over",
    "needs_earliest",
    "read_answer",
    "read_lag",
    "standing_hpa_problem",
    "trigger_metric_spec",
    "unpaused_problem",
    "with_paused_of",
]
