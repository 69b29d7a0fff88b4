"""From a metric's reading to a proposal of replicas, for each kind of metric and target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf, isfinite, nan
from typing import Any

from lagbench.core.hpa.controller_flags import Tolerances
from lagbench.core.hpa.hpa_object import ExternalMetric, ResourceMetric
from lagbench.core.kubernetes_values import NS_PER_SECOND, parse_instant_ns, parse_milli

MAX_REPLICAS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Proposal:
    """The replicas that one metric proposes, and the usage that its status shows.

    ``usage_milli`` is per pod for average targets and the whole for ``Value``; None: not defined.
    """

    replicas: int
    usage_milli: int | None
    usage_percent: int | None = None


@dataclass(frozen=True, slots=True)
class MetricFailure:
    """A metric that could not be read; it blocks scaling down, and scaling up when it is alone."""

    reason: str  # FailedGetExternalMetric, FailedGetResourceMetric, ...
    message: str


def propose_external(
    metric: ExternalMetric,
    milli: int,
    *,
    spec_replicas: int,
    status_replicas: int,
    count_ready_pods: Callable[[], int],
    tolerances: Tolerances,
) -> Proposal:
    """Return the proposal for an External metric; pods are counted for a Value target only."""
    if metric.target_type == "AverageValue":
        return propose_external_average(
            [milli], metric.target_milli, status_replicas=status_replicas, tolerances=tolerances
        )
    return propose_external_value(
        [milli],
        metric.target_milli,
        spec_replicas=spec_replicas,
        ready_pods=count_ready_pods(),
        tolerances=tolerances,
    )


def propose_external_average(
    values_milli: Sequence[int], target_milli: int, *, status_replicas: int, tolerances: Tolerances
) -> Proposal:
    """Return the proposal for an External metric with an AverageValue target.

    Inside the tolerance it is status.replicas, not spec.replicas.
    """
    usage = sum(values_milli)
    ratio = _ratio(usage, float(target_milli) * status_replicas)
    if tolerances.is_within(ratio):
        replicas = status_replicas
    else:
        replicas = _whole_replicas(usage / target_milli)
    per_pod = ceil(usage / status_replicas) if status_replicas else None
    return Proposal(replicas, per_pod)


def propose_external_value(
    values_milli: Sequence[int],
    target_milli: int,
    *,
    spec_replicas: int,
    ready_pods: int,
    tolerances: Tolerances,
) -> Proposal:
    """Return the proposal for an External metric with a Value target."""
    usage = sum(values_milli)
    ratio = usage / target_milli
    if spec_replicas == 0:
        return Proposal(_whole_replicas(ratio), usage)
    if tolerances.is_within(ratio):
        return Proposal(spec_replicas, usage)
    return Proposal(_whole_replicas(ratio * ready_pods), usage)


def _ratio(usage: int, capacity: float) -> float:
    if capacity == 0:
        return inf if usage else nan
    return usage / capacity


def _whole_replicas(wish: float) -> int:
    return min(ceil(wish), MAX_REPLICAS) if isfinite(wish) else MAX_REPLICAS


CPU_INITIALIZATION_SECONDS = 300

INITIAL_READINESS_DELAY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class PodState:
    """The fields of a pod that the HPA uses; None where its status has no value."""

    name: str
    phase: str
    is_deleting: bool
    started_at_ns: int | None
    is_ready: bool | None
    ready_changed_at_ns: int
    request_milli: int | None  # None: something requests none of the resource
    requests_nothing: str = ""  # what that is, as the HPA names it in its message


@dataclass(frozen=True, slots=True)
class PodUsage:
    """A pod's measured usage, averaged over the window that ended at ``at_ns``."""

    milli: int
    at_ns: int
    window_ns: int


@dataclass(frozen=True, slots=True)
class PodGroups:
    """Names of pods by how the replica calculation treats them."""

    ready_count: int = 0
    unready: frozenset[str] = field(default_factory=frozenset)
    missing: frozenset[str] = field(default_factory=frozenset)
    ignored: frozenset[str] = field(default_factory=frozenset)


def parse_pod(pod: Mapping[str, Any], resource: str, container: str = "") -> PodState:
    """Return the state of a Pod object; with ``container`` only its request counts."""
    request_milli, requests_nothing = _request_milli(pod, resource, container)
    metadata, status = pod["metadata"], pod.get("status") or {}
    ready = next((c for c in status.get("conditions") or [] if c.get("type") == "Ready"), None)
    changed = (ready or {}).get("lastTransitionTime")
    started = status.get("startTime")
    return PodState(
        name=metadata["name"],
        phase=status.get("phase", ""),
        is_deleting=bool(metadata.get("deletionTimestamp")),
        started_at_ns=parse_instant_ns(started) if started else None,
        is_ready=None if ready is None else ready.get("status") == "True",
        ready_changed_at_ns=parse_instant_ns(changed) if changed else 0,
        request_milli=request_milli,
        requests_nothing=requests_nothing,
    )


