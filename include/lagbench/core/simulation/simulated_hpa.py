"""The HPA of a simulation: the live sync's decisions over the world's readings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lagbench.core.hpa import (
    HpaDecision,
    HpaHistory,
    HpaSpec,
    Metric,
    MetricFailure,
    MetricOutcome,
    PodState,
    PodUsage,
    Proposal,
    ResourceMetric,
    decide,
    propose_external,
    propose_resource,
    record_change,
    start_history,
    wants_metrics,
)
from lagbench.core.keda.loop import TargetView
from lagbench.core.kubernetes import NS_PER_SECOND
from lagbench.core.simulation.world import World
from lagbench.errors import NotReady

# metrics-server's samples cover about 15 s.
_WINDOW_NS = 15 * NS_PER_SECOND
ReadExternal = Callable[[str, TargetView], int]


class SimulatedHpa:
    """One HPA object; its history lives as long as this does."""

    def __init__(
        self,
        spec: HpaSpec,
        world: World,
        read_external: ReadExternal,
        *,
        tolerance: float | None = None,
    ) -> None:
        """Read external metrics (milli) by ``read_external``; ``tolerance`` None: the world's."""
        settings = world.environment.hpa
        if tolerance is not None:
            settings = replace(settings, tolerance=tolerance)
        self._settings = settings
        self.spec, self._world, self._read_external = spec, world, read_external
        self._history: HpaHistory | None = None
        self.is_active = False

    def take_over(self, before: SimulatedHpa) -> None:
        """Have the memory of ``before``: the object was updated, not made again."""
        self._history = before._history

    def forget(self) -> None:
        """Lose the memory, which is that of the controller's process."""
        self._history = None

    def sync(self) -> HpaDecision:
        """Read, decide and scale, as at one sync of the controller."""
        world, settings = self._world, self._settings
        target, now_ns = world.target(), world.now_ns
        before = target.spec_replicas
        history = self._history or start_history(before, now_ns)
        outcomes: list[MetricOutcome] = []
        if wants_metrics(self.spec, before):
            outcomes = [
                MetricOutcome(metric.name, self._propose(metric, target, now_ns))
                for metric in self.spec.metrics
            ]
        decision = decide(
            self.spec, history, outcomes, spec_replicas=before, now_ns=now_ns, settings=settings
        )
        self._history = decision.history
        for condition in decision.conditions:
            if condition.type == "ScalingActive":
                self.is_active = condition.status == "True"
        if decision.replicas != before:
            world.fleet.set_replicas(decision.replicas, world.second, "hpa")
            self._history = record_change(
                self.spec, decision.history, before, decision.replicas, now_ns
            )
        return decision

    def _propose(self, metric: Metric, target: TargetView, now_ns: int) -> Proposal | MetricFailure:
        tolerance = self._settings.tolerance
        if isinstance(metric, ResourceMetric):
            return self._propose_resource(metric, target, now_ns, tolerance)
        try:
            milli = self._read_external(metric.name, target)
        except NotReady as error:
            return MetricFailure("FailedGetExternalMetric", str(error))
        return propose_external(
            metric,
            milli,
            spec_replicas=target.spec_replicas,
            status_replicas=target.status_replicas,
            count_ready_pods=lambda: target.ready_pods,
            tolerance=tolerance,
        )

    def _propose_resource(
        self, metric: ResourceMetric, target: TargetView, now_ns: int, tolerance: float
    ) -> Proposal | MetricFailure:
        """Take every pod to work as much as the average one does at this instant."""
        world = self._world
        milli = world.usage_millicores() if metric.name == "cpu" else None
        request = world.scenario.consumer.cpu_request_millicores
        pods, usage = [], {}
        for pod in world.fleet.alive:
            name = str(pod.number)
            is_ready = pod.ready_at is not None
            changed_at = pod.created_at if pod.ready_at is None else pod.ready_at
            pods.append(
                PodState(
                    name=name,
                    phase="Running",
                    is_deleting=False,
                    started_at_ns=world.instant_ns(pod.created_at),
                    is_ready=is_ready,
                    ready_changed_at_ns=world.instant_ns(changed_at),
                    request_milli=request,
                )
            )
            if is_ready and milli is not None:
                usage[name] = PodUsage(milli, now_ns, _WINDOW_NS)
        return propose_resource(
            metric,
            pods,
            usage,
            spec_replicas=target.spec_replicas,
            tolerance=tolerance,
            now_ns=now_ns,
        )
