"""Start the consumers under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube import Kube
from lagbench.adapters.manifest_files import base_manifest, base_objects
from lagbench.core.manifests import companion_for_run, consumer_for_run
from lagbench.core.policy_limits import policy_limits
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

READY_TIMEOUT_SECONDS = 180.0


class RunConsumersOperator(CellOperator):
    """Run the consumers' Deployment at the policy's floor.

    After success: every pod is Ready. On failure the Deployment stays, for a look at its pods; the
    run's teardown deletes it. A retry applies the same manifest again and is safe.
    """

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Apply the Deployment and wait for its pods."""
        from lagbench_airflow.hooks.kube import embedded_access, open_kube

        target = self.target(cell)
        replicas = policy_limits(cell.policy).floor_replicas
        manifest = consumer_for_run(
            base_manifest("consumer", "Deployment"),
            target,
            cell.scenario.consumer,
            replicas=replicas,
        )
        kube = open_kube(self.kubernetes_conn_id)
        try:
            if embedded_access(self.kubernetes_conn_id) is None:  # localkube drains no nodes
                for companion in base_objects("consumer"):
                    kube.apply(companion_for_run(companion, target))
            kube.apply(manifest)
            wait_ready(kube, manifest["metadata"]["name"], replicas)
        finally:
            kube.close()
        return {
            "replicas": replicas,
            "args": manifest["spec"]["template"]["spec"]["containers"][0]["args"],
        }


def wait_ready(kube: Kube, deployment: str, replicas: int) -> None:
    """Wait until the Deployment's controller has seen its newest spec and all pods are Ready."""
    seen: dict[str, Any] = {}

    def is_ready(kube: Kube) -> bool:
        found = kube.get("Deployment", deployment) or {}
        seen.clear()
        seen.update(found.get("status") or {})
        generation = (found.get("metadata") or {}).get("generation", 0)
        is_current = seen.get("observedGeneration", 0) >= generation
        return is_current and (seen.get("readyReplicas") or 0) >= replicas

    kube.wait_until(
        is_ready,
        timeout_seconds=READY_TIMEOUT_SECONDS,
        what=f"{replicas} Ready pods of Deployment/{deployment}",
        last_seen=lambda: str(seen),
    )
