"""The scaler's own figures for Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import Metric

from lag_scaler.metadata import LagSettings
from lag_scaler.rule import Decision, LagUnavailable
from lag_scaler.watched_rule import WatchedRule

# The aim is a p99 of 5 ms; what waits for a first sample takes up to 2.5 s.
_BUCKETS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)


class ScalerMetrics:
    """Counts what is served and sampled; what is only known at a scrape is collected then."""

    def __init__(self) -> None:
        """Begin at zero."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # spares a second series of each
        self.registry = CollectorRegistry(auto_describe=False)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"lagbench_scaler_{name}", text, labels, registry=self.registry)

        self.requests = counter(
            "requests", "Calls answered, by method and gRPC status code", "method", "code"
        )
        self.request_seconds = Histogram(
            "lagbench_scaler_request_seconds",
            "From a call's arrival to its answer; streams are not counted",
            ["method"],
            buckets=_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self.samples = counter(
            "samples", "Samples of one group and topic, by result", "cluster", "result"
        )
        self.decision_changes = counter(
            "decision_changes", "Times that an object became active or inactive", "to"
        )
        self.state_writes = counter("state_writes", "Attempts to write the state file", "result")

    def forget_cluster(self, name: str) -> None:
        """Drop the series of a cluster that is no longer sampled: callers name clusters."""
        for result in ("good", "failed"):
            with contextlib.suppress(KeyError):
                self.samples.remove(name, result)

    def collect_from(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Ask ``collect`` for more at each scrape."""
        self.registry.register(_Late(collect))

    def exposition(self) -> tuple[int, bytes]:
        """Answer a scrape."""
        return 200, generate_latest(self.registry)


class _Late:
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.collect = collect


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
        self.is_answered = asyncio.Event()
        """Set when a sample was taken, or at least tried, since the object is known."""
        self.now_ns, self._metrics = now_ns, metrics
        self._logged: tuple[bool, ...] | None = None

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
        group_topic = self.settings.group_topic
        about = {"object": self.name, "group": group_topic.group, "topic": group_topic.topic}
        try:
            decision = self.decision()
        except LagUnavailable as error:
            if self._logged != ():
                self._logged = ()
                _log.warning("no decision", **about, why=str(error))
                self._wake()
            return
        state = (decision.is_active, decision.is_persistent, decision.is_early)
        if state == self._logged:
            return
        if self._logged is not None and (*self._logged, False)[0] != decision.is_active:
            to = "active" if decision.is_active else "idle"
            self._metrics.decision_changes.labels(to).inc()
        self._logged = state
        _log.info("decision", **about, why=why(decision), **decision.log_fields())
        self._wake()

    def _wake(self) -> None:
        for listener in self.listeners:
            listener.set()


def why(decision: Decision) -> str:
    """Return in one sentence what a decision rests on."""
    rule = decision.rule
    limit = f"{rule.lag_threshold} {'s of age' if rule.lag_metric == 'seconds' else 'records'}"
    partition = decision.stretch_partition
    place = "the total" if partition is None else f"partition {partition}"
    said = f"nothing is at or above {limit} now"
    if decision.stretch_started_at_ns is not None:
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
