"""Sensor on the replicas of a Deployment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.task_life import require
from lagbench_airflow.triggers.conditions import ReplicasSettled


class ReplicasSettledSensor(ConditionSensor):
    """Succeed when a Deployment has as many pods as it wants, all available, none terminating.

    All pods are of the newest template: a rollout or a scaling in progress is not settled.

    :param deployment: its name (templated, as namespace, connection, both replicas and hold).
    :param namespace: None: the namespace of the connection.
    :param min_replicas: settled at fewer replicas does not count.
    :param max_replicas: settled at more replicas does not count; None: no limit.
    :param kubernetes_conn_id: connection of type ``kubernetes``, as the provider reads it.
    """

    number_fields = ("min_replicas", "max_replicas", "hold")
    template_fields: Sequence[str] = (
        *("deployment", "namespace", "kubernetes_conn_id", *number_fields),
    )

    def __init__(
        self,
        *,
        deployment: str,
        namespace: str | None = None,
        min_replicas: int = 0,
        max_replicas: int | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        super().__init__(**kwargs)
        self.deployment, self.namespace = deployment, namespace
        self.min_replicas, self.max_replicas = min_replicas, max_replicas
        self.kubernetes_conn_id = kubernetes_conn_id
        self.check_numbers("min_replicas", "max_replicas")

    def check_numbers(self, *names: str, is_rendered: bool = False) -> None:
        """Reject negative numbers, and a least above the most."""
        super().check_numbers(*names, is_rendered=is_rendered)
        if "max_replicas" in names and isinstance(most := self.max_replicas, int):
            least, allowed = self.min_replicas, "min_replicas or more"
            holds = not isinstance(least, int) or most >= least
            require(self.task_id, "max_replicas", most, allowed, holds=holds)

    def condition(self) -> ReplicasSettled:
        """Return the condition: as wanted, nothing in motion."""
        return ReplicasSettled(
            workload=self.deployment,
            namespace=self.namespace,
            least=self.min_replicas,
            most=self.max_replicas,
            kubernetes_conn_id=self.kubernetes_conn_id,
        )
