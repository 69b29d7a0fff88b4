"""One object that KEDA asks about: how often, and what the newest sample says of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from prometheus_client import Counter

from lag_scaler.explain import explain
from lag_scaler.metadata import LagSettings
from lag_scaler.rule import Decision, LagUnavailable
from lag_scaler.sync_on_step import SyncOnStep
from lag_scaler.window import WatchedRule

KEPT_DISTANCES = 2.5
"""An object is kept for this number of its longest distances: one call may be lost."""
LONGEST_DISTANCE_SECONDS = 4 * 3600.0
"""A call that comes later is that of a new object of the same name."""
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(slots=True)
class Calls:
    """The newest call and the longest distance between two, in seconds of the monotonic clock.

    KEDA asks once per ``pollingInterval`` while the workload has no replicas, and that may be
    longer than the idle time. An object dropped between two calls never has lag that persists.
    """

    last_at: float | None = None
    longest_seconds: float = 0.0

    def take(self, now: float) -> None:
        """Note a call."""
        distance_seconds = 0.0 if self.last_at is None else now - self.last_at
        if distance_seconds <= LONGEST_DISTANCE_SECONDS:
            self.longest_seconds = max(self.longest_seconds, distance_seconds)
        self.last_at = now

    def have_ended(self, now: float, *, idle_seconds: float) -> bool:
        """Return whether the next call is overdue."""
        kept_seconds = max(idle_seconds, KEPT_DISTANCES * self.longest_seconds)
        return self.last_at is not None and now - self.last_at > kept_seconds


class Watched:
    """Belongs to the event loop; ``rule`` is set by the sampling thread, once.

    A call costs one look at the rule's decision, which the sampling thread replaces as a whole
    after each sample.
    """

    def __init__(
        self, name: str, settings: LagSettings, *, now_ns: Callable[[], int], changes: Counter
    ) -> None:
        """Watch the object ``name`` (namespace/name); ``changes`` counts those of its activity."""
        self.name, self.settings = name, settings
        self.rule: WatchedRule | None = None
        self.listeners: set[asyncio.Event] = set()
        self.calls = Calls()
        self.is_answered = asyncio.Event()
        """Set when a sample was taken, or at least tried, since the object is known."""
        self.now_ns, self._changes = now_ns, changes
        self._logged: tuple[bool, ...] | None = None
        rule = settings.rule
        self._steps = SyncOnStep(rule) if rule.sync_on_step else None

    @property
    def target(self) -> float:
        """Return the target per replica, as it is sent at present."""
        return self.settings.target + (0.0 if self._steps is None else self._steps.added)

    def send_target(self) -> float:
        """Return the target, and note that a stream receives it: KEDA then writes the HPA."""
        if self._steps is not None:
            self._steps.sent = self._steps.added
        return self.target

    @property
    def sent_change(self) -> float:
        """Return by how much KEDA's target exceeds that of the settings; the state file has it."""
        return 0.0 if self._steps is None else self._steps.sent

    @sent_change.setter
    def sent_change(self, change: float) -> None:
        if self._steps is not None:
            self._steps.sent = self._steps.added = change

    async def first_answer(self, within_seconds: float) -> None:
        """Wait for the first sample; afterwards ``decision`` has something to say."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.is_answered.wait(), within_seconds)

    def decision(self) -> Decision:
        """Return what the newest sample says.

        :raises LagUnavailable: there is none, or it is too old.
        """
        if self.rule is None or (self.rule.decision is None and not self.is_answered.is_set()):
            raise LagUnavailable(
                f"no sample of group {self.settings.group_topic.group} yet: "
                f"{self.settings.source.name} has not answered a request for one"
            )
        return self.rule.decide(self.now_ns())

    def log_news(self) -> None:
        """Look at what a sample, or the lack of one, has changed; log it and wake the streams."""
        self.is_answered.set()
        state: tuple[bool, ...] = ()
        has_step = False
        told: dict[str, object]
        try:
            decision = self.decision()
        except LagUnavailable as error:
            event, told = "no decision", {"why": str(error)}
        else:
            state = (decision.is_active, decision.is_persistent, decision.is_early)
            has_step = self._steps is not None and self._steps.take(decision)
            steps = explain(decision, self.now_ns())
            event = "decision"
            told = {
                "is_active": decision.is_active,
                "metric_value": decision.metric_value,
                "sample_at_ns": decision.figures.at_ns,
                "stretch_seconds": round(decision.span_seconds, 3),
                "why": "; ".join(f"{step.name}: {step.seen}: {step.result}" for step in steps),
            }
        if has_step:
            _log.info("target changed: the HPA is to sync now", object=self.name, **told)
            self._wake()
        if state == self._logged:
            return
        if state and self._logged is not None and (*self._logged, False)[0] != state[0]:
            self._changes.labels("active" if state[0] else "idle").inc()
        self._logged = state
        group_topic = self.settings.group_topic
        log = _log.info if state else _log.warning
        log(event, **told, object=self.name, group=group_topic.group, topic=group_topic.topic)
        self._wake()

    def _wake(self) -> None:
        for listener in self.listeners:
            listener.set()
