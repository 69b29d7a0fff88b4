"""KEDA and the HPA over the simulated world, put together from a policy as the live ones are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lagbench.core.hpa import HpaSpec, parse_hpa
from lagbench.core.keda.loop import KedaObject, Scaler, TargetView, build_hpa
from lagbench.core.keda.object import ScaledObjectSpec, Trigger
from lagbench.core.keda.triggers import ExternalTrigger
from lagbench.core.kubernetes import HPA_SYNC_SECONDS
from lagbench.core.policy import CheckedPolicy
from lagbench.core.simulation.clocks import SimulatedClock
from lagbench.core.simulation.lag_sampler import LagSampler, LagScaler
from lagbench.core.simulation.scraped_lag import ScrapedLag
from lagbench.core.simulation.simulated_hpa import SimulatedHpa
from lagbench.core.simulation.simulated_scalers import build_scaler
from lagbench.core.simulation.world import World
from lagbench.errors import NotReady


class SimulatedAutoscaler:
    """The clocks that act on one workload; ``wish`` is the HPA's last proposal."""

    def __init__(
        self,
        policy: CheckedPolicy,
        world: World,
        random: np.random.Generator,
    ) -> None:
        """Put the policy in force at the present instant of ``world``."""
        self._world, self._random = world, random
        self._spec = policy.spec
        self._samplers: dict[str, LagSampler] = {}
        self._scraped: ScrapedLag | None = None
        self._keda: KedaObject | None = None
        self._hpa: SimulatedHpa | None = None
        self.clocks: list[SimulatedClock] = []
        self.wish: int | None = None
        self.is_down = False  # an action has taken it away
        self._tolerance = policy.limits.flags.tolerance
        # All phases are drawn, wanted or not: the same seed gives every policy the same ones.
        hpa_phase, keda_phase, self._sampler_phase = random.uniform(size=3)
        spec = policy.spec
        if isinstance(spec, HpaSpec):
            self._start_hpa(spec)
        else:
            self._start_keda(spec, policy, float(keda_phase))
        if self._hpa is not None:
            period, known_at = (
                self._period_seconds(policy.limits.flags.sync_seconds),
                world.environment.hpa_sync_at_seconds,
            )
            wait = float(hpa_phase) * period
            if known_at is not None:
                wait = (known_at - world.second) % period
            self._clock(wait, period, self._sync, is_shown=True)

    def take_over(self, before: SimulatedAutoscaler) -> None:
        """Follow ``before``: of two ScaledObjects of one workload KEDA updates the one HPA."""
        is_one_object = self._keda is not None and before._keda is not None
        if is_one_object and self._hpa is not None and before._hpa is not None:
            self._hpa.take_over(before._hpa)

    def restart(self) -> None:
        """Start the process again, without a memory."""
        if self._hpa is not None:
            self._hpa.forget()
        if self._keda is not None and isinstance(self._spec, ScaledObjectSpec):
            self._keda = KedaObject(self._spec, self._build, created_at_ns=self._world.now_ns)

    def _start_keda(self, spec: ScaledObjectSpec, policy: CheckedPolicy, phase: float) -> None:
        world, annotations = self._world, spec.annotations
        if annotations.is_paused:
            if annotations.paused_replicas is not None:
                world.fleet.set_replicas(annotations.paused_replicas, world.second, "keda")
            return
        self._keda = KedaObject(spec, self._build, created_at_ns=world.now_ns)
        metadata = {"uid": "simulated", **(policy.manifest.get("metadata") or {})}
        manifest = build_hpa(spec, metadata, self._keda.metric_specs())
        self._start_hpa(parse_hpa(manifest, where=policy.where))
        period = float(spec.polling_interval_seconds)
        self._clock(phase * period, period, self._tick)

    def _start_hpa(self, spec: HpaSpec) -> None:
        self._hpa = SimulatedHpa(spec, self._world, self._read_external, tolerance=self._tolerance)

    def _period_seconds(self, own: float | None) -> float:
        """Return the time between two syncs; one of the policy's own takes its work, too."""
        period = self._world.environment.hpa_sync_seconds
        return period if own is None else own + period - HPA_SYNC_SECONDS

    def _clock(
        self,
        after_seconds: float,
        period: float,
        act: Callable[[], None],
        *,
        is_shown: bool = False,
    ) -> None:
        first_at = self._world.second + after_seconds
        self.clocks.append(SimulatedClock(first_at, period, act, is_shown))

    def _build(self, trigger: Trigger) -> Scaler:
        return build_scaler(trigger, self._world, self._external, self._scraped_lag)

    def _external(self, trigger: Trigger, parameters: ExternalTrigger) -> Scaler:
        """Return a client of the lag scaler; the server's windows outlive its clients."""
        key = f"{trigger.index}"
        if key not in self._samplers:
            sampler = LagSampler(parameters.metadata, self._world)
            self._samplers[key] = sampler
            period = sampler.interval_seconds
            self._clock(float(self._sampler_phase) * period, period, sampler.sample)
        return LagScaler(trigger, self._samplers[key], self._world)

    def _scraped_lag(self) -> ScrapedLag:
        """Return Prometheus' samples, which all triggers and all their scalers share."""
        if self._scraped is None:
            self._scraped = ScrapedLag(self._world)
            period = self._world.environment.scrape_seconds
            self._clock(float(self._sampler_phase) * period, period, self._scraped.sample)
        return self._scraped

    def _read_external(self, metric_name: str, target: TargetView) -> int:
        if self._keda is None:
            raise NotReady(f"no ScaledObject serves the metric {metric_name}")
        return self._keda.read_for_hpa(metric_name, target)

    def _sync(self) -> None:
        if self._hpa is not None and not self.is_down:
            self.wish = self._hpa.sync().proposal

    def _tick(self) -> None:
        """Do one round of KEDA's scale loop; scalers that cannot be built leave it at that."""
        world = self._world
        if self._keda is None or self._hpa is None or self.is_down:
            return
        try:
            tick = self._keda.tick(world.target(), world.now_ns, is_hpa_active=self._hpa.is_active)
        except NotReady:
            return
        if tick.decision.replicas is not None:
            world.fleet.set_replicas(tick.decision.replicas, world.second, "keda")
