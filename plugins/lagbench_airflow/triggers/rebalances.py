"""Watch a consumer group for some time and count its rebalances."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from lagbench.core.measures.rebalance import GroupLook, WatchedGroup
from lagbench_airflow.triggers.condition import ConditionTrigger, Reading


class WatchRebalancesTrigger(ConditionTrigger):
    """Fires at the end of the window, or as soon as there were more rebalances than allowed.

    ``watched`` is the watch so far (JSON): the task looks before it defers, so that the window
    begins with a known group. A triggerer that takes the trigger over begins there again; the time
    without a look is then part of the result.
    """

    def __init__(
        self,
        *,
        group: str,
        kafka_conn_id: str,
        max_rebalances: int,
        watched: Mapping[str, Any] | None = None,
        fires_from_at: float = 0.0,
        **bounds: float,
    ) -> None:
        """Name the group, the limit and the connection; no event before ``fires_from_at``."""
        super().__init__(**bounds)
        self.group, self.kafka_conn_id = group, kafka_conn_id
        self.max_rebalances, self.fires_from_at = max_rebalances, fires_from_at
        self.begun = None if watched is None else dict(watched)
        self.watched = None if watched is None else WatchedGroup.model_validate(watched)

    def parameters(self) -> dict[str, Any]:
        """Return the arguments: the watch as it began, without the looks of this process."""
        return {
            "group": self.group,
            "kafka_conn_id": self.kafka_conn_id,
            "max_rebalances": self.max_rebalances,
            "watched": self.begun,
            "fires_from_at": self.fires_from_at,
        }

    def read(self) -> Reading:
        """Look once and count."""
        admin = self.clients.kafka_admin(self.kafka_conn_id)
        admin.check_reachable()  # see ConsumerGroupStableTrigger.described
        group = admin.describe_group(self.group)
        # A static member comes back with another member id, and nothing is assigned again.
        holdings = ((m.instance_id or m.member_id, m.partitions) for m in group.members)
        look = GroupLook.of(time.time(), group.state, holdings)
        self.watched = (
            WatchedGroup.first(look) if self.watched is None else self.watched.after(look)
        )
        is_met = self.watched.rebalances > self.max_rebalances and time.time() >= self.fires_from_at
        return Reading(is_met=is_met, seen={"watched": self.watched.model_dump(mode="json")})
