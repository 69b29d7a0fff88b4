"""The waits of a run: the conditions of any Dag, with arguments from the run folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from lagbench.core.keda.triggers.kafka_parameters import KAFKA_DEFAULT_LAG_THRESHOLD
from lagbench.core.scenario.actions import actions_seconds
from lagbench.core.scenario.consumer_kinds import kind_of
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.stream_tail import resting_lag_records, resting_replicas
from lagbench.errors import StillWaiting
from lagbench.results.cell_run import CellRun
from lagbench.results.phases import PhaseState, record_phase
from lagbench_airflow.hooks import kafka
from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.task_life import wrong_input_is_final
from lagbench_airflow.triggers.condition import Condition, Reason, written
from lagbench_airflow.triggers.conditions import Lag, ReplicasSettled
from lagbench_airflow.triggers.run_conditions import (
    ActionsPlayed,
    RunGroupStable,
    TrafficFinished,
    UnlessAborted,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

GROUP_FORMS_SECONDS = 120.0
"""A join of 24 members took 10.6 s at worst (KIP-848)."""
REPLACEMENT_SECONDS = 30.0
"""For the replacement of a killed pod to start, and the group to hand over."""
FLUSH_ALLOWANCE_SECONDS = 330.0
"""After the last event: librdkafka gives up on a message after 300 s, then the Job ends."""
_ONE_HPA_SYNC_SECONDS = 16.0


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait of a task of ``scenario_run``: a condition, for at most some seconds.

    It is one of the run (``is_of_run``), or of each of its consumer groups. A state that is not
    reached in time is a result, which the verdict judges, unless ``fails_on_timeout``. Where
    nothing is waited for (``is_phase``), no phase is recorded: the state before it continues. After
    an abort only that is waited for which undoes itself (``ends_on_abort`` off).
    """

    doc: str
    condition: Callable[[CellRun], Condition]
    most_seconds: Callable[[CellRun], float]
    hold_seconds: Callable[[CellRun], float] = lambda _: 0.0
    is_of_run: bool = False
    fails_on_timeout: bool = False
    is_phase: Callable[[CellRun], bool] = lambda _: True
    ends_on_abort: bool = True

    def condition_of(self, cell: CellRun) -> Condition:
        """Return what is waited for, as long as it is worth it."""
        found, names = self.condition(cell), cell.names
        if cell.scenario.abort is None or not self.ends_on_abort:
            return found
        job, telemetry = names.producer_job, names.telemetry_topic
        return UnlessAborted(awaited=written(found), job=job, telemetry=telemetry)


class RunSensor(ConditionSensor):
    """Waits for a state of one run as a sensor of any Dag does, and records its phase.

    How long it waits is the scenario's, not ``timeout``. It defers after a minute: a round trip
    through the triggerer takes longer than many of these waits. Safe to retry.

    :param run_folder: folder that ``plan_cell`` created, or its run id (templated).
    :param until: the state.
    """

    template_fields: Sequence[str] = ("run_folder",)

    def __init__(
        self,
        *,
        run_folder: str,
        until: Wait,
        **kwargs: Any,
    ) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        waits = {"deferrable": True, "defer_after_seconds": 60.0, "poke_interval": 0.5}
        super().__init__(**{**waits, "doc_md": until.doc, **kwargs})
        self.run_folder, self.until = run_folder, until

    def conditions(self, cell: CellRun) -> dict[str, Condition]:
        """Return the condition of the run, or those of its two groups by their names."""
        if cell.second is None or self.until.is_of_run:
            return {"": self.until.condition_of(cell)}
        groups = zip(("first_group", "second_group"), cell.groups, strict=True)
        return {name: self.until.condition_of(group) for name, group in groups}

    def condition(self) -> Condition:
        """Return the condition of the run's first group."""
        return self.until.condition_of(CellRun.open(self.run_folder))

    def most_seconds(self, cell: CellRun) -> float:
        """Return how long the wait may last."""
        groups = (cell,) if self.until.is_of_run else cell.groups
        return max(map(self.until.most_seconds, groups))

    def execute(self, context: Context) -> Any:
        """Begin the phase and wait."""
        with wrong_input_is_final():
            cell = CellRun.open(self.run_folder)
            if self.until.is_phase(cell):
                self._record(cell, "started")
            event = self.await_event(
                self.conditions(cell), self.most_seconds(cell), self.until.hold_seconds(cell)
            )
        return self.execute_complete(context, event)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """End the phase; return whether the state was reached, and the last reading."""
        reason, seen = Reason(event["reason"]), event["seen"]
        cell = CellRun.open(self.run_folder)
        said = f"{self.task_id}: {reason.value}, last seen {seen}"
        failure: Exception | None = None
        if reason is Reason.REFUSED:
            said = str(seen.get("error", said))
            failure = AirflowFailException(said)
        elif reason is Reason.TIMED_OUT and self.until.fails_on_timeout:
            failure = StillWaiting(
                f"waited {self.most_seconds(cell):.0f} s for {self.task_id}; last seen: {seen}. "
                "Look at the pods' logs, or raise the scenario's timeouts"
            )
        if failure is not None:
            record_phase(cell.folder, self.task_id, "failed", detail=said)
            raise failure
        if reason is not Reason.REACHED:
            self.log.warning("%s; the run continues, and the verdict will report it", said)
        if self.until.is_phase(cell):
            self._record(cell, "finished", reason.value)
        return {"reached": reason is Reason.REACHED, "reason": reason.value, "seen": seen}

    def _record(self, cell: CellRun, state: PhaseState, detail: str = "") -> None:
        servers = kafka.KafkaHook().bootstrap_servers
        record_phase(cell.folder, self.task_id, state, bootstrap_servers=servers, detail=detail)