def _request_milli(pod: Mapping[str, Any], resource: str, container: str) -> tuple[int | None, str]:
    """Return what the pod requests, or what of it requests nothing.

    A request of the whole pod comes first, unless one container is asked about.
    """
    spec, where = pod.get("spec") or {}, pod["metadata"]["name"]
    of_pod = (spec.get("resources") or {}).get("requests") or {}
    if resource in of_pod and not container:
        return parse_milli(of_pod[resource], where=where, field=resource), ""
    total = 0
    for item in _running_together(spec):
        if container and item.get("name") != container:
            continue
        request = ((item.get("resources") or {}).get("requests") or {}).get(resource)
        if request is None:
            return None, f"container {item.get('name', '')} of Pod {where}"
        total += parse_milli(request, where=where, field=resource)
    return total, ""


def _running_together(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the containers that run at one time: the ordinary ones and the sidecars."""
    sidecars = [
        item for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"
    ]
    return [*(spec.get("containers") or []), *sidecars]


def parse_pod_metrics(
    item: Mapping[str, Any], resource: str, container: str = ""
) -> tuple[str, PodUsage] | None:
    """Return a PodMetrics object as (pod, usage); None when a container lacks the resource.

    With ``container`` only its usage counts; a sample without it says nothing of the pod.
    """
    name = item["metadata"]["name"]
    measured = item.get("containers") or []
    if container:
        measured = [one for one in measured if one.get("name") == container]
    if not measured:
        return None
    total = 0
    for one in measured:
        usage = (one.get("usage") or {}).get(resource)
        if usage is None:
            return None
        total += parse_milli(usage, where=name, field=resource)
    window = _duration_ns(str(item.get("window") or "0s"))
    return name, PodUsage(total, parse_instant_ns(item["timestamp"]), window)


def _duration_ns(text: str) -> int:
    """Return a Go duration made of minutes and seconds (``30s``, ``1m0s``, ``15.1s``)."""
    minutes, _, seconds = text.rpartition("m")
    whole_seconds = float(seconds.rstrip("s") or 0) + 60 * float(minutes or 0)
    return int(whole_seconds * NS_PER_SECOND)


def group_pods(
    pods: Sequence[PodState], usage: Mapping[str, PodUsage], resource: str, now_ns: int
) -> PodGroups:
    """Return which pods count, lack a sample, are not ready yet, or are on their way out."""
    unready, missing, ignored = set(), set(), set()
    ready_count = 0
    for pod in pods:
        if pod.is_deleting or pod.phase == "Failed":
            ignored.add(pod.name)
        elif pod.phase == "Pending":
            unready.add(pod.name)
        elif pod.name not in usage:
            missing.add(pod.name)
        elif resource == "cpu" and _is_sample_too_early(pod, usage[pod.name], now_ns):
            unready.add(pod.name)
        else:
            ready_count += 1
    return PodGroups(ready_count, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_sample_too_early(pod: PodState, usage: PodUsage, now_ns: int) -> bool:
    if pod.is_ready is None or pod.started_at_ns is None:
        return True
    if pod.started_at_ns + CPU_INITIALIZATION_SECONDS * NS_PER_SECOND > now_ns:
        is_window_short = usage.at_ns < pod.ready_changed_at_ns + usage.window_ns
        return not pod.is_ready or is_window_short
    delay_ns = INITIAL_READINESS_DELAY_SECONDS * NS_PER_SECOND
    return not pod.is_ready and pod.started_at_ns + delay_ns > pod.ready_changed_at_ns


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
    tolerances: Tolerances,
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
    replicas = _replicas(metric, counted, first, spec_replicas, tolerances)
    return Proposal(replicas, first.per_pod_milli, first.percent)


def _replicas(
    metric: ResourceMetric, pods: _Pods, first: _Usage, spec_replicas: int, tolerances: Tolerances
) -> int:
    is_waiting_for_pods = bool(pods.groups.unready) and first.ratio > 1.0
    if not is_waiting_for_pods and not pods.groups.missing:
        if tolerances.is_within(first.ratio):
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
    if second is None or tolerances.is_within(second.ratio):
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
