"""Start the recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.core.cluster.manifests import recorder_for_run
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


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
