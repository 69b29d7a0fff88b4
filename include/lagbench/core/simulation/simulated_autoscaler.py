"""KEDA and the HPA over the simulated world, put together from a policy as the live ones are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import floor, inf

import numpy as np

from lag_scaler.metadata import parse_lag_settings
from lag_scaler.offsets import GroupSample
from lag_scaler.sync_on_step import SyncOnStep
from lag_scaler.window import GroupWindow
from lagbench.core.hpa.controller_flags import Tolerances
from lagbench.core.hpa.hpa_metrics import (
    MetricFailure,
    PodState,
    PodUsage,
    Proposal,
    propose_external,
    propose_resource,
)
from lagbench.core.hpa.hpa_object import HpaSpec, Metric, ResourceMetric, parse_hpa
from lagbench.core.hpa.hpa_sync import (
    HpaHistory,
    MetricOutcome,
    decide,
    record_change,
    start_history,
    wants_metrics,
)
from lagbench.core.keda.loop.keda_hpa import build_hpa
from lagbench.core.keda.loop.keda_runtime import KedaObject
from lagbench.core.keda.loop.scalers import (
    CronScaler,
    MetricReading,
    MetricSpec,
    OneMetric,
    Scaler,
    TargetView,
    trigger_metric_spec,
)
from lagbench.core.keda.loop.source_metrics import PartitionOffsets, PersistentLagMemory, read_lag
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec, Trigger
from lagbench.core.keda.triggers.cron_trigger import CronTrigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger, kept_partitions
from lagbench.core.keda.triggers.trigger_parameters import SampledLag
from lagbench.core.keda.triggers.trigger_types import (
    TRIGGER_TYPES,
    ExternalTrigger,
    ResourceTrigger,
)
from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS, NS_PER_SECOND
from lagbench.core.policy.policy import Policy
from lagbench.core.simulation.simulated_world import World
from lagbench.errors import NotReady, WrongInput

_WINDOW_NS = 15 * NS_PER_SECOND
"""metrics-server's samples cover about 15 s."""


@dataclass(slots=True)
class SimulatedClock:
    """Runs ``act`` at ``next_at``, and a period after its work; ``is_shown``: as a row."""

    next_at: float
    period_seconds: float
    act: Callable[[], float | None]
    """It returns the seconds of its work that the period does not have; None: 0."""
    is_shown: bool = False

    def run(self) -> None:
        """Act, then wait one period."""
        self.next_at += self.period_seconds + (self.act() or 0.0)


