"""The base of every sensor of a run: what it waits for is read from the run folder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowFailException

from lagbench.errors import StillWaiting
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.failures import wrong_input_is_final
from lagbench_airflow.phases import record_phase
from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.triggers.condition import ConditionTrigger, Reason
from lagbench_airflow.triggers.every_group import trigger_of_groups

if TYPE_CHECKING:
    from airflow.sdk import Context


class RunSensor(ConditionSensor):
    """Waits for a state of one run as a sensor of any Dag does, and records its phase.

    How long it waits is the scenario's, not ``timeout``: a state that is not reached is a result of
    most waits, and the verdict judges it.

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
        poke_interval: float = 0.5,
        kafka_conn_id: str = "kafka_default",
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        super().__init__(
            deferrable=deferrable,
            defer_after_seconds=defer_after_seconds,
            poke_interval=poke_interval,
            **kwargs,
        )
        self.run_folder = run_folder
        self.kafka_conn_id = kafka_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id

    @abstractmethod
    def wait_seconds(self, cell: CellRun) -> float:
        """Return how long the wait may last, for the run or one group."""

    @abstractmethod
    def trigger(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        """Return the condition to wait for, of the run or of one group."""

    def condition(self, deadline_at: float) -> ConditionTrigger:
        """Return the condition of the run: that of each of its groups."""
        return self._condition_of(CellRun.open(self.run_folder), deadline_at)

    def _condition_of(self, cell: CellRun, deadline_at: float) -> ConditionTrigger:
        groups = self._groups(cell)
        return trigger_of_groups([self.trigger(group, deadline_at) for group in groups])

    def check_connections(self) -> None:
        """Read the connection to Kafka, which every phase needs."""
        self._bootstrap_servers()

    def _groups(self, cell: CellRun) -> tuple[CellRun, ...]:
        return (cell,) if self.is_of_run else cell.groups

    def _longest_wait(self, cell: CellRun) -> float:
        return max(self.wait_seconds(group) for group in self._groups(cell))

    def execute(self, context: Context) -> Any:
        """Begin the phase and wait."""
        with wrong_input_is_final():
            cell = CellRun.open(self.run_folder)
            servers = self._bootstrap_servers()
            record_phase(cell.folder, self.task_id, "started", bootstrap_servers=servers)
            event = self.await_event(
                lambda deadline_at: self._condition_of(cell, deadline_at), self._longest_wait(cell)
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
            why = str(seen.get("error", said))
            record_phase(cell.folder, self.task_id, "failed", detail=why)
            raise AirflowFailException(why)
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
