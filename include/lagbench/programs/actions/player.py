"""Play actions on the clock of the stream, each in a thread of its own, and stamp them."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from pydantic import Field

from lagbench.adapters.kube.kube import Kube
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.scenario.actions import Action, ActionBase, LastingAction, drawn
from lagbench.core.scenario.run_names import (
    CONSUMER_DEPLOYMENT,
    NAMESPACE,
    POD_ORDINAL_ANNOTATION,
    RUN_ID_LABEL,
)
from lagbench.core.scenario.scenario import MAX_SEED, Workload, shared_actions
from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    Record,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import LagSample
from lagbench.core.workload_state import is_ready
from lagbench.errors import LagbenchError, NotReady
from lagbench.programs.run_flags import RunFlags
from pod_program.flags import CommandLine, PodName, Settings

log = logging.getLogger(__name__)
NO_TARGET = "no target"


class Player:
    """Plays the actions of one run, once."""

    def __init__(
        self,
        state: StreamState,
        send: Callable[[Record], None],
        now_ns: Callable[[], int],
        source: str,
    ) -> None:
        """Stamp with ``now_ns`` (unix nanoseconds) and ``send`` the records."""
        self._state, self._send, self._now_ns, self._source = state, send, now_ns, source
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, performers: Sequence[Performer[Any]]) -> None:
        """Wait for the begin of each action in a thread."""
        for performer in performers:
            name = f"action-{performer.number}"
            self._threads.append(
                threading.Thread(target=self._play, args=(performer,), name=name, daemon=True)
            )
        for thread in self._threads:
            thread.start()

    def is_done(self) -> bool:
        """Return whether every action has ended, or will never begin."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self, within_seconds: float) -> bool:
        """Undo what lasts, and begin nothing more; returns whether all ended in time."""
        self._stopping.set()
        self._state.wake()
        for thread in self._threads:
            thread.join(within_seconds / max(1, len(self._threads)))
        return self.is_done()

    def _play(self, performer: Performer[Any]) -> None:
        number, action = performer.number, performer.action
        if not self._state.await_begin(action, self._stopping):
            log.warning("actions.%d (%s) was not played: the run ended before", number, action.kind)
            return
        error, targets = "", list[str]()
        try:
            targets = performer.choose()
        except LagbenchError as problem:
            error = f"{NO_TARGET}: {problem}"
        self._report(
            ActionStarted, performer, targets=targets, planned_at=self._state.planned_at(action)
        )
        log.info("actions.%d (%s) begins on %s", number, action.kind, ", ".join(targets))
        if not error:
            error = self._act(performer)
        came, detail = performer.came, performer.detail
        self._report(ActionEnded, performer, error=error, came=came, detail=detail)
        log.info("actions.%d (%s) ended%s", number, action.kind, f": {error}" if error else "")

    def _report(self, kind: type[Record], performer: Performer[Any], **fields: Any) -> None:
        own = {"number": performer.number, "action": performer.action.kind}
        self._send(kind(at=self._now_ns(), source=self._source, **own, **fields))

    def _act(self, performer: Performer[Any]) -> str:
        """Act, hold and undo; returns why one of them failed, empty if none did."""
        problems = []
        try:
            performer.act()
            performer.hold(self._stopping)
        except Exception as problem:
            log.exception("actions.%d failed", performer.number)
            problems.append(f"{type(problem).__name__}: {problem}")
        try:
            performer.undo()
        except Exception as problem:
            log.exception("actions.%d was not undone", performer.number)
            problems.append(f"not undone: {problem}")
        if not problems and self._stopping.is_set():
            problems.append("the run ended before the action's end")
        return "; ".join(problems)


Send = Callable[[Record], None]


def send_to_both(first: Send, second: Send, actions: Sequence[ActionBase]) -> Send:
    """Return a ``send`` that gives all records to ``first``, and to ``second`` those of its run."""
    places = shared_actions(actions)

    def send(record: Record) -> None:
        first(record)
        if not isinstance(record, ActionStarted | ActionEnded):
            second(record)
        elif record.number in places:
            second(msgspec.structs.replace(record, number=places[record.number]))

    return send


_LOOK_SECONDS = 1.0


