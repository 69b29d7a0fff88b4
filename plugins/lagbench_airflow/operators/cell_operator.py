"""The base of every operator of a cell: run folder, connections, cluster and phase."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from lagbench.adapters.kube.cluster_check import base_objects
from lagbench.adapters.kube.ready_pods import start_limit_seconds, wait_ready
from lagbench.core.cluster.manifests import RunTarget, claim_for_cluster, companion_for_run
from lagbench.core.cluster.rejected_pods import imposed_cpu_limits, sets_cpu_limit
from lagbench.core.kubernetes.workload_state import selector_string
from lagbench.errors import NotReady, WrongInput
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.task_life import ends_when_killed, phase, wrong_input_is_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lagbench.adapters.kube.kube import Kube, Manifest
    from lagbench_airflow.hooks.kube import EmbeddedAccess


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster in which a group's pods run; ``embedded``: it is localkube."""

    kube: Kube
    target: RunTarget
    embedded: EmbeddedAccess | None

    @property
    def is_embedded(self) -> bool:
        """Whether its pods are processes of this machine."""
        return self.embedded is not None

    @property
    def start_seconds(self) -> float:
        """How long a pod of lagbench's own images may take to be Ready."""
        return start_limit_seconds(is_embedded=self.is_embedded)

    def apply_companions(self, folder: str, *, only_on_cluster: bool = True) -> None:
        """Apply what is beside a workload in its folder of k8s/base.

        Most of it only a cluster needs: localkube has no accounts, no volumes, and drains no nodes.
        A claim is created once: its class and size cannot change.
        """
        if only_on_cluster and self.is_embedded:
            return
        for companion in base_objects(folder):
            if companion["kind"] != "PersistentVolumeClaim":
                self.kube.apply(companion_for_run(companion, self.target))
            elif not self.is_embedded and (claim := claim_for_cluster(companion, self.target)):
                self.kube.create_missing(claim)

    def start(self, workload: Manifest, *, within_seconds: float | None = None) -> None:
        """Apply a workload and wait until its pods are Ready."""
        self.kube.apply(workload)
        wait_ready(
            self.kube,
            workload["metadata"]["name"],
            workload["spec"].get("replicas", 1),
            kind=workload["kind"],
            timeout_seconds=self.start_seconds if within_seconds is None else within_seconds,
        )
        if not self.is_embedded:  # localkube has no LimitRanges
            self._require_unthrottled(workload)

    def _require_unthrottled(self, workload: Manifest) -> None:
        labels = workload["spec"]["template"]["metadata"]["labels"]
        for pod in self.kube.list("Pod", label_selector=selector_string({"matchLabels": labels})):
            for container, limit in imposed_cpu_limits(workload, pod).items():
                try:
                    ranges = filter(sets_cpu_limit, self.kube.list("LimitRange"))
                    names = ", ".join(found["metadata"]["name"] for found in ranges)
                except NotReady:  # the account "runner" may not list them
                    names = ""
                by = f"LimitRange/{names}" if names else "A LimitRange or a webhook"
                raise WrongInput(
                    where=f"Pod/{pod['metadata']['name']}, container {container}",
                    field="resources.limits.cpu",
                    value=limit,
                    allowed="no limit, as in k8s/base: the run would measure throttled pods. "
                    f"{by} in namespace {self.kube.namespace} sets it. Remove its default for CPU, "
                    "or name another namespace in the target's settings",
                )


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

    def execute(self, context: Context) -> dict[str, Any]:
        """Do the work inside a phase of the task's name; a second group's result has its name."""
        with wrong_input_is_final(), ends_when_killed():
            cell = CellRun.open(self.run_folder)
            servers = self.bootstrap_servers() if self.is_measured else None
            with phase(cell.folder, self.task_id, bootstrap_servers=servers):
                result = self.act(cell, context)
                if cell.second is None or self.is_of_run:
                    return result
                return {**result, "second_group": self.act(cell.second, context)}

    @contextmanager
    def opened(self, cell: CellRun) -> Iterator[Place]:
        """Open the cluster for a run or one of its groups; pods may reach Kafka elsewhere."""
        from lagbench_airflow.hooks import kube as hook

        cluster = hook.settings_of_cluster(self.kubernetes_conn_id)
        servers = cluster.bootstrap_servers or self.bootstrap_servers()
        target = RunTarget(cell.names, servers, cluster, cell.scenario.consumer.workload)
        embedded = hook.embedded_access(self.kubernetes_conn_id)
        kube = hook.open_kube(self.kubernetes_conn_id, patience_seconds=hook.PATIENCE_SECONDS)
        with closing(kube):
            yield Place(kube, target, embedded)

    def bootstrap_servers(self) -> str:
        """Return the servers of the connection, as Airflow's tasks reach them."""
        from lagbench_airflow.hooks.kafka import KafkaHook

        return KafkaHook(self.kafka_conn_id).bootstrap_servers
