"""What a replay has found: decisions compared and different, and seconds of equal spec.replicas."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from lagbench.core.hpa.hpa_sync import HpaDecision
from tests.conformance.real_keda_trace import KedaMove, Line, Trace

SHARE_NEEDED = 0.99
# A move of KEDA's and ours are the same when they lie no further apart.
_MATCH_SECONDS = 2.0


@dataclass
class Outcome:
    """Counts of one trace; a disturbance is a read that the data leave open, and how it went."""

    name: str
    compared: int = 0
    differences: list[str] = field(default_factory=list)
    disturbances: list[str] = field(default_factory=list)
    seconds: int = 0
    seconds_equal: int = 0

    @property
    def share(self) -> float:
        """Return the share of seconds with equal spec.replicas."""
        return self.seconds_equal / self.seconds if self.seconds else 0.0

    @property
    def passes(self) -> bool:
        """Return whether the trace is reproduced."""
        return bool(self.compared) and not self.differences and self.share >= SHARE_NEEDED


@dataclass
class Replicas:
    """Our spec.replicas over time, and the moves that were KEDA's."""

    now: int
    history: list[tuple[float, int]]
    moves: list[KedaMove] = field(default_factory=list)

    def set(self, at: float, replicas: int) -> None:
        """Change spec.replicas."""
        if replicas != self.now:
            self.now = replicas
            self.history.append((at, replicas))

    def move(self, at: float, replicas: int) -> None:
        """Change spec.replicas as KEDA."""
        if replicas != self.now:
            self.moves.append(KedaMove(at, self.now, replicas))
        self.set(at, replicas)


def sync_difference(recorded: Line, decision: HpaDecision, before: int) -> str:
    """Return how our decision differs from the recorded one; empty when it does not."""
    if recorded["action"] == "error" and recorded.get("raw_proposal") is None:
        if decision.proposal is None and decision.replicas == before:
            return ""
        return f"recorded an error, computed {decision.replicas} (raw {decision.proposal})"
    raw, left = recorded.get("raw_proposal"), recorded.get("to", before)
    if decision.proposal == raw and decision.replicas == left:
        return ""
    return (
        f"recorded {recorded.get('frm', left)} -> {left} (raw {raw}), "
        f"computed {before} -> {decision.replicas} (raw {decision.proposal})"
        + (f": {decision.error}" if decision.error else "")
    )


def compare_moves(trace: Trace, moves: Sequence[KedaMove], outcome: Outcome) -> None:
    """Pair our moves with the recorded ones; each that stands alone is a difference."""
    ours = list(moves)
    for move in trace.keda_moves():
        outcome.compared += 1
        twins = (
            own
            for own in ours
            if own.after == move.after and abs(own.at - move.at) < _MATCH_SECONDS
        )
        twin = next(twins, None)
        if twin is None:
            text = f"KEDA moved {move.before} -> {move.after}, we did not"
            outcome.differences.append(f"{trace.label(move.at)}: {text}")
        else:
            ours.remove(twin)
    for move in ours:
        outcome.compared += 1
        text = f"we moved {move.before} -> {move.after}, KEDA did not"
        outcome.differences.append(f"{trace.label(move.at)}: {text}")


def compare_seconds(trace: Trace, replicas: Replicas, outcome: Outcome) -> None:
    """Count the samples, one a second, whose spec.replicas is ours."""
    instants = [at for at, _ in replicas.history]
    for line in trace.of_kind("sample"):
        recorded = line.get("spec_replicas")
        if recorded is None or line["t"] < instants[0]:
            continue
        first = max(bisect_right(instants, line["t"]) - 1, 0)
        last = max(bisect_right(instants, line.get("t_end") or line["t"]) - 1, 0)
        outcome.seconds += 1
        # The sample was taken somewhere between its two instants.
        possible = {replicas.history[place][1] for place in range(first, last + 1)}
        outcome.seconds_equal += recorded in possible