class SimulatedAutoscaler:
    """The clocks that act on one workload; ``wish`` is the HPA's last proposal."""

    def __init__(self, policy: Policy, world: World, random: np.random.Generator) -> None:
        """Put the policy in force at the present instant of ``world``."""
        self._world, self._policy = world, policy
        self._samplers: dict[int, LagSampler] = {}
        self._scraped: ScrapedLag | None = None
        self._keda: KedaObject | None = None
        self._hpa: HpaSpec | None = None
        self._history: HpaHistory | None = None
        self._is_hpa_active = False
        self.clocks: list[SimulatedClock] = []
        self._syncs: SimulatedClock | None = None
        self.wish: int | None = None
        self.is_down = False  # an action has taken it away
        around, flags, spec = world.environment, policy.limits.flags, policy.spec
        self._settings = around.hpa
        # All phases are drawn, wanted or not: the same seed gives every policy the same ones.
        hpa_phase, keda_phase, self._sampler_phase = random.uniform(size=3).tolist()
        if isinstance(spec, HpaSpec):
            self._hpa = spec
        else:
            self._start_keda(spec, keda_phase)
        self._tolerances = Tolerances()
        if self._hpa is not None:
            self._tolerances = flags.tolerances(self._hpa.behavior, around.hpa.tolerance)
            period = around.hpa_sync_seconds
            if flags.sync_seconds is not None:  # it takes its work, too
                period += flags.sync_seconds - HPA_SYNC_SECONDS
            wait = hpa_phase * period
            if around.hpa_sync_at_seconds is not None:
                wait = (around.hpa_sync_at_seconds - world.second) % period
            self._syncs = self._clock(wait, period, self._sync, is_shown=True)

    def take_over(self, before: SimulatedAutoscaler) -> None:
        """Follow ``before``: of two ScaledObjects of one workload KEDA updates the one HPA."""
        if self._keda is not None and before._keda is not None:
            self._history = before._history
            if self._syncs is not None and before._syncs is not None:
                self._syncs.next_at = before._syncs.next_at
        self.is_down = before.is_down
        if self._hpa != before._hpa and self._policy.limits.flags.has_gate("HPAGeneration"):
            self._clock(0, inf, self._sync, is_shown=True)  # a changed HPA is synced at once

    def restart(self) -> None:
        """Start the process again, without a memory."""
        self._history = None
        if self._keda is not None:
            self._keda = self._new_keda(self._keda.spec)

    def _start_keda(self, spec: ScaledObjectSpec, phase: float) -> None:
        world, annotations = self._world, spec.annotations
        if annotations.is_paused:
            if annotations.paused_replicas is not None:
                world.fleet.set_replicas(annotations.paused_replicas, world.second, "keda")
            return
        self._keda = self._new_keda(spec)
        metadata = {"uid": "simulated", **(self._policy.manifest.get("metadata") or {})}
        manifest = build_hpa(spec, metadata, self._keda.metric_specs())
        self._hpa = parse_hpa(manifest, where=self._policy.where)
        period = float(spec.polling_interval_seconds)
        self._clock(phase * period, period, self._tick)

    def _new_keda(self, spec: ScaledObjectSpec) -> KedaObject:
        return KedaObject(spec, self._build, created_at_ns=self._world.now_ns)

    def _clock(
        self,
        after_seconds: float,
        period: float,
        act: Callable[[], float | None],
        *,
        is_shown: bool = False,
    ) -> SimulatedClock:
        first_at = self._world.second + after_seconds
        clock = SimulatedClock(first_at, period, act, is_shown)
        self.clocks.append(clock)
        return clock

    def _build(self, trigger: Trigger) -> Scaler:
        """Return the trigger's scaler."""
        parameters, world = trigger.parameters, self._world
        spec = trigger_metric_spec(trigger)
        sampled_lag = TRIGGER_TYPES[trigger.type].sampled_lag
        if sampled_lag is not None:
            sampled = sampled_lag(parameters, f"spec.triggers[{trigger.index}].metadata")
            lag = self._scraped_lag()
            # KEDA requests the query's value at a whole second.
            return _Scaler(
                spec, lambda: sampled.reading(lag.value_at(floor(world.second), sampled))
            )
        match parameters:
            case KafkaTrigger():
                return _Scaler(spec, _KafkaLag(parameters, world).read)
            case CronTrigger():
                return CronScaler(trigger, parameters, lambda: world.now_ns)
            case ResourceTrigger():
                return OneMetric(trigger)
            case ExternalTrigger():
                sampler = self._sampler(trigger.index, parameters)
                name = f"s{trigger.index}-{sampler.settings.metric_name}"
                target_milli = round(sampler.settings.target * 1000)
                own = MetricSpec(name, "External", trigger.metric_type, target_milli)
                return _Scaler(own, sampler.read)
        allowed = "the trigger types of the simulator"
        raise WrongInput(where="policy", field="triggers", value=trigger.type, allowed=allowed)

    def _sampler(self, index: int, parameters: ExternalTrigger) -> LagSampler:
        """Return the lag scaler's server, whose windows outlive its clients."""
        if index not in self._samplers:
            sampler = self._samplers[index] = LagSampler(parameters.metadata, self._world)
            period = sampler.window.interval_seconds
            syncs = parameters.is_push and self._policy.limits.flags.has_gate("HPAGeneration")
            act = (lambda: sampler.sample(self._sync)) if syncs else sampler.sample
            self._clock(self._sampler_phase * period, period, act)
        return self._samplers[index]

    def _scraped_lag(self) -> ScrapedLag:
        """Return Prometheus' samples, which all triggers and all their scalers share."""
        if self._scraped is None:
            self._scraped = ScrapedLag(self._world)
            period = self._world.environment.scrape_seconds
            self._clock(self._sampler_phase * period, period, self._scraped.sample)
        return self._scraped

    def _tick(self) -> None:
        """Do one round of KEDA's scale loop; scalers that cannot be built leave it at that."""
        world = self._world
        if self._keda is None or self.is_down:
            return
        try:
            tick = self._keda.tick(world.target(), world.now_ns, is_hpa_active=self._is_hpa_active)
        except NotReady:
            return
        if tick.decision.replicas is not None:
            world.fleet.set_replicas(tick.decision.replicas, world.second, "keda")

    def _sync(self) -> float:
        """Read, decide and scale, as at one sync of the HPA; return the seconds of the scaling."""
        spec, world = self._hpa, self._world
        if spec is None or self.is_down:
            return 0.0
        target, now_ns = world.target(), world.now_ns
        before = target.spec_replicas
        history = self._history or start_history(before, now_ns)
        outcomes: list[MetricOutcome] = []
        if wants_metrics(spec, before):
            outcomes = [
                MetricOutcome(metric.name, self._propose(metric, target)) for metric in spec.metrics
            ]
        decision = decide(
            spec, history, outcomes, spec_replicas=before, now_ns=now_ns, settings=self._settings
        )
        self.wish, self._history = decision.proposal, decision.history
        for condition in decision.conditions:
            if condition.type == "ScalingActive":
                self._is_hpa_active = condition.status == "True"
        after = decision.replicas
        if after == before:
            return 0.0
        world.fleet.set_replicas(after, world.second, "hpa")
        self._history = record_change(spec, decision.history, before, after, now_ns)
        return world.environment.hpa_scale_seconds

    def _propose(self, metric: Metric, target: TargetView) -> Proposal | MetricFailure:
        if isinstance(metric, ResourceMetric):
            return self._propose_resource(metric, target)
        if self._keda is None:
            reason = f"no ScaledObject serves the metric {metric.name}"
            return MetricFailure("FailedGetExternalMetric", reason)
        try:
            milli = self._keda.read_for_hpa(metric.name, target)
        except NotReady as error:
            return MetricFailure("FailedGetExternalMetric", str(error))
        return propose_external(
            metric,
            milli,
            spec_replicas=target.spec_replicas,
            status_replicas=target.status_replicas,
            count_ready_pods=lambda: target.ready_pods,
            tolerances=self._tolerances,
        )

    def _propose_resource(
        self, metric: ResourceMetric, target: TargetView
    ) -> Proposal | MetricFailure:
        """Take every pod to work as much as the average one does at this instant."""
        world = self._world
        milli = world.usage_millicores() if metric.name == "cpu" else None
        pods, usage = [], {}
        for pod in world.fleet.alive:
            name, is_ready = str(pod.number), pod.ready_at is not None
            changed_at = pod.created_at if pod.ready_at is None else pod.ready_at
            pods.append(
                PodState(
                    name=name,
                    phase="Running",
                    is_deleting=False,
                    started_at_ns=world.instant_ns(pod.created_at),
                    is_ready=is_ready,
                    ready_changed_at_ns=world.instant_ns(changed_at),
                    request_milli=world.scenario.consumer.cpu_request_millicores,
                )
            )
            if is_ready and milli is not None:
                usage[name] = PodUsage(milli, world.now_ns, _WINDOW_NS)
        return propose_resource(
            metric,
            pods,
            usage,
            spec_replicas=target.spec_replicas,
            tolerances=self._tolerances,
            now_ns=world.now_ns,
        )


