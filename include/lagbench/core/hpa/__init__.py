"""The Horizontal Pod Autoscaler: its object, and what one sync decides."""

from lagbench.core.hpa.behavior import HpaBehavior, ScalingRules, parse_behavior
from lagbench.core.hpa.controller_flags import (
    SYNC_ANNOTATION,
    TOLERANCE_ANNOTATION,
    ControllerFlags,
    controller_flags,
)
from lagbench.core.hpa.metric_text import metric_part, metric_text
from lagbench.core.hpa.metrics import (
    MetricFailure,
    Proposal,
    propose_external,
    propose_external_average,
)
from lagbench.core.hpa.pods import PodState, PodUsage, parse_pod, parse_pod_metrics
from lagbench.core.hpa.resource import no_samples, propose_resource, resource_title
from lagbench.core.hpa.spec import (
    ExternalMetric,
    HpaSpec,
    Metric,
    ResourceMetric,
    ScaleTarget,
    parse_hpa,
)
from lagbench.core.hpa.state import Condition, HpaHistory, HpaSettings
from lagbench.core.hpa.sync import (
    HpaDecision,
    MetricOutcome,
    decide,
    record_change,
    start_history,
    wants_metrics,
)

__all__ = [
    "SYNC_ANNOTATION",
    "TOLERANCE_ANNOTATION",
    "Condition",
    "ControllerFlags",
    "ExternalMetric",
    "HpaBehavior",
    "HpaDecision",
    "HpaHistory",
    "HpaSettings",
    "HpaSpec",
    "Metric",
    "MetricFailure",
    "MetricOutcome",
    "PodState",
    "PodUsage",
    "Proposal",
    "ResourceMetric",
    "ScaleTarget",
    "ScalingRules",
    "controller_flags",
    "decide",
    "metric_part",
    "metric_text",
    "no_samples",
    "parse_behavior",
    "parse_hpa",
    "parse_pod",
    "parse_pod_metrics",
    "propose_external",
    "propose_external_average",
    "propose_resource",
    "record_change",
    "resource_title",
    "start_history",
    "wants_metrics",
]
