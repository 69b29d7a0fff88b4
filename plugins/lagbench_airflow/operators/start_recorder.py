"""Start the recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.manifest_files import base_manifest, base_objects
from lagbench.adapters.kube.ready_pods import start_limit_seconds, wait_ready
from lagbench.core.cluster import companion_for_run, recorder_for_run
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator
from lagbench_airflow.operators.imposed_limits import require_unthrottled

if TYPE_CHECKING:
    from airflow.sdk import Context


class StartRecorderOperator(CellOperator):
    """Run the recorder, which samples lag, replicas and the autoscaler's status once a second.

    After success: it samples. On failure the Deployment stays until the teardown. Safe to retry.
    """

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Apply the recorder with its account and wait until it is Ready."""
        from lagbench_airflow.hooks.kube import PATIENCE_SECONDS, embedded_access, open_kube

        embedded = embedded_access(self.kubernetes_conn_id)
        target = self.target(cell)
        manifest = recorder_for_run(
            base_manifest("recorder", "Deployment"),
            target,
            kubeconfig=embedded.kubeconfig if embedded else None,
            observed_pids=embedded.observed_pids if embedded else None,
            is_embedded=embedded is not None,
        )
        kube = open_kube(self.kubernetes_conn_id, patience_seconds=PATIENCE_SECONDS)
        try:
            if embedded is None:  # localkube has no accounts: its pods use the kubeconfig
                for companion in base_objects("recorder"):
                    kube.apply(companion_for_run(companion, target))
            kube.apply(manifest)
            within = start_limit_seconds(is_embedded=embedded is not None)
            wait_ready(kube, manifest["metadata"]["name"], 1, timeout_seconds=within)
            if embedded is None:
                require_unthrottled(kube, manifest)
        finally:
            kube.close()
        return {"recorder": manifest["metadata"]["name"]}