class _Scaler(OneMetric):
    """A scaler of one metric: its value, and whether that is active."""

    def __init__(self, spec: MetricSpec | None, read: Callable[[], tuple[float, bool]]) -> None:
        self._specs, self._read = () if spec is None else (spec,), read

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - there is only one
        """Return the metric's reading."""
        value, is_active = self._read()
        return MetricReading((value,), is_active)


class _KafkaLag:
    """KEDA's lag; remembers commits for excludePersistentLag as long as its scaler lives."""

    def __init__(self, trigger: KafkaTrigger, world: World) -> None:
        self._trigger, self._world = trigger, world
        self._kept: list[tuple[str, int]] = []
        self._count = 0
        self._memory = PersistentLagMemory()

    def read(self) -> tuple[float, bool]:
        """Poll the group's lag on the partitions that the trigger keeps."""
        ends, commits = (offsets.tolist() for offsets in self._world.offsets())
        if len(ends) != self._count:  # first, or the topic has grown
            topic, self._count = self._trigger.topic, len(ends)
            kept = kept_partitions(self._trigger, topic, range(self._count))
            self._kept = [(topic, number) for number in kept]
        offsets = {key: PartitionOffsets(ends[key[1]], commits[key[1]]) for key in self._kept}
        reading, self._memory = read_lag(self._trigger, offsets, self._memory)
        return reading.metric, reading.is_active