def _drain_seconds(cell: CellRun) -> float:
    return cell.scenario.timeouts.drain_seconds


def _stream_seconds(cell: CellRun) -> float:
    return offered_load(cell.scenario.profile).duration_seconds + FLUSH_ALLOWANCE_SECONDS


def _lag_threshold(cell: CellRun) -> float:
    return cell.policy.limits.lag_threshold_records or KAFKA_DEFAULT_LAG_THRESHOLD


def _lag(cell: CellRun, threshold_records: float, *, is_above: bool = False) -> Lag:
    """Return a condition on the group's total lag; waiting for more is moot without traffic."""
    is_late = not is_above and not kind_of(cell.scenario.consumer.kind).has_reports
    return Lag(
        topic=cell.names.events_topic,
        group=cell.names.group,
        threshold_records=int(threshold_records),
        is_above=is_above,
        job=cell.names.producer_job if is_above else "",
        traffic_ends_at=cell.traffic_ends_at if is_above else None,
        late_until_at=time.time() + _drain_seconds(cell) if is_late else None,
    )


def _group(cell: CellRun, *, refuses_strangers: bool) -> RunGroupStable:
    consumer = cell.scenario.consumer
    kind = kind_of(consumer.kind)
    return RunGroupStable.of(
        cell.names,
        kind=consumer.workload,
        has_members=kind.has_members,
        client_id=None if kind.has_reports else consumer.client_id or "",
        members_per_pod=consumer.members_per_pod,
        refuses_strangers=refuses_strangers,
    )


def _replicas(cell: CellRun) -> ReplicasSettled:
    limits = cell.last_policy.limits
    least, most = resting_replicas(
        cell.scenario,
        cell.tail,
        floor_replicas=limits.floor_replicas,
        ceiling_replicas=limits.ceiling_replicas,
    )
    return ReplicasSettled(
        workload=cell.names.consumers,
        kind=cell.scenario.consumer.workload,
        least=least,
        most=most,
        run_id=cell.names.run_id,
    )


GROUP_STABLE = Wait(
    "Stable with every partition owned: else the spike would measure the group's start.",
    # A member that is not a pod ends the run before its spike; at the end the verdict judges it.
    lambda cell: _group(cell, refuses_strangers=True),
    most_seconds=lambda _: GROUP_FORMS_SECONDS,
    hold_seconds=lambda _: 1.0,
    fails_on_timeout=True,
)

LAG_BUILDS_UP = Wait(
    "The total lag exceeds the policy's lagThreshold, or no longer can.",
    lambda cell: _lag(cell, _lag_threshold(cell), is_above=True),
    most_seconds=_stream_seconds,
)

TRAFFIC_FINISHED = Wait(
    "The planned window of the stream has ended; its tail may continue. A failure of the generator "
    "does not stop the run: the verdict calls the run invalid.",
    lambda cell: TrafficFinished(
        job=cell.names.producer_job,
        ends_at=cell.traffic_ends_at,
    ),
    most_seconds=_stream_seconds,
    is_of_run=True,
)

LAG_AT_REST = Wait(
    "The lag of the spike has drained to what the base load keeps in flight: under it never 0.",
    lambda cell: _lag(cell, resting_lag_records(cell.tail, lag_threshold=_lag_threshold(cell))),
    most_seconds=_drain_seconds,
)

ACTIONS_PLAYED = Wait(
    "Each action has ended; at once without actions.",
    lambda cell: ActionsPlayed(
        job=cell.names.actions_job if cell.scenario.actions else "",
    ),
    most_seconds=lambda cell: actions_seconds(cell.scenario.actions, _drain_seconds(cell)),
    is_of_run=True,
    is_phase=lambda cell: bool(cell.scenario.actions),
    ends_on_abort=False,
)

REPLICAS_SETTLED = Wait(
    "The consumers are back at the counts at which the policy rests.",
    _replicas,
    most_seconds=lambda cell: cell.scenario.timeouts.settle_seconds,
    # Under load for a sync of the HPA: the cost of the last step and a reversal by the policy are
    # visible before the load ends.
    hold_seconds=lambda cell: 1.0 if cell.tail is None else _ONE_HPA_SYNC_SECONDS,
)

LAG_DRAINED = Wait(
    "Nothing is left after all traffic: a run that never drained proves neither loss nor its "
    "absence.",
    lambda cell: _lag(cell, 0),
    most_seconds=_drain_seconds,
    hold_seconds=lambda _: 2.0,
)

GROUP_SETTLED = Wait(
    "The group is stable again, also after a pod that was killed shortly before the end. It stays "
    "a member until its session times out. Until then its partitions have no worker, and with the "
    "fence before that time nothing could be judged.",
    lambda cell: _group(cell, refuses_strangers=False),
    most_seconds=lambda cell: cell.scenario.longest_session_seconds + REPLACEMENT_SECONDS,
    hold_seconds=lambda _: 1.0,
)
