"""The base of the operators of a run, and those that start what accompanies its consumers."""

from __future__ import annotations

import inspect
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import yaml
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from lagbench.adapters.kube.cluster_check import base_manifest, base_objects
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import last_words, start_limit_seconds, wait_ready
from lagbench.core.cluster.lease import longest_run_seconds
from lagbench.core.cluster.manifests import (
    RunTarget,
    claim_for_cluster,
    companion_for_run,
    recorder_for_run,
)
from lagbench.core.cluster.run_jobs import actions_job_for_run, swapped_policy_for_run
from lagbench.core.workload_state import (
    imposed_cpu_limits,
    is_ready,
    selector_string,
    sets_cpu_limit,
)
from lagbench.errors import NotReady, WrongInput
from lagbench.orchestrator.airflow_supervisor import airflow_pid
from lagbench.programs.live.run_follower import LONGEST_SECONDS
from lagbench.results.cell_run import CellRun
from lagbench.results.phases import phase
from lagbench.results.stopped_run import pods_of
from lagbench_airflow.hooks import kafka
from lagbench_airflow.hooks import kube as hook
from lagbench_airflow.task_life import ends_when_killed, wrong_input_is_final
from localkube.processes import start_detached

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lagbench.adapters.kube.kube import Manifest
    from lagbench.core.scenario.run_names import RunNames
    from lagbench_airflow.hooks.kube import EmbeddedAccess


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster in which a group's pods run; ``embedded``: it is localkube."""

    kube: Kube
    target: RunTarget
    embedded: EmbeddedAccess | None

    @property
    def is_embedded(self) -> bool:
        """Return whether its pods are processes of this machine."""
        return self.embedded is not None

    @property
    def start_seconds(self) -> float:
        """The time that a pod of lagbench's own images may take to be Ready."""
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


@contextmanager
def opened_place(
    names: RunNames,
    kafka_conn_id: str = "kafka_default",
    kubernetes_conn_id: str = hook.DEFAULT_CONNECTION,
    **target: Any,
) -> Iterator[Place]:
    """Open the cluster of a connection for the pods of a group; they may reach Kafka elsewhere.

    :param target: further fields of ``RunTarget``.
    """
    cluster = hook.settings_of_cluster(kubernetes_conn_id)
    servers = cluster.bootstrap_servers or kafka.KafkaHook(kafka_conn_id).bootstrap_servers
    embedded, patience = hook.embedded_access(kubernetes_conn_id), hook.PATIENCE_SECONDS
    with closing(hook.open_kube(kubernetes_conn_id, patience_seconds=patience)) as kube:
        yield Place(kube, RunTarget(names, servers, cluster, **target), embedded)


class CellOperator(BaseOperator):
    """A task that acts on one run.

    :param run_folder: folder that ``plan_cell`` created, or its run id (templated).
    """

    template_fields: Sequence[str] = ("run_folder",)
    is_measured: ClassVar[bool] = True
    """The task runs between the creation of the topics and the fence: its phase is telemetry."""
    is_of_run: ClassVar[bool] = False
    """The task acts once, for all consumer groups of the run; otherwise once for each."""

    def __init__(self, *, run_folder: str, **kwargs: Any) -> None:
        """Keep the arguments; nothing is read before the task runs."""
        super().__init__(**{"doc_md": inspect.getdoc(type(self)), **kwargs})
        self.run_folder = run_folder

    @abstractmethod
    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:
        """Do the task's work, of the run or of one group; returns a small JSON result."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Do the work inside a phase of the task's name; a second group's result has its name."""
        with wrong_input_is_final(), ends_when_killed():
            cell = CellRun.open(self.run_folder)
            groups = self.acts_on(cell)
            if not groups:
                raise AirflowSkipException("the run has no such consumers")
            servers = self.bootstrap_servers() if self.is_measured else None
            with phase(cell.folder, self.task_id, bootstrap_servers=servers):
                of_group = {one.names.is_second: self.act(one, context) for one in groups}
            second = {"second_group": of_group[True]} if True in of_group else {}
            return {**of_group.get(False, {}), **second}

    def acts_on(self, cell: CellRun) -> Sequence[CellRun]:
        """Return the groups on which it acts; the task is skipped without one."""
        return [cell] if self.is_of_run else cell.groups

    def opened(self, cell: CellRun) -> AbstractContextManager[Place]:
        """Open the cluster for a run or one of its groups."""
        return opened_place(cell.names, workload=cell.scenario.consumer.workload)

    def bootstrap_servers(self) -> str:
        """Return the servers of the connection, as Airflow's tasks reach them."""
        return kafka.KafkaHook().bootstrap_servers


