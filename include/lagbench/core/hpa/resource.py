"""From the pods' CPU or memory to a proposal, as Kubernetes computes it.

Missing samples are assumed to speak against the change: as full usage when scaling down, as none
when scaling up; pods not ready yet count as idle when scaling up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from lagbench.core.hpa.metrics import MetricFailure, Proposal, is_within_tolerance
from lagbench.core.hpa.pods import PodGroups, PodState, PodUsage, group_pods
from lagbench.core.hpa.spec import ResourceMetric


@dataclass(frozen=True, slots=True)
class _Usage:
    ratio: float
    percent: int | None
    per_pod_milli: int


@dataclass(frozen=True, slots=True)
class _Pods:
    groups: PodGroups
    samples: Mapping[str, int]  # milli, of the pods that count
    requests: Mapping[str, int]


def propose_resource(
    metric: ResourceMetric,
    pods: Sequence[PodState],
    usage: Mapping[str, PodUsage],
    *,
    spec_replicas: int,
    tolerance: float,
    now_ns: int,
) -> Proposal | MetricFailure:
    """Return the proposal of the resource metric, or why it cannot be computed."""
    if not pods:
        return _failure(metric, "no pods returned by selector while calculating replica count")
    groups = group_pods(pods, usage, metric.name, now_ns)
    left_out = groups.ignored | groups.unready
    samples = {pod: item.milli for pod, item in usage.items() if pod not in left_out}
    known = {pod.name for pod in pods}
    samples = {pod: milli for pod, milli in samples.items() if pod in known}
    if not samples:
        text = "did not receive metrics for targeted pods (pods might be unready)"
        return _failure(metric, text)
    if metric.target_type == "Utilization":
        lacking = next((pod for pod in pods if pod.request_milli is None), None)
        if lacking is not None:
            text = f"missing request for {metric.name} in {lacking.requests_nothing}"
            return _failure(metric, text)
    whole = {pod.name: pod.request_milli or 0 for pod in pods}
    first = _measure(metric, samples, whole)
    if first is None:
        return _failure(metric, "no metrics returned matched known pods")
    counted = _Pods(groups, samples, whole)
    replicas = _replicas(metric, counted, first, spec_replicas, tolerance)
    return Proposal(replicas, first.per_pod_milli, first.percent)


def _replicas(
    metric: ResourceMetric,
    pods: _Pods,
    first: _Usage,
    spec_replicas: int,
    tolerance: float,
) -> int:
    is_waiting_for_pods = bool(pods.groups.unready) and first.ratio > 1.0
    if not is_waiting_for_pods and not pods.groups.missing:
        if is_within_tolerance(first.ratio, tolerance):
            return spec_replicas
        return ceil(first.ratio * pods.groups.ready_count)
    assumed = dict(pods.samples)
    for pod in pods.groups.missing:
        if first.ratio < 1.0:
            assumed[pod] = _full_usage(metric, pods.requests.get(pod, 0))
        elif first.ratio > 1.0:
            assumed[pod] = 0
    if is_waiting_for_pods:
        assumed.update(dict.fromkeys(pods.groups.unready, 0))
    second = _measure(metric, assumed, pods.requests)
    if second is None or is_within_tolerance(second.ratio, tolerance):
        return spec_replicas
    if (first.ratio < 1.0 < second.ratio) or (second.ratio < 1.0 < first.ratio):
        return spec_replicas
    wish = ceil(second.ratio * len(assumed))
    is_backwards = wish > spec_replicas if second.ratio < 1.0 else wish < spec_replicas
    return spec_replicas if is_backwards else wish


def _full_usage(metric: ResourceMetric, request_milli: int) -> int:
    if metric.target_type == "AverageValue":
        return metric.target_milli
    return request_milli * max(100, metric.target_percent) // 100


def _measure(
    metric: ResourceMetric, samples: Mapping[str, int], requests: Mapping[str, int]
) -> _Usage | None:
    total = sum(samples.values())
    per_pod = total // len(samples)
    if metric.target_type == "AverageValue":
        return _Usage(per_pod / metric.target_milli, None, per_pod)
    requested = sum(requests.get(pod, 0) for pod in samples)
    if requested == 0:
        return None
    percent = total * 100 // requested
    return _Usage(percent / metric.target_percent, percent, per_pod)


def no_samples(metric: ResourceMetric, cause: str) -> MetricFailure:
    """Return the failure of a metric about whose pods the metrics API says nothing."""
    return _failure(metric, f"unable to get metrics for resource {metric.name}: {cause}")


def resource_title(metric: ResourceMetric) -> str:
    """Return the metric as events and conditions name it."""
    if metric.target_type == "AverageValue":
        return f"{metric.name} resource"
    holder = "container resource" if metric.container else "resource"
    return f"{metric.name} {holder} utilization (percentage of request)"


def _failure(metric: ResourceMetric, text: str) -> MetricFailure:
    kind = "utilization" if metric.target_type == "Utilization" else "usage"
    of = f" of container {metric.container}" if metric.container else ""
    reason = f"FailedGet{'Container' if metric.container else ''}ResourceMetric"
    return MetricFailure(reason, f"failed to get {metric.name} {kind}{of}: {text}")
