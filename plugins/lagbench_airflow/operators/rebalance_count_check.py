"""Check in any Dag how often a consumer group rebalances while the task watches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from lagbench.core.measures.checks import rebalances_within
from lagbench.core.measures.rebalance_episodes import WatchedGroup
from lagbench.errors import NotReady
from lagbench_airflow.sensors.condition_sensor import DEFERRAL_SETTLES_SECONDS, DEFERRAL_SLACK
from lagbench_airflow.task_life import make_numbers, require, wrong_input_is_final
from lagbench_airflow.triggers.condition import ConditionTrigger, look_once, run_inline
from lagbench_airflow.triggers.conditions import TooManyRebalances

if TYPE_CHECKING:
    from airflow.sdk import Context

WATCHED_FROM = "watched_from"
"""XCom of the task: the instant (unix seconds) of its first look."""


class RebalanceCountCheckOperator(BaseOperator):
    """Watch a consumer group during a window; fail if it rebalances more often than allowed.

    After success: the group had members, was looked at during the whole window, and at most
    ``max_rebalances`` rebalances were seen. The result has the numbers. Nothing is left behind, on
    failure either. Too many rebalances end the task at once. A watch with a gap, or of a group
    without members, fails too, because it proves nothing.

    No failure is retried, ``retries`` is always 0: a retry would watch another window, and could
    pass although the first one was not watched to its end.

    Only rebalances after the first look count. The task then writes the XCom ``watched_from``, so
    that another task can wait for it before it changes something.

    :param group: the consumer group (templated, as connection, window and max_rebalances).
    :param window: seconds or timedelta to watch.
    :param max_rebalances: rebalances that are allowed in the window.
    :param poke_interval: seconds between two looks. A second rebalance between two looks is not
        seen, nor one that leaves each member its partitions.
    :param longest_gap: seconds without a look that leave the result valid; a deferral needs some.
    :param deferrable: watch in the triggerer, without a worker's slot. The default is Airflow's
        setting ``[operators] default_deferrable``.
    """

    template_fields: Sequence[str] = ("group", "kafka_conn_id", "window", "max_rebalances")

    def __init__(
        self,
        *,
        group: str,
        window: timedelta | float,
        max_rebalances: int,
        poke_interval: float = 1.0,
        longest_gap: float = 15.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        kafka_conn_id: str = "kafka_default",
        **kwargs: Any,
    ) -> None:
        """Check the numbers; nothing is read before the task runs."""
        super().__init__(**{**kwargs, "retries": 0})
        self.group, self.max_rebalances = group, max_rebalances
        self.window: Any = window
        self.poke_interval, self.longest_gap = poke_interval, longest_gap
        self.deferrable = deferrable
        self.kafka_conn_id = kafka_conn_id
        self._check_numbers(is_rendered=False)
        allowed = f"above 0, at most longest_gap ({longest_gap:g})"
        is_between = 0 < poke_interval <= longest_gap
        require(self.task_id, "poke_interval", poke_interval, allowed, holds=is_between)

    def _check_numbers(self, *, is_rendered: bool) -> None:
        make_numbers(self, ("window", "max_rebalances"), is_rendered=is_rendered)
        require(self.task_id, "window", self.window, "above 0", holds=self.window != 0)

    def pre_execute(self, context: Context) -> None:
        """Check the numbers that were templates or results of other tasks."""
        super().pre_execute(context)
        with wrong_input_is_final():
            self._check_numbers(is_rendered=True)

    def execute(self, context: Context) -> dict[str, Any]:
        """Look once, then watch until the window ends, in the triggerer if it is long enough."""
        from lagbench_airflow.hooks.kafka import KafkaHook

        KafkaHook(self.kafka_conn_id).settings()
        event = look_once(self._condition(), hold_seconds=0.0, poll_seconds=self.poke_interval)
        seen = event["seen"]
        if "watched" not in seen:
            raise NotReady(f"group {self.group} could not be read: {seen.get('error')}")
        first: dict[str, Any] = seen["watched"]
        begun_at = WatchedGroup.model_validate(first).last.at_seconds
        ends_at = begun_at + self.window
        context["ti"].xcom_push(key=WATCHED_FROM, value=begun_at)
        condition = self._condition(watched=first)
        trigger = ConditionTrigger(
            conditions={"": condition},
            deadline_at=ends_at,
            hold_seconds=0.0,
            poll_seconds=self.poke_interval,
        )
        fires_from_at = time.time() + DEFERRAL_SETTLES_SECONDS
        if self.deferrable and ends_at > fires_from_at:
            condition.fires_from_at = fires_from_at
            self.defer(
                trigger=trigger,
                method_name="execute_complete",
                kwargs={"ends_at": ends_at, "begun": first},
                timeout=timedelta(seconds=self.window) + DEFERRAL_SLACK,
            )
        return self.execute_complete(context, run_inline(trigger), ends_at=ends_at, begun=first)

    def _condition(self, **watched: Any) -> TooManyRebalances:
        return TooManyRebalances(
            group=self.group,
            kafka_conn_id=self.kafka_conn_id,
            max_rebalances=self.max_rebalances,
            **watched,
        )

    def execute_complete(
        self,
        context: Context,  # noqa: ARG002 - Airflow passes it
        event: dict[str, Any],
        ends_at: float,
        begun: dict[str, Any],
    ) -> dict[str, Any]:
        """Judge the looks; without any in the triggerer, those that began the window."""
        seen = event["seen"]
        watched = WatchedGroup.model_validate(seen.get("watched", begun))
        check = rebalances_within(
            watched,
            max_rebalances=self.max_rebalances,
            ended_at_seconds=max(ends_at, watched.last.at_seconds),
            gap_seconds=self.longest_gap,
        )
        result = {**check.numbers, "group": self.group}
        self.log.info("watched %s: %s", self.group, result)
        if check.holds:
            return result
        claim = "undetermined" if check.holds is None else "not held"
        error = f"; last error: {seen['error']}" if "error" in seen else ""
        raise AirflowFailException(
            f"at most {self.max_rebalances} rebalances of group {self.group}: {claim}, because "
            f"{'; '.join(check.reasons)}{error}. Seen: {result}"
        )
