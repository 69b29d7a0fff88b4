"""When KEDA's scale loop polled in a trace, from the traces that its polls have left.

The loop starts when its HPA has been created, and again with each generation of the object. From
there it polls every pollingInterval; a poll that wrote something (lastActiveTime, the activity of a
trigger, spec.replicas) shows where the grid really was, and the grid is moved there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf

from tests.conformance.real_keda_trace import Line, Trace

# A poll's first write is seen about this much after the poll began.
_WRITE_DELAY_SECONDS = 0.01
_ORDER_SECONDS = 0.001
_RECONCILE_SECONDS = 0.05
# How far a poll that wrote something may lie from where the grid has it.
_EARLY_SECONDS, _LATE_SECONDS = 0.3, 0.9
# Polls on either side whose writes also bound a poll.
_NEIGHBOURS = 3


@dataclass(frozen=True, slots=True)
class LoopLife:
    """One run of the scale loop: from its first poll until it was stopped."""

    started_at: float
    stopped_at: float


def poll_times(trace: Trace) -> list[float]:
    """Return the instants of all polls."""
    intervals = {0.0: _polling_seconds(trace.scaled_object["spec"])}
    intervals |= {at: _polling_seconds(spec) for at, spec in trace.later_specs()}
    evidence = sorted(_evidence(trace))
    polls: list[float] = []
    for life in _loop_lives(trace):
        interval = intervals[max(since for since in intervals if since <= life.started_at)]
        polls += _grid(_moved_to_writes(life, interval, evidence), interval, evidence)
    return polls


def _polling_seconds(spec: Line) -> float:
    return float(spec.get("pollingInterval") or 30)


def _moved_to_writes(life: LoopLife, interval: float, evidence: list[float]) -> LoopLife:
    """Return a loop that starts where most of its writes say, if they say so together.

    An API client at its rate limit can hold back the start itself by seconds.
    """
    phases = [
        (at - life.started_at + _EARLY_SECONDS) % interval - _EARLY_SECONDS
        for at in evidence
        if life.started_at <= at < life.stopped_at
    ]

    def together(phase: float) -> int:
        return sum(0 <= other - phase <= _EARLY_SECONDS for other in phases)

    at_start = sum(other <= _LATE_SECONDS for other in phases)
    best = max(sorted(phases), key=together, default=0.0)
    if at_start >= together(best) or together(best) < _NEIGHBOURS:
        return life
    return replace(life, started_at=life.started_at + best - _WRITE_DELAY_SECONDS)


def _grid(life: LoopLife, interval: float, evidence: list[float]) -> list[float]:
    """Return the polls of one loop: never later than what they and their neighbours wrote."""
    count = max(ceil((life.stopped_at - life.started_at) / interval), 0)
    late: list[float | None] = []
    drift = 0.0
    for number in range(count):
        nominal = life.started_at + number * interval
        near = [
            at - nominal
            for at in evidence
            if -_EARLY_SECONDS <= at - nominal - drift <= _LATE_SECONDS
        ]
        late.append(near[0] - _WRITE_DELAY_SECONDS if near else None)
        drift = min([value for value in late[-_NEIGHBOURS:] if value is not None], default=drift)
    polls = []
    for number in range(count):
        around = late[max(number - _NEIGHBOURS, 0) : number + _NEIGHBOURS + 1]
        known = [value for value in around if value is not None]
        earlier = [value for value in late[:number] if value is not None]
        # Timers run late by milliseconds at a time; a write can be late by seconds.
        shift = min(known) if known else (earlier[-1] if earlier else 0.0)
        polls.append(max(life.started_at + number * interval + shift, life.started_at))
    return polls


def _loop_lives(trace: Trace) -> list[LoopLife]:
    starts = sorted({*_new_loops(trace), *_new_generations(trace)})
    stops = sorted(
        [life.deleted_at for life in trace.hpa_lives() if life.deleted_at is not None]
        + [line["t"] for line in trace.watched("event") if line["reason"] == "KEDAScalersStopped"]
    )
    end = trace.lines[-1].get("t", starts[-1] if starts else 0.0)
    lives = []
    for place, start in enumerate(starts):
        after = starts[place + 1] if place + 1 < len(starts) else end
        stop = next((at for at in stops if at > start), end)
        lives.append(LoopLife(start, min(after, stop)))
    return lives


def _new_loops(trace: Trace) -> Iterator[float]:
    """Yield the start of the loop of each HPA."""
    reported = [
        line["t"] for line in trace.watched("event") if line["message"] == "Started scalers watch"
    ]
    for life in trace.hpa_lives():
        following = [at for at in reported if at >= life.created_at - 0.2]
        is_reported = bool(following) and following[0] - life.created_at < 10
        start = following[0] if is_reported else life.created_at + _WRITE_DELAY_SECONDS
        # Watches of different objects are not ordered among each other.
        yield max(start, life.created_at + _ORDER_SECONDS)


def _new_generations(trace: Trace) -> Iterator[float]:
    """Yield the start of the loop of each later generation: it comes once the HPA is up to date."""
    lives = trace.hpa_lives()
    for at, _ in trace.later_specs():
        if any(life.created_at <= at < (life.deleted_at or inf) for life in lives):
            yield at + _RECONCILE_SECONDS


def _evidence(trace: Trace) -> Iterator[float]:
    yield from (move.at for move in trace.keda_moves())
    before: tuple[object, object, object] | None = None
    for line in trace.watched("so"):
        active = next(
            (item for item in line.get("conditions") or [] if item.startswith("Active=")), ""
        )
        reported = (line.get("lastActiveTime"), str(line.get("triggersActivity")), active)
        # A reconcile, not a poll, writes Unknown.
        if before is not None and reported != before and not active.startswith("Active=Unknown"):
            yield line["t"]
        before = reported
