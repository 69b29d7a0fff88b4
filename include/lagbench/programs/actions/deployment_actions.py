"""Actions on Deployments: none of their pods for a time, or all of them replaced."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.set_aside import bring_back, set_aside
from lagbench.core.cluster.manifests import set_settings
from lagbench.core.cluster.own_deployment import set_own_variables
from lagbench.core.kubernetes.workloads import is_rolled_out
from lagbench.core.scenario.actions import (
    ROLLOUT_SECONDS,
    AutoscalerDown,
    LagScalerDown,
    RollingRestart,
    restart_text,
)
from lagbench.core.scenario.own_consumer import new_variables
from lagbench.core.scenario.run_names import AUTOSCALER_DEPLOYMENT, AUTOSCALER_NAMESPACE, LAG_SCALER
from lagbench.errors import NotReady
from lagbench.programs.actions.performer import Performer

_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""The annotation that ``kubectl rollout restart`` writes."""


class DeploymentIsDown(Performer[AutoscalerDown | LagScalerDown]):
    """Takes the bench's autoscaler, or the run's lag scaler, away and brings it back."""

    def choose(self) -> list[str]:
        """Name the Deployment; without it the run has no target."""
        is_autoscaler, kube = self.action.kind == "autoscaler_down", self.stage.kube
        self._kube = kube.elsewhere(AUTOSCALER_NAMESPACE) if is_autoscaler else kube
        self._name = AUTOSCALER_DEPLOYMENT if is_autoscaler else LAG_SCALER
        if not is_autoscaler and kube.get("Deployment", LAG_SCALER) is None:
            raise NotReady(f"there is no Deployment {LAG_SCALER}: no trigger of the policy asks it")
        return [self._name]

    def act(self) -> None:
        """Scale it to zero; return when its pod has ended."""
        set_aside(self._kube, self._name)

    def undo(self) -> None:
        """Scale it back; return when its pod is Ready."""
        bring_back(self._kube, self._name)


class RollingRestarts(Performer[RollingRestart]):
    """Restarts the consumers' workload; ends when the rollout is complete."""

    def choose(self) -> list[str]:
        """Name the pods that are to go."""
        self._before = self._pods()
        return sorted(self._before.values())

    def act(self) -> None:
        """Write the annotation and what the new pods have other than before; wait for the rollout.

        :raises NotReady: the workload was deleted, or the rollout is not complete in time.
        """
        options, seen = self.stage.options, dict[str, Any]()
        kind, name = options.workload, options.deployment
        stored = self.stage.kube.get(kind, name)
        if stored is None:
            raise NotReady(f"there is no {kind} {name}")
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        changes = restart_changes(stored, self.action, stamp=stamp)
        self.stage.kube.merge(kind, name, changes)
        self.detail = restart_text(self.action)

        def is_replaced(kube: Kube) -> bool:
            found = kube.get(kind, name) or {}
            seen.update(found.get("status") or {})
            return is_rolled_out(found) and not {*self._before} & {*self._pods()}

        self.stage.kube.wait_until(
            is_replaced,
            timeout_seconds=ROLLOUT_SECONDS,
            what=f"the rollout of {kind}/{name}",
            last_seen=lambda: str({k: v for k, v in seen.items() if k != "conditions"}),
        )
        self.came = sorted(self._pods().values())

    def _pods(self) -> dict[str, str]:
        """Return the names of the pods by uid: a StatefulSet's new pod has an earlier name."""
        pods = self.stage.kube.list("Pod", label_selector=self.stage.options.pod_selector)
        return {str(pod["metadata"]["uid"]): str(pod["metadata"]["name"]) for pod in pods}


def restart_changes(
    workload: Mapping[str, Any], action: RollingRestart, *, stamp: str
) -> dict[str, Any]:
    """Return what to merge into the workload (RFC 7386: a list replaces the one before)."""
    template: dict[str, Any] = {"metadata": {"annotations": {_RESTARTED_AT: stamp}}}
    spec: dict[str, Any] = {"template": template}
    containers = copy.deepcopy(workload["spec"]["template"]["spec"]["containers"])
    if action.balancer is not None:
        set_settings(containers[0], {"balancer": action.balancer})
        template["spec"] = {"containers": containers}
    elif action.env:
        set_own_variables(containers, new_variables(action))
        template["spec"] = {"containers": containers}
    if action.at_once:
        spec["strategy"] = {"type": "Recreate", "rollingUpdate": None}
    return {"spec": spec}