class ScrapedLag:
    """Lag and arrivals as Prometheus has them, which scrapes the recorder: some seconds old."""

    def __init__(self, world: World) -> None:
        """Begin with a sample that has been there for long."""
        self._world = world
        self._at, self._lags, self._ends = [-inf], [0.0], [0.0]
        self._lags[0], self._ends[0] = self._totals()

    def sample(self) -> None:
        """Take the offsets of this instant; the recorder reads them now, and the scrape follows."""
        lag, end = self._totals()
        self._at.append(self._world.second + self._world.environment.scrape_delay_seconds)
        self._lags.append(lag)
        self._ends.append(end)

    def value_at(self, second: float, sampled: SampledLag) -> float:
        """Return the query's value at ``second``."""
        newest = bisect_right(self._at, second) - 1
        value = self._lags[newest] / sampled.backlog_seconds
        return value + self._rate(second, sampled.rate_seconds, newest)

    def _rate(self, second: float, over: int, newest: int) -> float:
        """Return PromQL's rate over the last seconds: the slope between the samples in them.

        It extends to the range's ends: by half an interval, if they are farther than 1.1 of it.
        """
        oldest = bisect_right(self._at, second - over) if over else newest
        if newest <= oldest:
            return 0.0
        covered = self._at[newest] - self._at[oldest]
        interval = covered / (newest - oldest)
        beyond = (self._at[oldest] - (second - over), second - self._at[newest])
        added = sum(one if one < 1.1 * interval else interval / 2 for one in beyond)
        return (self._ends[newest] - self._ends[oldest]) * (covered + added) / covered / over

    def _totals(self) -> tuple[float, float]:
        end, committed = self._world.offsets()
        return float(np.sum(end - committed)), float(np.sum(end))


class LagSampler:
    """The lag scaler's server, with the real windows and rule; it samples on its own clock."""

    def __init__(self, metadata: Mapping[str, str], world: World) -> None:
        """Read the object's settings; nothing is sampled yet."""
        self.settings = parse_lag_settings(metadata)
        self.window = GroupWindow(self.settings.rule.sampling_interval_seconds)
        rule = self.settings.rule
        self.rule = self.window.watch(rule)
        self._steps = SyncOnStep(rule) if rule.sync_on_step else None
        self._world = world

    def sample(self, on_step: Callable[[], object] = lambda: None) -> None:
        """Take in the offsets of this instant; ``on_step``: what a changed target causes."""
        end, committed = self._world.offsets()
        partitions = np.arange(end.size, dtype=np.int32)
        self.window.add(GroupSample(self._world.now_ns, partitions, end, committed))
        if self._steps is not None and self._steps.take(self.rule.decide(self._world.now_ns)):
            on_step()

    def read(self) -> tuple[float, bool]:
        """Return the decision of the newest sample; the server's errors are NotReady."""
        decision = self.rule.decide(self._world.now_ns)
        return decision.metric_value, decision.is_active
