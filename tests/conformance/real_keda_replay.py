"""Closed-loop replay of a trace: our KEDA and our HPA on the recorded inputs and clocks.

Inputs are the lag, the brokers, the external values and the steps. Taken from the trace besides:
when the HPA synced, when KEDA polled, when HPA objects came and went, when an accepted change
reached the HPA, when a move of KEDA's arrived at the Deployment, and the pods (status.replicas,
ready, CPU). spec.replicas is ours from the first instant to the last; nothing resets it.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.hpa import HpaDecision
from lagbench.core.hpa_spec import parse_hpa
from lagbench.core.instants import NS_PER_SECOND
from lagbench.core.keda_hpa import build_hpa
from lagbench.core.keda_object import KedaObject, Tick
from lagbench.core.keda_scaler import ScalersNotBuilt, TargetView
from lagbench.core.scaled_object import parse_scaled_object
from lagbench.core.scaling_annotations import parse_scaling_annotations
from lagbench.errors import NotReady
from tests.conformance.real_keda_clocks import poll_times
from tests.conformance.real_keda_hpa import ReplayedHpa
from tests.conformance.real_keda_inputs import Inputs, World
from tests.conformance.real_keda_scalers import TraceScalers
from tests.conformance.real_keda_trace import KedaMove, Line, Trace, is_hand_scaling

# A read ends with the logged sync, or begins with the poll; it takes some milliseconds.
_READ_SECONDS = 0.03
# Within this time a move of KEDA's arrives at the Deployment (its API client is rate-limited).
_MOVE_SECONDS = 5.0
_MATCH_SECONDS = 2.0
# A test object that the operator could not decode kept it from listing ScaledObjects (the third
# disturbance in the README of the feature traces: batch 2, +29..+64 s and +260..+290 s); its next
# attempt comes after a delay that has grown to as much as a minute by then.
_BATCH_2, _RELIST_SECONDS = 1795254246.0, 60.0
_BLIND = tuple(
    (_BATCH_2 + since, _BATCH_2 + until + _RELIST_SECONDS) for since, until in ((29, 64), (260, 290))
)


@dataclass
class Outcome:
    """What a replay has found."""

    name: str
    compared: int = 0
    differences: list[str] = field(default_factory=list)
    explained: list[str] = field(default_factory=list)
    disturbances: list[str] = field(default_factory=list)
    seconds: int = 0
    seconds_equal: int = 0

    @property
    def share(self) -> float:
        """Return the share of seconds with equal spec.replicas."""
        return self.seconds_equal / self.seconds if self.seconds else 0.0

    @property
    def passes(self) -> bool:
        """Say whether the trace is reproduced."""
        return not self.differences and self.share >= 0.99


class Replay:
    """One trace, replayed once."""

    def __init__(self, trace: Trace) -> None:
        """Prepare the world, the object as applied, and the events in their order."""
        self._trace = trace
        self._world = World(trace)
        self._scalers = TraceScalers(trace, self._world)
        self._manifest: Line = trace.scaled_object
        self._keda: KedaObject | None = None
        self._hpa: ReplayedHpa | None = None
        self._replicas = int(trace.deployment["spec"].get("replicas", 1))
        self._original = self._replicas
        self._history: list[tuple[float, int]] = [(trace.applied_at, self._replicas)]
        self._moves: list[KedaMove] = []
        self._recorded_moves = trace.keda_moves()
        self._status = _StatusTimeline(trace)
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._polls: list[float] = []
        self._done_polls: set[float] = set()
        self._before_poll: tuple[float, KedaObject] | None = None
        self._activity: list[tuple[float, int | None]] = []
        self._health: dict[str, Any] = {}
        self._last_active_at_ns: int | None = None
        self.outcome = Outcome(trace.name)

    def run(self) -> Outcome:
        """Replay and compare."""
        self._schedule()
        while self._events:
            at, _, act = heapq.heappop(self._events)
            self._world.advance(at)
            act(at)
        self._compare_moves()
        self._compare_seconds()
        return self.outcome

    def _at(self, at: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (at, next(self._order), act))

    def _schedule(self) -> None:
        trace = self._trace
        for line in trace.of_kind("step"):
            if is_hand_scaling(line):
                replicas = int(line["patch"]["spec"]["replicas"])
                self._at(line["t"], lambda at, n=replicas: self._set(at, n))
            elif line["op"] == "patch":
                self._at(line["t"], lambda at, step=line: self._annotate(step["patch"]))
            elif line["op"] == "delete":
                self._at(line["t"], self._delete)
        self._schedule_specs()
        for life in trace.hpa_lives():
            self._at(life.created_at, self._create_hpa)
            if life.deleted_at is not None:
                self._at(life.deleted_at, self._delete_hpa)
        for line in trace.watched("hpa"):
            if line["type"] == "MODIFIED" and line.get("spec"):
                self._at(line["t"], self._update_hpa)
        intervals = {0.0: float(trace.scaled_object["spec"].get("pollingInterval", 30))}
        for line in trace.of_kind("step"):
            document = line.get("doc") or {}
            if line["op"] == "apply" and document.get("kind") == "ScaledObject":
                intervals[line["t"]] = float(document["spec"].get("pollingInterval", 30))
        self._polls = poll_times(trace, intervals)
        for at in self._polls:
            self._at(at, self._poll)
        for sync in trace.syncs:
            if sync["action"] != "hpa_deleted":
                self._at(sync["t"], lambda at, recorded=sync: self._sync(at, recorded))

    def _schedule_specs(self) -> None:
        """Take a later generation when the watch tells of it: then KEDA sees it as well."""
        applied = [
            line
            for line in self._trace.of_kind("step")
            if line["op"] == "apply" and (line.get("doc") or {}).get("kind") == "ScaledObject"
        ]
        for line in applied[1:]:
            self._at(line["t_end"], lambda at, step=line: self._take_generation(step["doc"]))

    # What happens to the object

    def _take_generation(self, document: Line) -> None:
        annotations = (self._manifest["metadata"].get("annotations")) or {}
        self._manifest = copy.deepcopy(document)
        if annotations:
            self._manifest["metadata"].setdefault("annotations", annotations)
        if self._keda is not None:
            self._open_keda()

    def _annotate(self, patch: Line) -> None:
        manifest = copy.deepcopy(self._manifest)
        annotations = manifest["metadata"].setdefault("annotations", {})
        for name, value in (patch["metadata"].get("annotations") or {}).items():
            if value is None:
                annotations.pop(name, None)
            else:
                annotations[name] = value
        self._manifest = manifest
        if self._keda is not None:
            self._keda.annotate(parse_scaling_annotations(manifest))

    def _open_keda(self) -> None:
        """Start a generation: new scalers, the counters and the last activity carried over."""
        if self._keda is not None:
            self._remember()
            self._keda.close()
        self._keda = KedaObject(
            parse_scaled_object(self._manifest, where=self._trace.name),
            self._scalers.build,
            created_at_ns=int(self._trace.applied_at) * NS_PER_SECOND,
            last_active_at_ns=self._last_active_at_ns,
            health=self._health,
        )

    def _remember(self) -> None:
        if self._keda is not None:
            self._health = dict(self._keda.health)
            self._last_active_at_ns = self._keda.last_active_at_ns

    def _create_hpa(self, at: float) -> None:
        self._open_keda()
        self._hpa = ReplayedHpa(self._trace)
        self._update_hpa(at)

    def _update_hpa(self, at: float) -> None:
        if self._keda is None or self._hpa is None:
            return
        try:
            specs = self._keda.metric_specs()
        except NotReady as error:
            self.outcome.differences.append(f"{self._label(at)}: no HPA could be made: {error}")
            return
        metadata = {"uid": "u", **self._manifest["metadata"]}
        self._hpa.spec = parse_hpa(
            build_hpa(self._keda.spec, metadata, specs), where=self._trace.name
        )

    def _delete_hpa(self, at: float) -> None:
        self._hpa = None
        if self._keda is None:
            return
        self._remember()
        self._keda.close()
        paused = self._keda.spec.annotations
        self._keda = None
        if paused.is_paused and paused.paused_replicas is not None:
            self._set(at, paused.paused_replicas)

    def _delete(self, at: float) -> None:
        if self._keda is not None:
            restores = self._keda.spec.restores_replicas
            self._keda.close()
            self._keda = None
            if restores:
                self._note_move(at, self._original)

    # The two clocks

    def _target(self, at: float) -> TargetView:
        status, ready = self._status.at(at)
        return TargetView(self._replicas, status, ready)

    def _poll(self, at: float) -> None:
        keda = self._keda
        if keda is None or keda.spec.annotations.is_paused or at in self._done_polls:
            return
        if self._syncs_near(at):
            self._before_poll = (at, copy.deepcopy(keda))
        blind_since = next((since for since, until in _BLIND if since <= at <= until), None)
        spare = copy.deepcopy(keda) if blind_since is not None else None
        result = self._try(at, at + _READ_SECONDS, self._tick, self._fits_move(at))
        if spare is not None and blind_since is not None and not self._fits_move(at)(result):
            result = self._tick_blindly(at, spare, blind_since) or result
        self._act_on(at, result)

    def _tick(self, keda: KedaObject, _: ReplayedHpa | None, at: float) -> Tick | None:
        is_hpa_active = self._hpa is not None and self._hpa.is_active
        try:
            return keda.tick(
                self._target(at), int(at * NS_PER_SECOND), is_hpa_active=is_hpa_active
            )
        except ScalersNotBuilt:
            return None

    def _wanted_move(self, at: float) -> KedaMove | None:
        """Return the recorded move that a poll may have made."""
        return next((m for m in self._recorded_moves if -0.1 <= m.at - at <= _MOVE_SECONDS), None)

    def _fits_move(self, at: float) -> Callable[[Tick | None], bool]:
        wanted = self._wanted_move(at)

        def fits(result: Tick | None) -> bool:
            move = None if result is None else result.decision.replicas
            return move == (None if wanted is None else wanted.after)

        return fits

    def _tick_blindly(self, at: float, keda: KedaObject, since: float) -> Tick | None:
        """Poll with the lastActiveTime that the operator still had; None when that explains naught.

        While the operator cannot list ScaledObjects, its copy of their status stands still.
        """
        real = keda.last_active_at_ns
        known = [stamp for when, stamp in self._activity if when <= since]
        stale = known[-1] if known else None
        keda.last_active_at_ns = stale
        result = self._tick(keda, None, at)
        if result is None or not self._fits_move(at)(result):
            return None
        if keda.last_active_at_ns == stale:
            keda.last_active_at_ns = real
        self._keda = keda
        note = "the operator could not list ScaledObjects, its lastActiveTime was old"
        self.outcome.disturbances.append(f"{self._label(at)}: {note}")
        return result

    def _act_on(self, at: float, result: Tick | None) -> None:
        if self._keda is not None:
            self._activity.append((at, self._keda.last_active_at_ns))
        if result is None or result.decision.replicas is None:
            return
        replicas, wanted = result.decision.replicas, self._wanted_move(at)
        arrives = wanted.at if wanted is not None and wanted.after == replicas else at
        self._at(max(at, arrives), lambda when: self._note_move(when, replicas))

    def _sync(self, at: float, recorded: Line) -> None:
        if self._keda is None or self._hpa is None or self._hpa.spec is None:
            self.outcome.compared += 1
            self.outcome.differences.append(f"{self._label(at)}: a sync, but there is no HPA here")
            return
        done_at = float(recorded.get("t_done") or at)

        def sync(keda: KedaObject, hpa: ReplayedHpa | None, at: float) -> HpaDecision | None:
            return None if hpa is None else hpa.sync(keda, self._target(at), at, done_at)

        def fits(result: HpaDecision | None) -> bool:
            return result is not None and not _differs(recorded, result, self._replicas)

        spare = copy.deepcopy((self._keda, self._hpa)) if self._polls_near(at) else None
        decision = self._try(at - _READ_SECONDS, at, sync, fits)
        if spare is not None and not fits(decision):
            decision = self._sync_in_other_order(at, spare, sync, fits) or decision
        if decision is None:
            return
        self.outcome.compared += 1
        if problem := _differs(recorded, decision, self._replicas):
            self.outcome.differences.append(f"{self._label(at)}: HPA sync: {problem}")
        self._set(done_at, decision.replicas)

    def _sync_in_other_order(
        self,
        at: float,
        spare: tuple[KedaObject, ReplayedHpa | None],
        sync: Callable[[KedaObject, ReplayedHpa | None, float], HpaDecision | None],
        fits: Callable[[HpaDecision | None], bool],
    ) -> HpaDecision | None:
        """Exchange a sync with the poll that ran at the same time; None when that fits neither."""
        keda, hpa = spare
        poll = self._polls_near(at)[0]
        if poll <= at and self._before_poll is not None and self._before_poll[0] == poll:
            keda = self._before_poll[1]
            decision = sync(keda, hpa, at)
            self._tick(keda, None, poll)
        else:
            tick = self._tick(keda, None, poll)
            decision = sync(keda, hpa, at)
            if fits(decision):
                self._done_polls.add(poll)
                self._act_on(poll, tick)
        if not fits(decision):
            return None
        self._keda, self._hpa = keda, hpa
        note = "the HPA's read and KEDA's poll ran at the same time"
        self.outcome.disturbances.append(f"{self._label(at)}: {note}")
        return decision

    def _syncs_near(self, at: float) -> list[float]:
        return [sync["t"] for sync in self._trace.syncs if abs(sync["t"] - at) <= _READ_SECONDS]

    def _polls_near(self, at: float) -> list[float]:
        return [poll for poll in self._polls if abs(poll - at) <= _READ_SECONDS]

    def _try(
        self,
        begin: float,
        end: float,
        act: Callable[[KedaObject, ReplayedHpa | None, float], Any],
        fits: Callable[[Any], bool],
    ) -> Any:
        """Act on what is known, or on what a read at the edge of a change may have seen instead."""
        keda, hpa = self._keda, self._hpa
        if keda is None:
            return None
        at = self._world.at
        others = self._world.alternatives(begin, end)
        if not others:
            return act(keda, hpa, at)
        known = self._world.now
        choices: list[tuple[str, Inputs]] = [("", known), *others]
        first: tuple[Any, KedaObject, ReplayedHpa | None] | None = None
        for note, inputs in choices:
            twin, twin_hpa = copy.deepcopy((keda, hpa))
            self._world.now = inputs
            result = act(twin, twin_hpa, at)
            self._world.now = known
            first = first or (result, twin, twin_hpa)
            if fits(result):
                if note:
                    self.outcome.disturbances.append(f"{self._label(end)}: {note}")
                self._keda, self._hpa = twin, twin_hpa
                return result
        if first is None:
            return None
        result, self._keda, self._hpa = first
        return result

    # Our replicas, and the comparison

    def _note_move(self, at: float, replicas: int) -> None:
        if replicas != self._replicas:
            self._moves.append(KedaMove(at, self._replicas, replicas))
        self._set(at, replicas)

    def _set(self, at: float, replicas: int) -> None:
        if replicas != self._replicas:
            self._replicas = replicas
            self._history.append((at, replicas))

    def _compare_moves(self) -> None:
        """Pair our moves with the recorded ones; each that stands alone is a difference."""
        ours = list(self._moves)
        for move in self._recorded_moves:
            self.outcome.compared += 1
            twin = next(
                (m for m in ours if m.after == move.after and abs(m.at - move.at) < _MATCH_SECONDS),
                None,
            )
            if twin is None:
                text = f"KEDA moved {move.before} -> {move.after}, we did not"
                self.outcome.differences.append(f"{self._label(move.at)}: {text}")
            else:
                ours.remove(twin)
        for move in ours:
            self.outcome.compared += 1
            text = f"we moved {move.before} -> {move.after}, KEDA did not"
            self.outcome.differences.append(f"{self._label(move.at)}: {text}")

    def _compare_seconds(self) -> None:
        instants = [at for at, _ in self._history]
        for line in self._trace.of_kind("sample"):
            recorded = line.get("spec_replicas")
            if recorded is None or line["t"] < instants[0]:
                continue
            first = max(bisect_right(instants, line["t"]) - 1, 0)
            last = max(bisect_right(instants, line.get("t_end") or line["t"]) - 1, 0)
            self.outcome.seconds += 1
            # The sample was taken somewhere between its two instants.
            possible = {self._history[place][1] for place in range(first, last + 1)}
            self.outcome.seconds_equal += recorded in possible

    def _label(self, at: float) -> str:
        return f"{at - self._trace.zero:+.1f} s"


def _differs(recorded: Line, decision: HpaDecision, before: int) -> str:
    """Return how our decision differs from the recorded one; empty when it does not."""
    if recorded["action"] == "error":
        if decision.proposal is None and decision.replicas == before:
            return ""
        return f"recorded an error, computed {decision.replicas} (raw {decision.proposal})"
    raw = recorded.get("raw_proposal")
    if decision.proposal != raw or decision.replicas != recorded["to"]:
        return (
            f"recorded {recorded.get('frm', recorded['to'])} -> {recorded['to']} (raw {raw}), "
            f"computed {before} -> {decision.replicas} (raw {decision.proposal})"
            + (f": {decision.error}" if decision.error else "")
        )
    return ""


class _StatusTimeline:
    """status.replicas and ready pods as the watch told of them."""

    def __init__(self, trace: Trace) -> None:
        """Read the Deployment's watch, and what each HPA sync reports to have seen."""
        self._points = [
            (line["t"], int(line["status_replicas"] or 0), int(line["ready"] or 0))
            for line in trace.watched("deploy")
        ]
        self._instants = [point[0] for point in self._points]

    def at(self, at: float) -> tuple[int, int]:
        """Return (status.replicas, ready pods) at an instant."""
        place = bisect_right(self._instants, at) - 1
        return self._points[place][1:] if place >= 0 else (0, 0)
