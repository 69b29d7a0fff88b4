"""Closed-loop replay of a trace: our KEDA and our HPA on the recorded inputs and clocks.

Inputs are the lag, the brokers, the external values and the steps. Taken from the trace besides:
when the HPA synced (since Kubernetes 1.37 also at once when its spec changed: HPAGeneration), when
KEDA polled, when HPA objects came and went, when an accepted change reached the HPA, when a move of
KEDA's arrived at the Deployment, and the pods (status.replicas, ready, CPU). spec.replicas is ours
from the first instant to the last; nothing resets it.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar

from lagbench.core.hpa.hpa_sync import HpaDecision
from lagbench.core.keda.loop.keda_runtime import KedaObject, Tick
from lagbench.core.keda.loop.scalers import ScalersNotBuilt, TargetView
from lagbench.core.kubernetes_values import NS_PER_SECOND
from tests.conformance.real_keda_clocks import poll_times
from tests.conformance.real_keda_hpa import ReplayedHpa, StatusTimeline
from tests.conformance.real_keda_inputs import World
from tests.conformance.real_keda_object import ReplayedObject
from tests.conformance.real_keda_outcome import (
    Outcome,
    Replicas,
    compare_moves,
    compare_seconds,
    sync_difference,
)
from tests.conformance.real_keda_scalers import TraceScalers
from tests.conformance.real_keda_trace import KedaMove, Line, Trace, hand_scaling

# A read ends with the logged sync, or begins with the poll; it takes some milliseconds.
_READ_SECONDS = 0.03
# Within this time a move of KEDA's arrives at the Deployment (its API client is rate-limited).
_MOVE_SECONDS = 5.0
# A pause reaches the target when the operator, itself rate-limited, reconciles the object.
_RECONCILE_SECONDS = 15.0
# Watches tell of a change within this time of when others could see it.
_WATCH_SECONDS = 0.1
# A test object that the operator could not decode kept it from listing ScaledObjects (the third
# disturbance in the README of the feature traces: batch 2, +29..+64 s and +260..+290 s); its next
# attempt comes after a delay that has grown to as much as a minute by then.
_BATCH_2, _RELIST_SECONDS = 1795254246.0, 60.0
_BLIND = tuple(
    (_BATCH_2 + since, _BATCH_2 + until + _RELIST_SECONDS)
    for since, until in ((29, 64), (260, 290))
)
_Result = TypeVar("_Result")
_Act = Callable[[KedaObject, ReplayedHpa], _Result]


class Replay:
    """One trace, replayed once."""

    def __init__(self, trace: Trace) -> None:
        """Prepare the world, the object as applied, and the events in their order."""
        self._trace = trace
        self._world = World(trace)
        self._object = ReplayedObject(trace, TraceScalers(trace, self._world))
        self._original = int(trace.deployment["spec"].get("replicas", 1))
        self._replicas = Replicas(self._original, [(trace.applied_at, self._original)])
        self._recorded_moves = trace.keda_moves()
        self._status = StatusTimeline(trace)
        self._polls = poll_times(trace)
        self._done_polls: set[float] = set()
        self._before_poll: tuple[float, KedaObject, ReplayedHpa] | None = None
        self._on_the_way: tuple[float, int] = (0.0, 0)
        self._activity: list[tuple[float, int | None]] = []
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self.outcome = Outcome(trace.name)

    def run(self) -> Outcome:
        """Replay and compare."""
        self._schedule()
        while self._events:
            at, _, act = heapq.heappop(self._events)
            self._world.advance(at)
            act(at)
        compare_moves(self._trace, self._replicas.moves, self.outcome)
        compare_seconds(self._trace, self._replicas, self.outcome)
        return self.outcome

    def _at(self, at: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (at, next(self._order), act))

    def _schedule(self) -> None:
        self._schedule_object()
        for at in self._polls:
            self._at(at, self._poll)
        for at in self._world.pushes():
            self._at(at, self._push)
        for sync in self._trace.syncs:
            if sync["action"] != "hpa_deleted":
                self._at(sync["t"], lambda at, recorded=sync: self._sync(at, recorded))

    def _schedule_object(self) -> None:
        trace = self._trace
        self._at(trace.applied_at, self._go_to_paused_count)
        for line in trace.of_kind("step"):
            if (replicas := hand_scaling(line)) is not None:
                self._at(line["t"], lambda at, n=replicas: self._replicas.set(at, n))
            elif line["op"] == "delete":
                self._at(line["t"], self._delete)
        for at, spec in trace.later_specs():
            self._at(at, lambda _, new=spec: self._object.take_spec(new))
        for at, given in trace.annotation_changes():
            self._at(at, lambda at, new=given: self._annotate(at, new))
        for life in trace.hpa_lives():
            self._at(life.created_at, self._create_hpa)
            for updated_at in life.updated_at:
                self._at(updated_at, self._update_hpa)
            if life.deleted_at is not None:
                self._at(life.deleted_at, self._end_hpa)

    # What happens to the object

    def _create_hpa(self, at: float) -> None:
        self._expect_hpa(at, self._object.create_hpa())

    def _update_hpa(self, at: float) -> None:
        self._expect_hpa(at, self._object.update_hpa())

    def _expect_hpa(self, at: float, problem: str) -> None:
        if problem:
            self._differ(at, problem)

    def _annotate(self, at: float, annotations: Line | None) -> None:
        self._object.annotate(annotations)
        if self._object.hpa is None:
            self._go_to_paused_count(at)

    def _end_hpa(self, at: float) -> None:
        self._object.end_hpa()
        self._go_to_paused_count(at)

    def _go_to_paused_count(self, at: float) -> None:
        paused = self._object.annotations
        if paused.is_paused and paused.paused_replicas is not None:
            self._move(at, paused.paused_replicas, within=_RECONCILE_SECONDS)

    def _delete(self, at: float) -> None:
        if self._object.delete(at):
            self._move(at, self._original)

    # The loop

    def _target(self, at: float) -> TargetView:
        return TargetView(self._replicas.now, *self._status.at(at))

    def _poll(self, at: float) -> None:
        keda, hpa = self._object.keda, self._object.hpa
        if keda is None or hpa is None or at in self._done_polls:
            return
        if keda.spec.annotations.is_paused:
            return
        if self._near(at, [sync["t"] for sync in self._trace.syncs]):
            self._before_poll = (at, *copy.deepcopy((keda, hpa)))
        blind_since = next((since for since, until in _BLIND if since <= at <= until), None)
        spare = copy.deepcopy(keda) if blind_since is not None else None
        fits = self._fits_move(at)
        result = self._try(at, at + _READ_SECONDS, lambda k, h: self._tick(k, h, at), fits)
        if spare is not None and blind_since is not None and not fits(result):
            result = self._tick_blindly(at, spare, blind_since) or result
        self._act_on(at, result)

    def _push(self, at: float) -> None:
        keda = self._object.keda
        pushing = [
            trigger.index
            for trigger in (keda.spec.triggers if keda is not None else ())
            if trigger.type == "external-push"
        ]
        for index in pushing:
            if keda is not None:
                tick = keda.push(index, self._target(at), int(at * NS_PER_SECOND))
                self._act_on(at, tick)

    def _tick(self, keda: KedaObject, hpa: ReplayedHpa, at: float) -> Tick | None:
        now_ns = int(at * NS_PER_SECOND)
        try:
            return keda.tick(self._target(at), now_ns, is_hpa_active=hpa.is_active)
        except ScalersNotBuilt:
            return None

    def _recorded_move(self, at: float, within: float = _MOVE_SECONDS) -> KedaMove | None:
        """Return the recorded move that a poll may have made, unless it is the next poll's."""
        later = bisect_right(self._polls, at)
        until = at + within
        if later < len(self._polls):
            until = min(until, self._polls[later] - _WATCH_SECONDS)
        return next((m for m in self._recorded_moves if at - 0.1 <= m.at <= until), None)

    def _fits_move(self, at: float) -> Callable[[Tick | None], bool]:
        wanted = self._recorded_move(at)

        def fits(result: Tick | None) -> bool:
            move = None if result is None else result.decision.replicas
            return move == (None if wanted is None else wanted.after)

        return fits

    def _tick_blindly(self, at: float, keda: KedaObject, since: float) -> Tick | None:
        """Poll with the lastActiveTime that the operator still had; None when that explains naught.

        While the operator cannot list ScaledObjects, its copy of their status stands still.
        """
        real, hpa = keda.last_active_at_ns, self._object.hpa
        known = [stamp for when, stamp in self._activity if when <= since]
        stale = known[-1] if known else None
        keda.last_active_at_ns = stale
        result = None if hpa is None else self._tick(keda, hpa, at)
        if result is None or not self._fits_move(at)(result):
            return None
        if keda.last_active_at_ns == stale:
            keda.last_active_at_ns = real
        self._object.keda = keda
        self._disturbed(at, "the operator could not list ScaledObjects, its lastActiveTime was old")
        return result

    def _act_on(self, at: float, result: Tick | None) -> None:
        if self._object.keda is not None:
            self._activity.append((at, self._object.keda.last_active_at_ns))
        if result is not None and result.decision.replicas is not None:
            self._move(at, result.decision.replicas)

    def _move(self, at: float, replicas: int, within: float = _MOVE_SECONDS) -> None:
        """Let a move of KEDA's arrive when the recorded one did, if there is the same."""
        wanted = self._recorded_move(at, within)
        arrives = wanted.at if wanted is not None and wanted.after == replicas else at
        arrives = max(at, arrives)
        self._on_the_way = (arrives, replicas)
        self._at(arrives, lambda when: self._replicas.move(when, replicas))

    # The HPA

    def _sync(self, at: float, recorded: Line) -> None:
        self.outcome.compared += 1
        keda, hpa = self._object.keda, self._object.hpa
        if keda is None or hpa is None or hpa.spec is None:
            self._differ(at, "the HPA synced, but there is none here")
            return
        target, done_at = self._target(at), float(recorded.get("t_done") or at)

        def sync(keda: KedaObject, hpa: ReplayedHpa) -> HpaDecision:
            return hpa.sync(keda, target, at, done_at)

        def fits(result: HpaDecision | None) -> bool:
            return result is not None and not sync_difference(
                recorded, result, target.spec_replicas
            )

        others = self._targets_around(at)
        is_close = bool(others or self._near(at, self._polls))
        spare = copy.deepcopy((keda, hpa)) if is_close else None
        decision = self._try(at - _READ_SECONDS, at, sync, fits)
        if spare is not None and not fits(decision) and self._near(at, self._polls):
            decision = self._sync_in_other_order(at, spare, sync, fits) or decision
        for other in others if spare is not None and not fits(decision) else ():
            target = other
            twin, twin_hpa = copy.deepcopy(spare)
            again = sync(twin, twin_hpa)
            if fits(again):
                self._object.keda, self._object.hpa, decision = twin, twin_hpa, again
                self._disturbed(at, "replicas or pods changed at the instant of the sync")
                break
        if decision is None:
            return
        if problem := sync_difference(recorded, decision, target.spec_replicas):
            self._differ(at, f"HPA sync: {problem}")
        if decision.replicas != target.spec_replicas:
            self._replicas.set(done_at, decision.replicas)

    def _targets_around(self, at: float) -> list[TargetView]:
        """Return what else the HPA may have seen of the target: watches tell a little late."""
        status = self._status.at(at)
        views = [
            TargetView(self._replicas.now, *other)
            for other in self._status.around(at, _WATCH_SECONDS)
        ]
        if 0 <= self._on_the_way[0] - at <= _WATCH_SECONDS:
            views.append(TargetView(self._on_the_way[1], *status))
        history = self._replicas.history
        if len(history) > 1 and at - history[-1][0] <= _WATCH_SECONDS:
            views.append(TargetView(history[-2][1], *status))
        return views

    def _sync_in_other_order(
        self,
        at: float,
        spare: tuple[KedaObject, ReplayedHpa],
        sync: _Act[HpaDecision],
        fits: Callable[[HpaDecision | None], bool],
    ) -> HpaDecision | None:
        """Exchange a sync with the poll that ran at the same time; None when that does not fit."""
        keda, hpa = spare
        poll = self._near(at, self._polls)[0]
        if poll <= at and self._before_poll is not None and self._before_poll[0] == poll:
            _, keda, hpa = self._before_poll
            decision = sync(keda, hpa)
            tick = None
            self._tick(keda, hpa, poll)
        else:
            tick = self._tick(keda, hpa, poll)
            decision = sync(keda, hpa)
        if not fits(decision):
            return None
        self._object.keda, self._object.hpa = keda, hpa
        if tick is not None:
            self._done_polls.add(poll)
            self._act_on(poll, tick)
        self._disturbed(at, "the HPA's read and KEDA's poll ran at the same time")
        return decision

    def _try(
        self, begin: float, end: float, act: _Act[_Result], fits: Callable[[_Result], bool]
    ) -> _Result | None:
        """Act on what is known, or on what a read at the edge of a change may have seen instead."""
        keda, hpa = self._object.keda, self._object.hpa
        if keda is None or hpa is None:
            return None
        others = self._world.alternatives(begin, end)
        if not others:
            return act(keda, hpa)
        known, tried = self._world.now, []
        for note, inputs in [("", known), *others]:
            twin, twin_hpa = copy.deepcopy((keda, hpa))
            self._world.now = inputs
            result = act(twin, twin_hpa)
            self._world.now = known
            tried.append((result, twin, twin_hpa))
            if fits(result):
                if note:
                    self._disturbed(end, note)
                break
        else:
            result, twin, twin_hpa = tried[0]
        self._object.keda, self._object.hpa = twin, twin_hpa
        return result

    def _near(self, at: float, instants: list[float]) -> list[float]:
        return [other for other in instants if abs(other - at) <= _READ_SECONDS]

    def _differ(self, at: float, text: str) -> None:
        self.outcome.differences.append(f"{self._trace.label(at)}: {text}")

    def _disturbed(self, at: float, text: str) -> None:
        self.outcome.disturbances.append(f"{self._trace.label(at)}: {text}")
