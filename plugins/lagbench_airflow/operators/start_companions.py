"""Start the program that follows the run for its live page."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import psutil
import yaml

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.ready_pods import last_words
from lagbench.adapters.process.processes import start_detached
from lagbench.core.cluster.lease import longest_run_seconds
from lagbench.core.cluster.manifests import recorder_for_run
from lagbench.core.cluster.run_jobs import actions_job_for_run, swapped_policy_for_run
from lagbench.core.kubernetes.workload_state import is_ready
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.errors import NotReady
from lagbench.orchestrator.airflow_supervisor import is_airflow
from lagbench.programs.live.follower_settings import LONGEST_SECONDS
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class FollowRunOperator(CellOperator):
    """Start the follower, which writes ``live.jsonl`` of the run folder during the run.

    It runs beside Airflow, which owns the run folder, on a cluster too. It ends with the run or
    with this Airflow. After success: it was started. No measure needs it, so a start that fails is
    logged and the run continues without a live page. Safe to retry: a second follower ends at once.
    """

    is_of_run = True

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Start the program with the servers that Airflow itself uses."""
        command = [sys.executable, "-m", "lagbench.programs.live"]
        command += ["--run-folder", str(cell.folder.path.absolute())]
        command += ["--bootstrap-servers", self.bootstrap_servers()]
        command += ["--owner-pid", str(airflow_pid())]
        longest = min(longest_run_seconds(cell.scenario), LONGEST_SECONDS)
        command += ["--longest-seconds", str(longest)]
        log = cell.folder.logs / "live.log"
        try:
            with log.open("ab") as output:
                pid = start_detached(command, log=output)
        except OSError as error:
            self.log.warning("the run continues without a live page: %s", error)
            return {"follower": None}
        return {"follower": pid}


_SUPERVISOR = "lagbench.orchestrator.airflow_supervisor"


def airflow_pid() -> int:
    """Return the outermost process of Airflow above this task; this process if none is above it.

    With ``airflow dags test`` that is the task's own process, else the scheduler, the worker of an
    executor, or what starts a scheduler that has ended again (``lagbench ui``).
    """
    own = psutil.Process(os.getpid())
    line = [own, *own.parents()]
    return line[outermost_airflow([_words(process) for process in line])].pid


def outermost_airflow(commands: Sequence[Sequence[str]]) -> int:
    """Return the last place with a command of Airflow, 0 if there is none; the task is first."""
    of_airflow = [
        place for place, words in enumerate(commands) if _SUPERVISOR in words or is_airflow(words)
    ]
    return max(of_airflow, default=0)


def _words(process: psutil.Process) -> Sequence[str]:
    try:
        found: list[str] = process.cmdline()
    except psutil.Error:  # it has ended, or is not ours to see
        return ()
    return found


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
        if not cell.scenario.actions:
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
            job = actions_job_for_run(
                base_manifest("actions", "Job"),
                place.target,
                cell.scenario,
                cell.policy.limits,
                policies=policies,
            )
            place.apply_companions("actions")
            place.kube.create(job)
            _wait_ready(place.kube, cell, place.start_seconds)
        return {"actions": len(cell.scenario.actions), "job": cell.names.actions_job}


def _wait_ready(kube: Kube, cell: CellRun, timeout_seconds: float) -> None:
    job = cell.names.actions_job

    def is_player_ready(kube: Kube) -> bool:
        pods = kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={cell.names.run_id}")
        own = [pod for pod in pods if str(pod["metadata"]["name"]).startswith(f"{job}-")]
        for pod in own:
            if (pod.get("status") or {}).get("phase") == "Failed":
                words = last_words(kube, pod)
                raise NotReady(f"the player of the actions ended before the stream: {words}")
            if is_ready(pod):
                return True
        return False

    kube.wait_until(is_player_ready, timeout_seconds=timeout_seconds, what=f"the pod of Job/{job}")
