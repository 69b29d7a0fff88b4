"""Have the HPA decide now: change the target by a thousandth when more pods are needed.

KEDA 2.21 rewrites the HPA when an ``external-push`` scaler streams another target, and Kubernetes
1.37 syncs an HPA at once whose spec has changed (gate ``HPAGeneration``). Until then the HPA reads
its metrics every 15 s. Up to Kubernetes 1.36 the changed target is only written.
"""

from __future__ import annotations

import math
from collections import deque

from lag_scaler.keda_values import NS_PER_SECOND
from lag_scaler.rule import SPAN_TOLERANCE_INTERVALS, Decision, LagRule

CHANGE = 0.001
"""KEDA writes targets in thousandths; an equal spec is not written, so it causes no sync."""
HPA_SYNC_SECONDS = 15.0
"""The HPA has read each value that stood for as long."""
HPA_TOLERANCE = 0.1
"""The HPA does nothing while the metric is that near to the target."""


class SyncOnStep:
    """Alternates between two targets; a change follows a step of the metric, never calm lag.

    The metric takes a step where it requests more pods than the HPA is known to have read, and
    more than the floor, beyond the tolerance. The HPA has surely read the least value of one sync
    period. Samples come early by milliseconds: a distance is reached half an interval before.
    """

    def __init__(self, rule: LagRule) -> None:
        """Take the rule's floor and the distance that it keeps between two changes."""
        early = SPAN_TOLERANCE_INTERVALS * rule.sampling_interval_seconds
        self._distance_ns = round((rule.sync_distance_seconds - early) * NS_PER_SECOND)
        self._floor = rule.sync_floor
        self._changed_at_ns: int | None = None
        self._read: deque[tuple[int, float]] = deque()
        self.added = 0.0
        """Zero or ``CHANGE``, as the target has it at present."""
        self.sent = 0.0
        """``added`` as a stream last received it."""

    def take(self, decision: Decision) -> bool:
        """Take a sample's decision; return whether the target has changed."""
        at_ns, pods = decision.figures.at_ns, decision.metric_value / decision.target
        began_ns = at_ns - round(HPA_SYNC_SECONDS * NS_PER_SECOND)
        # The newest value that is older stood until the next sample.
        while len(self._read) > 1 and self._read[1][0] <= began_ns:
            self._read.popleft()
        known = max(self._floor, math.ceil(min((value for _, value in self._read), default=pods)))
        is_late = self._changed_at_ns is None or at_ns - self._changed_at_ns >= self._distance_ns
        is_step = pods > known * (1 + HPA_TOLERANCE) and is_late
        if is_step:
            self._read.clear()
            self._changed_at_ns = at_ns
            # Two changes while no stream is open must not make what the HPA has already.
            self.added = CHANGE - self.sent
        self._read.append((at_ns, pods))
        return is_step
