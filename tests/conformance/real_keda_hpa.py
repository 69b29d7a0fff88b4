"""The HPA of a replay: our sync on our replicas, with the pods and their usage of the trace."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from lagbench.core.hpa.controller_flags import Tolerances
from lagbench.core.hpa.hpa_metrics import (
    MetricFailure,
    PodState,
    PodUsage,
    Proposal,
    propose_external,
    propose_resource,
)
from lagbench.core.hpa.hpa_object import HpaSpec, Metric, ResourceMetric
from lagbench.core.hpa.hpa_sync import (
    HpaDecision,
    HpaHistory,
    HpaSettings,
    MetricOutcome,
    decide,
    record_change,
    start_history,
    wants_metrics,
)
from lagbench.core.keda.loop.keda_runtime import KedaObject
from lagbench.core.keda.loop.scalers import TargetView
from lagbench.core.kubernetes_values import NS_PER_SECOND, parse_milli
from lagbench.errors import NotReady
from tests.conformance.real_keda_trace import Trace

_SETTINGS = HpaSettings()
_WINDOW_NS = 15 * NS_PER_SECOND
# An hour: long past the 300 s in which a new pod's samples are looked at twice.
_OLD_NS = 3600 * NS_PER_SECOND


class ReplayedHpa:
    """One HPA object: its history begins with it."""

    def __init__(self, trace: Trace) -> None:
        """Start without a history; the spec comes with ``spec``."""
        self.spec: HpaSpec | None = None
        self.is_active = False
        self._trace = trace
        self._history: HpaHistory | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> ReplayedHpa:
        """Copy what changes; the trace stays one."""
        twin = ReplayedHpa(self._trace)
        twin.spec, twin.is_active, twin._history = self.spec, self.is_active, self._history
        return twin

    def sync(self, keda: KedaObject, target: TargetView, at: float, done_at: float) -> HpaDecision:
        """Read, decide, and remember the change at the instant it was done."""
        spec, before, now_ns = self.spec, target.spec_replicas, int(at * NS_PER_SECOND)
        if spec is None:
            raise NotReady("the HPA has no spec yet")
        history = self._history or start_history(before, now_ns)
        outcomes: list[MetricOutcome] = []
        if wants_metrics(spec, before):
            outcomes = [
                MetricOutcome(metric.name, self._propose(metric, keda, target, at))
                for metric in spec.metrics
            ]
        decision = decide(
            spec, history, outcomes, spec_replicas=before, now_ns=now_ns, settings=_SETTINGS
        )
        for condition in decision.conditions:
            if condition.type == "ScalingActive":
                self.is_active = condition.status == "True"
        done_ns = int(done_at * NS_PER_SECOND)
        self._history = record_change(spec, decision.history, before, decision.replicas, done_ns)
        return decision

    def _propose(
        self, metric: Metric, keda: KedaObject, target: TargetView, at: float
    ) -> Proposal | MetricFailure:
        if isinstance(metric, ResourceMetric):
            return self._propose_resource(metric, target, at)
        try:
            milli = keda.read_for_hpa(metric.name, target)
        except NotReady as error:
            return MetricFailure("FailedGetExternalMetric", str(error))
        return propose_external(
            metric,
            milli,
            spec_replicas=target.spec_replicas,
            status_replicas=target.status_replicas,
            count_ready_pods=lambda: target.ready_pods,
            tolerances=Tolerances(),
        )

    def _propose_resource(
        self, metric: ResourceMetric, target: TargetView, at: float
    ) -> Proposal | MetricFailure:
        """Take the pod-metrics API's recorded answer: so many pods, each with the same usage."""
        answers = [line for line in self._trace.of_kind("metrics_api") if line["t"] <= at + 0.05]
        count, milli = (
            (answers[-1]["pods"], answers[-1]["per_pod_millicores"]) if answers else (0, 0)
        )
        now_ns, request = int(at * NS_PER_SECOND), self._request_milli(metric.name)
        pods = [
            PodState(
                f"pod-{i}", "Running", False, now_ns - _OLD_NS, True, now_ns - _OLD_NS, request
            )
            for i in range(count)
        ]
        return propose_resource(
            metric,
            pods,
            {pod.name: PodUsage(milli, now_ns, _WINDOW_NS) for pod in pods},
            spec_replicas=target.spec_replicas,
            tolerances=Tolerances(),
            now_ns=now_ns,
        )

    def _request_milli(self, resource: str) -> int | None:
        containers = self._trace.deployment["spec"]["template"]["spec"]["containers"]
        requests = ((containers[0].get("resources") or {}).get("requests") or {}).get(resource)
        return None if requests is None else parse_milli(requests, where="trace", field=resource)


class StatusTimeline:
    """status.replicas and ready pods as the Deployment's watch told of them."""

    def __init__(self, trace: Trace) -> None:
        """Read the watch."""
        self._points = [
            (line["t"], int(line["status_replicas"] or 0), int(line["ready"] or 0))
            for line in trace.watched("deploy")
        ]
        self._instants = [point[0] for point in self._points]

    def at(self, at: float) -> tuple[int, int]:
        """Return (status.replicas, ready pods) at an instant."""
        place = bisect_right(self._instants, at) - 1
        return self._points[place][1:] if place >= 0 else (0, 0)

    def around(self, at: float, seconds: float) -> list[tuple[int, int]]:
        """Return what else was told within some time of an instant."""
        reported = [point[1:] for point in self._points if abs(point[0] - at) <= seconds]
        return [status for status in dict.fromkeys(reported) if status != self.at(at)]
