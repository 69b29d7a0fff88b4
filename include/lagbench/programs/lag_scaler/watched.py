"""One object that KEDA asks about: its settings, its decision, and who waits for news of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import NamedTuple

import structlog

from lagbench.core.explain import Step, explain
from lagbench.core.lag_scaler import Decision, LagSettings, LagUnavailable, WatchedRule
from lagbench.programs.lag_scaler.calls import Calls
from lagbench.programs.lag_scaler.metrics import ScalerMetrics

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class _State(NamedTuple):
    """The state whose changes are logged; the metric's value changes with every sample."""

    is_available: bool
    is_active: bool
    is_persistent: bool
    is_early: bool


class Watched:
    """Belongs to the event loop; ``rule`` is set by the sampling thread, once.

    A call costs one look at the rule's decision, which the sampling thread replaces as a whole
    after each sample.
    """

    def __init__(
        self,
        name: str,
        settings: LagSettings,
        *,
        now_ns: Callable[[], int],
        metrics: ScalerMetrics,
    ) -> None:
        """Watch the object ``name`` (namespace/name)."""
        self.name, self.settings = name, settings
        self.rule: WatchedRule | None = None
        self.listeners: set[asyncio.Event] = set()
        self.calls = Calls()
        self._now_ns, self._metrics = now_ns, metrics
        self._answered = asyncio.Event()
        self._state: _State | None = None

    @property
    def has_answer(self) -> bool:
        """Return whether a sample was taken, or at least tried, since the object is known."""
        return self._answered.is_set()

    async def first_answer(self, within_seconds: float) -> None:
        """Wait for the first sample; afterwards ``decision`` has something to say."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), within_seconds)

    def decision(self) -> Decision:
        """Return what the newest sample says.

        :raises LagUnavailable: there is none, or it is too old.
        """
        if self.rule is None or (self.rule.decision is None and not self.has_answer):
            raise LagUnavailable(
                f"no sample of group {self.settings.group_topic.group} yet: "
                f"{self.settings.source.name} has not answered a request for one"
            )
        return self.rule.decide(self._now_ns())

    def steps(self) -> tuple[Step, ...]:
        """Return how the decision came about.

        :raises LagUnavailable: there is none.
        """
        return explain(self.decision(), self._now_ns())

    def log_news(self) -> None:
        """Look at what a sample, or the lack of one, has changed; log it and wake the streams."""
        self._answered.set()
        decision, reason = None, ""
        try:
            decision = self.decision()
        except LagUnavailable as error:
            reason = str(error)
        state = _State(
            decision is not None,
            decision is not None and decision.is_active,
            decision is not None and decision.is_persistent,
            decision is not None and decision.is_early,
        )
        if state == self._state:
            return
        self._log_change(self._state, state, decision, reason)
        self._state = state
        for listener in self.listeners:
            listener.set()

    def _log_change(
        self, before: _State | None, after: _State, decision: Decision | None, reason: str
    ) -> None:
        about = {"object": self.name, "group": self.settings.group_topic.group}
        about["topic"] = self.settings.group_topic.topic
        if decision is None:
            _log.warning("no decision", **about, why=reason)
            return
        if before is not None and before.is_active != after.is_active:
            self._metrics.decision_changes.labels("active" if after.is_active else "idle").inc()
        _log.info("decision", **about, why=why(decision), **decision.log_fields())


def why(decision: Decision) -> str:
    """Return in one sentence what a decision rests on."""
    rule, unit = decision.rule, "s of age" if decision.rule.lag_metric == "seconds" else "records"
    limit = f"{rule.lag_threshold} {unit}"
    place = "the total"
    if decision.stretch_partition is not None:
        place = f"partition {decision.stretch_partition}"
    if decision.stretch_started_at_ns is None:
        said = f"nothing is at or above {limit} now"
    else:
        said = (
            f"{place} has been at or above {limit} for {decision.span_seconds:.1f} s "
            f"of {rule.sustain_seconds:g} s"
        )
    if decision.is_early:
        said += ", and at the measured rates it cannot be drained before"
    counts = decision.is_persistent or decision.is_early
    if counts and not decision.is_active and not decision.is_held:
        said += f"; the lag does not exceed activationLagThreshold {rule.activation_lag_threshold}"
    if decision.is_held:
        said += f"; stabilisation serves {decision.metric_value:g}, not {decision.raw_metric:g}"
    return said
