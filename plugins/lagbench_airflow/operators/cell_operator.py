"""The base of every operator of a cell: the run folder, the connections, the phases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from lagbench.core.cluster import RunTarget
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.failures import wrong_input_is_final
from lagbench_airflow.kills import ends_when_killed
from lagbench_airflow.phases import phase

if TYPE_CHECKING:
    from airflow.sdk import Context


class CellOperator(BaseOperator):
    """A task that acts on one run.

    :param run_folder: folder that ``plan_cell`` created (templated).
    """

    template_fields: Sequence[str] = ("run_folder",)
    is_measured: ClassVar[bool] = True
    """The task runs between the creation of the topics and the fence: its phase is telemetry."""
    is_of_run: ClassVar[bool] = False
    """The task acts once, for all consumer groups of the run; otherwise once for each."""

    def __init__(
        self,
        *,
        run_folder: str,
        kafka_conn_id: str = "kafka_default",
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        super().__init__(**kwargs)
        self.run_folder = run_folder
        self.kafka_conn_id = kafka_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id

    @abstractmethod
    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:
        """Do the task's work, of the run or of one group; returns a small JSON result."""

    def _act_for_groups(self, cell: CellRun, context: Context) -> dict[str, Any]:
        """Act for each group, one after the other; the second one's result is below its name."""
        result = self.act(cell, context)
        if cell.second is None or self.is_of_run:
            return result
        return {**result, "second_group": self.act(cell.second, context)}

    def execute(self, context: Context) -> dict[str, Any]:
        """Do the work inside a phase of the task's name."""
        with wrong_input_is_final(), ends_when_killed():
            cell = CellRun.open(self.run_folder)
            servers = self.bootstrap_servers() if self.is_measured else None
            with phase(cell.folder, self.task_id, bootstrap_servers=servers):
                return self._act_for_groups(cell, context)

    def target(self, cell: CellRun) -> RunTarget:
        """Return the target of the run's manifests; pods may reach Kafka by another address."""
        from lagbench_airflow.hooks.kube import settings_of_cluster

        cluster = settings_of_cluster(self.kubernetes_conn_id)
        servers = cluster.bootstrap_servers or self.bootstrap_servers()
        return RunTarget(cell.names, servers, cluster, cell.scenario.consumer.workload)

    def bootstrap_servers(self) -> str:
        """Return the servers of the connection, as Airflow's tasks reach them."""
        from lagbench_airflow.hooks.kafka import KafkaHook

        return KafkaHook(self.kafka_conn_id).bootstrap_servers
