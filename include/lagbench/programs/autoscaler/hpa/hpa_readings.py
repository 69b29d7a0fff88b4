"""Read the metrics of one HPA sync: external ones from KEDA's side, resources from the pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lagbench.adapters.kube.cluster_protocol import POD, POD_METRICS, Scale
from lagbench.core.hpa import (
    ExternalMetric,
    HpaSpec,
    Metric,
    MetricFailure,
    MetricOutcome,
    ResourceMetric,
    no_samples,
    parse_pod,
    parse_pod_metrics,
    propose_external,
    propose_resource,
    resource_title,
)
from lagbench.core.keda.loop import SCALED_OBJECT_LABEL
from lagbench.core.kubernetes import format_milli
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.hpa.pods import count_ready_pods
from lagbench.programs.autoscaler.worker_context import WorkerContext


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric's outcome, what its status shows, and its raw value for telemetry."""

    outcome: MetricOutcome
    status: dict[str, Any] | None
    label: str
    value: float | None


def read_metrics(
    context: WorkerContext, spec: HpaSpec, namespace: str, scale: Scale
) -> list[Reading]:
    """Return one reading per metric of the HPA, in its order."""
    return [_read(context, metric, namespace, scale) for metric in spec.metrics]


def _read(context: WorkerContext, metric: Metric, namespace: str, scale: Scale) -> Reading:
    if isinstance(metric, ExternalMetric):
        return _read_external(context, metric, namespace, scale)
    return _read_resource(context, metric, namespace, scale)


def _read_external(
    context: WorkerContext, metric: ExternalMetric, namespace: str, scale: Scale
) -> Reading:
    selector = _selector_text(metric)
    name = f"external metric {metric.name}({selector})"
    try:
        milli = _external_milli(context, metric, namespace)
        proposal = propose_external(
            metric,
            milli,
            spec_replicas=scale.spec_replicas,
            status_replicas=scale.status_replicas,
            count_ready_pods=lambda: count_ready_pods(context.cluster, namespace, scale.selector),
            tolerance=context.hpa_settings.tolerance,
        )
    except NotReady as error:
        text = (
            f"unable to get external metric {namespace}/{metric.name}/{selector}: "
            f"unable to fetch metrics from external metrics API: {error}"
        )
        summary = (
            f"failed to get {metric.name} external metric value: "
            f"failed to get {metric.name} external metric: {text}"
        )
        failure = MetricFailure("FailedGetExternalMetric", text, summary)
        return Reading(MetricOutcome(name, failure), None, metric.name, None)
    key = "averageValue" if metric.target_type == "AverageValue" else "value"
    current = {key: format_milli(proposal.usage_milli or 0)}
    identity = {"name": metric.name, "selector": {"matchLabels": dict(metric.selector)}}
    status = {"type": "External", "external": {"metric": identity, "current": current}}
    return Reading(MetricOutcome(name, proposal), status, metric.name, milli / 1000)


def _external_milli(context: WorkerContext, metric: ExternalMetric, namespace: str) -> int:
    owner = dict(metric.selector).get(SCALED_OBJECT_LABEL)
    source = context.directory.source_of((namespace, owner)) if owner else None
    if source is None:
        raise NotReady(f"no ScaledObject serves the metric {metric.name}")
    return source.read_metric_milli(metric.name)


def _read_resource(
    context: WorkerContext, metric: ResourceMetric, namespace: str, scale: Scale
) -> Reading:
    name = resource_title(metric)
    try:
        samples = context.cluster.list(POD_METRICS, namespace, scale.selector)
        pods = [
            parse_pod(pod, metric.name, metric.container)
            for pod in context.cluster.list(POD, namespace, scale.selector)
        ]
    except NotReady as error:
        cause = f"unable to fetch metrics from resource metrics API: {error}"
        failure = no_samples(metric, cause)
        return Reading(MetricOutcome(name, failure), None, metric.name, None)
    if not samples:
        failure = no_samples(metric, "no metrics returned from resource metrics API")
        return Reading(MetricOutcome(name, failure), None, metric.name, None)
    found = [parse_pod_metrics(item, metric.name, metric.container) for item in samples]
    result = propose_resource(
        metric,
        pods,
        dict(item for item in found if item is not None),
        spec_replicas=scale.spec_replicas,
        tolerance=context.hpa_settings.tolerance,
        now_ns=context.clock.wall_ns(),
    )
    if isinstance(result, MetricFailure):
        return Reading(MetricOutcome(name, result), None, metric.name, None)
    current: dict[str, Any] = {"averageValue": format_milli(result.usage_milli or 0)}
    if result.usage_percent is not None:
        current["averageUtilization"] = result.usage_percent
    status: dict[str, Any] = {
        "type": "Resource",
        "resource": {"name": metric.name, "current": current},
    }
    if metric.container:
        whole = {"container": metric.container, **status["resource"]}
        status = {"type": "ContainerResource", "containerResource": whole}
    average = result.usage_milli
    return Reading(
        MetricOutcome(name, result), status, metric.name, None if average is None else average / 1e3
    )


def _selector_text(metric: ExternalMetric) -> str:
    """Return the selector as Kubernetes prints it in conditions and events."""
    labels = "".join(f"{key}: {value}," for key, value in metric.selector)
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        "MatchExpressions:[]LabelSelectorRequirement{},}"
    )
