"""The base of every sensor of a cell: a bounded wait, deferred or in place, with a soft end."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from lagbench.errors import StillWaiting
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.failures import wrong_input_is_final
from lagbench_airflow.phases import record_phase
from lagbench_airflow.triggers.condition import ConditionTrigger, Reason, run_inline
from lagbench_airflow.triggers.every_group import trigger_of_groups

if TYPE_CHECKING:
    from airflow.sdk import Context

DEFERRAL_SLACK = timedelta(minutes=5)
"""The trigger ends the wait itself; Airflow's own limit is only a safety net."""


DEFERRAL_SETTLES_SECONDS = 10.0
"""If a trigger fires before the scheduler has seen the end of the task's process, the scheduler
takes that end for the resumed task's: "reported … finished with state success, but … is queued".
Observed with Airflow 3.3.2 when a trigger fired 4 s after the deferral on a busy machine."""


class CellSensor(BaseSensorOperator):
    """Waits for a state of one run: first in the task, then in the triggerer.

    :param run_folder: folder that ``plan_cell`` created (templated).
    :param deferrable: release the worker if the wait is long.
    :param defer_after_seconds: until then the task waits itself; a round trip through the
        triggerer takes longer than many of these waits.
    """

    template_fields: Sequence[str] = ("run_folder",)
    is_of_run: ClassVar[bool] = False
    """The state is one of the run; otherwise the sensor waits until each consumer group has it."""
    fails_on_timeout: ClassVar[bool] = False
    """False: the run continues after the time limit, and the verdict judges the measures."""

    def __init__(
        self,
        *,
        run_folder: str,
        deferrable: bool = True,
        defer_after_seconds: float = 60.0,
        poll_seconds: float = 0.5,
        kafka_conn_id: str = "kafka_default",
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        super().__init__(**kwargs)
        self.run_folder = run_folder
        self.deferrable = deferrable
        self.defer_after_seconds = defer_after_seconds
        self.poll_seconds = poll_seconds
        self.kafka_conn_id = kafka_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id

    @abstractmethod
    def wait_seconds(self, cell: CellRun) -> float:
        """Return how long the wait may last, for the run or one group."""

    @abstractmethod
    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition to wait for, of the run or of one group."""

    def _groups(self, cell: CellRun) -> tuple[CellRun, ...]:
        return (cell,) if self.is_of_run else cell.groups

    def _longest_wait(self, cell: CellRun) -> float:
        return max(self.wait_seconds(group) for group in self._groups(cell))

    def _trigger_of_run(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        return trigger_of_groups([self.trigger(group, deadline_at) for group in self._groups(cell)])

    def execute(self, context: Context) -> Any:
        """Begin the phase and wait."""
        with wrong_input_is_final():
            cell = CellRun.open(self.run_folder)
            servers = self._bootstrap_servers()
            record_phase(cell.folder, self.task_id, "started", bootstrap_servers=servers)
            now, wait_seconds = time.time(), self._longest_wait(cell)
            inline_seconds = wait_seconds
            if self.deferrable:
                inline_seconds = min(wait_seconds, self.defer_after_seconds)
            event = run_inline(self._trigger_of_run(cell, now + inline_seconds))
        if event["reason"] == Reason.TIMED_OUT and inline_seconds < wait_seconds:
            trigger = self._trigger_of_run(cell, now + wait_seconds)
            trigger.not_before_at = time.time() + DEFERRAL_SETTLES_SECONDS
            self.defer(
                trigger=trigger,
                method_name="execute_complete",
                timeout=timedelta(seconds=wait_seconds) + DEFERRAL_SLACK,
            )
        return self.execute_complete(context, event)

    def execute_complete(
        self,
        context: Context,  # noqa: ARG002 - Airflow passes it
        event: dict[str, Any],
    ) -> dict[str, Any]:
        """End the phase; return whether the state was reached, and the last reading."""
        reason, seen = Reason(event["reason"]), event["seen"]
        cell = CellRun.open(self.run_folder)
        said = f"{self.task_id}: {reason.value}, last seen {seen}"
        if reason is Reason.REFUSED:
            record_phase(cell.folder, self.task_id, "failed", detail=said)
            raise AirflowFailException(str(seen.get("error", said)))
        if reason is Reason.TIMED_OUT and self.fails_on_timeout:
            record_phase(cell.folder, self.task_id, "failed", detail=said)
            raise StillWaiting(
                f"waited {self._longest_wait(cell):.0f} s for {self.task_id}; last seen: {seen}. "
                "Look at the pods' logs, or raise the scenario's timeouts"
            )
        if reason is not Reason.REACHED:
            self.log.warning("%s; the run continues, and the verdict will report it", said)
        record_phase(
            cell.folder,
            self.task_id,
            "finished",
            bootstrap_servers=self._bootstrap_servers(),
            detail=reason.value,
        )
        return {"reached": reason is Reason.REACHED, "reason": reason.value, "seen": seen}

    def _bootstrap_servers(self) -> str:
        from lagbench_airflow.hooks.kafka import KafkaHook

        return KafkaHook(self.kafka_conn_id).bootstrap_servers
