"""The base of every sensor here: Airflow's own ways to wait, on one kind of condition."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from lagbench_airflow.hooks import kafka, kube
from lagbench_airflow.task_life import make_numbers, wrong_input_is_final
from lagbench_airflow.triggers.condition import (
    Condition,
    ConditionTrigger,
    Reason,
    look_once,
    run_inline,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

DEFERRAL_SLACK = timedelta(minutes=5)
"""The trigger ends the wait itself; Airflow's own limit is only a safety net."""

DEFERRAL_SETTLES_SECONDS = 10.0
"""If a trigger fires before the scheduler has seen the end of the task's process, the scheduler
takes that end for the resumed task's: "reported … finished with state success, but … is queued".
Observed with Airflow 3.3.2 when a trigger fired 4 s after the deferral on a busy machine."""


class ConditionSensor(BaseSensorOperator):
    """Waits until a condition has held for ``hold``; reads only and leaves nothing behind.

    ``timeout``, ``poke_interval``, ``mode``, ``soft_fail`` and the other arguments are those of
    every sensor of Airflow. A reading that fails (broker or API server down) breaks the hold, and
    the wait continues until ``timeout``. A timeout fails the task without a retry, or skips it with
    ``soft_fail``; the message has the last reading. Safe to retry.

    Numbers of ``template_fields`` may be templates, or results of other tasks.

    :param hold: seconds or timedelta for which the condition must hold without a break. While it
        holds it is read at least once a second. ``0``: one reading is enough.
    :param deferrable: wait in the triggerer, without a worker's slot; ``mode`` then has no effect.
        The default is Airflow's setting ``[operators] default_deferrable``.
    :param defer_after_seconds: how long the task waits itself before it defers; it reads at least
        once. After the deferral the next reading follows 10 s later at the earliest.
    """

    number_fields: ClassVar[Sequence[str]] = ("hold",)
    """Those of ``template_fields`` that are numbers."""

    def __init__(
        self,
        *,
        hold: timedelta | float = 0.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        defer_after_seconds: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Check the numbers; nothing is read before the task runs."""
        super().__init__(**kwargs)
        self.hold: Any = hold
        self.deferrable = deferrable
        self.defer_after_seconds = defer_after_seconds
        self.check_numbers("hold", "defer_after_seconds")

    def check_numbers(self, *names: str, is_rendered: bool = False) -> None:
        """Reject a negative number: when the Dag is read, or when it is rendered."""
        make_numbers(self, names, is_rendered=is_rendered)

    def pre_execute(self, context: Context) -> None:
        """Check the numbers that were templates or results of other tasks."""
        super().pre_execute(context)
        with self._soft(), wrong_input_is_final():
            self.check_numbers(*self.number_fields, is_rendered=True)

    @abstractmethod
    def condition(self) -> Condition:
        """Return what is waited for."""

    def check_connections(self) -> None:
        """Read the connections, so that a missing one ends the task at once."""
        if hasattr(self, "kafka_conn_id"):
            kafka.KafkaHook(self.kafka_conn_id).settings()
        if hasattr(self, "kubernetes_conn_id"):
            kube.settings_of_cluster(self.kubernetes_conn_id)

    def execute(self, context: Context) -> Any:
        """Wait, in the way that the arguments say; return the last reading."""
        with self._soft(), wrong_input_is_final():
            self.check_connections()
        if self.deferrable:
            with self._soft():
                event = self.await_event({"": self.condition()}, self.timeout, self.hold)
                return self.execute_complete(context, event)
        try:
            return super().execute(context)
        except AirflowSensorTimeout as error:
            raise AirflowSensorTimeout(f"{error} Last seen: {self._last_seen}") from error

    _last_seen: dict[str, Any] | None = None

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        """Read once; if the condition holds, watch it for ``hold``."""
        event = look_once(self.condition(), hold_seconds=self.hold, poll_seconds=self.poke_interval)
        self._last_seen = self._seen(event)
        is_reached = event["reason"] == Reason.REACHED
        return PokeReturnValue(is_reached, self._last_seen if is_reached else None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """End the wait: return the last reading, or time out."""
        seen = self._seen(event)
        if event["reason"] == Reason.REACHED:
            return seen
        raise AirflowSensorTimeout(
            f"{self.task_id} waited {self.timeout:g} s. Last seen: {seen or 'nothing'}"
        )

    def _seen(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the last reading of an event; fail if the input was wrong."""
        seen: dict[str, Any] = event["seen"]
        if event["reason"] == Reason.REFUSED:
            raise AirflowFailException(str(seen.get("error")))
        return seen

    @contextmanager
    def _soft(self) -> Iterator[None]:
        """End as Airflow ends a poke: ``soft_fail`` and ``never_fail`` skip the task."""
        try:
            yield
        except (AirflowSensorTimeout, AirflowFailException) as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise

    def await_event(
        self, conditions: Mapping[str, Condition], wait_seconds: float, hold_seconds: float
    ) -> dict[str, Any]:
        """Wait in this process for a while, then defer if the wait may last longer.

        The deferred wait ends in ``execute_complete``.
        """
        now, inline_seconds = time.time(), wait_seconds
        if self.deferrable and wait_seconds > self.defer_after_seconds + DEFERRAL_SETTLES_SECONDS:
            inline_seconds = self.defer_after_seconds
        trigger = ConditionTrigger(
            conditions=conditions,
            deadline_at=now + inline_seconds,
            hold_seconds=hold_seconds,
            poll_seconds=self.poke_interval,
        )
        event = run_inline(trigger)
        if event["reason"] == Reason.TIMED_OUT and inline_seconds < wait_seconds:
            trigger.deadline_at = now + wait_seconds
            trigger.not_before_at = time.time() + DEFERRAL_SETTLES_SECONDS
            self.log.info("deferred: the triggerer continues the wait")
            self.defer(
                trigger=trigger,
                method_name="execute_complete",
                timeout=timedelta(seconds=wait_seconds) + DEFERRAL_SLACK,
            )
        return event