class FollowRunOperator(CellOperator):
    """Start the follower, which writes ``live.jsonl`` of the run folder during the run.

    It runs beside Airflow, which owns the run folder, on a cluster too. It ends with the run or
    with this Airflow. After success: it was started. No measure needs it, so a start that fails is
    logged and the run continues without a live page. Safe to retry: a second follower ends at once.
    """

    is_of_run = True

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Start the program with the servers that Airflow itself uses."""
        longest = min(longest_run_seconds(cell.scenario), LONGEST_SECONDS)
        flags = {
            "--run-folder": cell.folder.path.absolute(),
            "--bootstrap-servers": self.bootstrap_servers(),
            "--owner-pid": airflow_pid(),
            "--longest-seconds": longest,
        }
        command = [sys.executable, "-m", "lagbench.programs.live"]
        command += [str(part) for flag in flags.items() for part in flag]
        try:
            with (cell.folder.logs / "live.log").open("ab") as output:
                return {"follower": start_detached(command, log=output)}
        except OSError as error:
            self.log.warning("the run continues without a live page: %s", error)
            return {"follower": None}


class StartRecorderOperator(CellOperator):
    """Run the recorder, which samples lag, replicas and the autoscaler's status once a second.

    After success: it samples. On failure the Deployment stays until the teardown. Safe to retry.
    """

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Apply the recorder with its account and wait until it is Ready."""
        with self.opened(cell) as place:
            place.apply_companions("recorder")
            embedded = place.embedded
            manifest = recorder_for_run(
                base_manifest("recorder", "Deployment"),
                place.target,
                kubeconfig=embedded.kubeconfig if embedded else None,
                observed_pids=embedded.observed_pids if embedded else None,
                is_embedded=place.is_embedded,
            )
            place.start(manifest)
        return {"recorder": manifest["metadata"]["name"]}


class StartActionsOperator(CellOperator):
    """Create the player's Job, which then waits for the stream; nothing without actions.

    After success: the player is Ready. On failure the Job may exist; the teardown deletes it. A
    retry finds the Job of the run and waits for the same pod: no action is played twice.
    """

    is_of_run = True

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Create the Job with its account and wait until its pod is Ready."""
        scenario, job = cell.scenario, cell.names.actions_job
        if not scenario.actions:
            return {"actions": 0}
        with self.opened(cell) as place:
            policies = {
                number: swapped_policy_for_run(
                    policy.manifest, place.target, number=number, is_embedded=place.is_embedded
                )
                for number, policy in cell.swapped.items()
            }
            for number, manifest in policies.items():
                text = yaml.safe_dump(manifest, sort_keys=False)
                cell.folder.write_text(cell.folder.swapped_policy(number), text)
            base, limits = base_manifest("actions", "Job"), cell.policy.limits
            made = actions_job_for_run(base, place.target, scenario, limits, policies=policies)
            place.apply_companions("actions")
            place.kube.create(made)

            def is_player_ready(kube: Kube) -> bool:
                for pod in pods_of(kube, cell.names.run_id, job):
                    if (pod.get("status") or {}).get("phase") == "Failed":
                        told = "the player of the actions ended before the stream"
                        raise NotReady(f"{told}{last_words(kube, pod)}")
                    if is_ready(pod):
                        return True
                return False

            what, within = f"the pod of Job/{job}", place.start_seconds
            place.kube.wait_until(is_player_ready, timeout_seconds=within, what=what)
        return {"actions": len(scenario.actions), "job": job}