class StreamState:
    """The start of the stream, and the instant at which it first was in each state."""

    def __init__(
        self, now_ns: Callable[[], int], *, drained_records: int, drained_after_seconds: float
    ) -> None:
        """Begin without a stream; lag is drained at ``drained_records``, not before that second."""
        self._now_ns = now_ns
        self._drained_records = drained_records
        self._drained_after_ns = round(drained_after_seconds * NS_PER_SECOND)
        self._started_at: int | None = None
        self._drained_at: int | None = None
        self._is_aborted = False
        self._changed = threading.Condition()

    def take(self, record: Record) -> None:
        """Learn from one record of the run's telemetry."""
        with self._changed:
            if isinstance(record, StreamStarted):
                self._started_at = record.stream_started_at
            elif isinstance(record, StreamFinished):
                self._is_aborted = bool(record.aborted)
            elif isinstance(record, LagSample) and self._drained_at is None:
                if self._is_drained(record):
                    self._drained_at = record.at
            else:
                return
            self._changed.notify_all()

    def wake(self) -> None:
        """Let every wait look again, for a program that ends."""
        with self._changed:
            self._changed.notify_all()

    def planned_at(self, action: ActionBase) -> int | None:
        """Return the planned instant of an action; None: it waits for a state, or the stream."""
        if action.at_seconds is None or self._started_at is None:
            return None
        return self._started_at + round(action.at_seconds * NS_PER_SECOND)

    def await_begin(self, action: ActionBase, stopping: threading.Event) -> bool:
        """Wait until the action is due; False: the program or the stream is ended before."""
        with self._changed:
            while not stopping.is_set() and not self._is_aborted:
                left_seconds = self.left_seconds(action)
                if left_seconds is not None and left_seconds <= 0:
                    return True
                self._changed.wait(min(left_seconds or _LOOK_SECONDS, _LOOK_SECONDS))
        return False

    def left_seconds(self, action: ActionBase) -> float | None:
        """Return the seconds until the action is due, 0 or less: it is; None: not known yet."""
        if action.at is not None:
            return None if self._drained_at is None else 0.0
        planned_at = self.planned_at(action)
        return None if planned_at is None else (planned_at - self._now_ns()) / NS_PER_SECOND

    def _is_drained(self, sample: LagSample) -> bool:
        started_at = self._started_at
        if started_at is None or sample.at < started_at + self._drained_after_ns:
            return False
        if any(end and committed is None for _, end, committed in sample.partitions):
            return False
        return sample.uncommitted <= self._drained_records


class PlayerOptions(RunFlags, Settings):
    """lagbench's player of a run's actions."""

    telemetry_topic: str = Field(
        description="topic of the telemetry; default: the run's, by --run-id"
    )
    second_telemetry_topic: str | None = Field(
        None, description="telemetry of the run's second consumer group, for actions on all groups"
    )
    namespace: str = Field(NAMESPACE, description="namespace of the consumers")
    deployment: str = Field(CONSUMER_DEPLOYMENT, description="workload of the consumers")
    workload: Workload = Field("Deployment", description="kind of that workload")
    seed: int = Field(1, ge=0, le=MAX_SEED, description="draws the pods of an action")
    drained_records: int = Field(0, ge=0, description="lag at which the group has drained")
    drained_after_seconds: float = Field(
        0.0, ge=0, description="second of the stream before which it has not drained"
    )
    source: PodName = "actions"
    actions: tuple[Action, ...] = Field(description="the scenario's actions as JSON")
    policies: dict[int, dict[str, Any]] = Field(
        {}, description="a JSON object of new policies by the number of their action"
    )

    @property
    def pod_selector(self) -> str:
        """The label selector of the run's consumers."""
        return f"app={self.deployment},{RUN_ID_LABEL}={self.run_id}"


parse_options = CommandLine(PlayerOptions, module="lagbench.programs.actions").read
Of = TypeVar("Of", bound=ActionBase)


@dataclass(frozen=True, slots=True)
class Stage:
    """The parts of the run that an action may use."""

    kube: Kube
    options: PlayerOptions

    def pods(self) -> list[str]:
        """Return all consumer pods that there are."""
        found = self.kube.list("Pod", label_selector=self.options.pod_selector)
        return [str(pod["metadata"]["name"]) for pod in found]

    def ready_pods(self) -> list[str]:
        """Return the consumer pods that are Ready and not asked to stop, in order of creation."""
        found = self.kube.list("Pod", label_selector=self.options.pod_selector)
        stays = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        return [str(pod["metadata"]["name"]) for pod in sorted(stays, key=_order) if is_ready(pod)]


class Performer(ABC, Generic[Of]):
    """Plays one action. Each method may raise ``NotReady``; ``undo`` is called in any case.

    ``came`` and ``detail`` go into the record of the action's end.
    """

    def __init__(self, number: int, action: Of, stage: Stage) -> None:
        """Keep the parts; nothing is done."""
        self.number, self.action, self.stage = number, action, stage
        self.came: list[str] = []
        self.detail = ""

    @abstractmethod
    def choose(self) -> list[str]:
        """Return the targets; nothing is changed yet."""

    @abstractmethod
    def act(self) -> None:
        """Begin: return when the effect is there."""

    def hold(self, stopping: threading.Event) -> None:
        """Wait for the action's end: its time has passed, or the program ends."""
        if isinstance(self.action, LastingAction):
            stopping.wait(self.action.for_seconds)

    def undo(self) -> None:
        """Take the effect back, as far as the action does; also after a failure of ``act``."""

    def draw_pods(self, count: int) -> list[str]:
        """Return ``count`` Ready consumer pods, drawn by the run's seed."""
        candidates = self.stage.ready_pods()
        if not candidates:
            raise NotReady("no consumer pod is Ready: there is no target")
        return drawn(candidates, count, seed=self.stage.options.seed, number=self.number)


def _order(pod: dict[str, Any]) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    ordinal = (metadata.get("annotations") or {}).get(POD_ORDINAL_ANNOTATION, "0")
    return int(ordinal), str(metadata.get("creationTimestamp")), str(metadata["name"])
