"""Start the player of the scenario's actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.adapters.kube.pod_logs import last_words
from lagbench.core.cluster.jobs import actions_job_for_run, swapped_policy_for_run
from lagbench.core.kubernetes.readiness import is_ready
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.errors import NotReady
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


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
