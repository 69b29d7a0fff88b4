"""Put a scaling policy into force."""

from __future__ import annotations

import difflib
import time
from typing import TYPE_CHECKING, Any

import yaml

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.manifest_files import base_manifest, base_objects
from lagbench.adapters.runs.run_manifest import add_versions
from lagbench.core.cluster import (
    HPA,
    POLICY_KINDS,
    SCALED_OBJECT,
    RunTarget,
    asks_lag_scaler,
    asks_prometheus,
    claim_for_cluster,
    companion_for_run,
    is_foreign,
    lag_scaler_for_run,
    policy_for_run,
    prometheus_for_run,
)
from lagbench.core.keda.loop import is_driven, is_handed_over
from lagbench.core.measures import NANOSECONDS
from lagbench.core.policy import PolicyLimits, aligned_start_ns, stream_windows
from lagbench.core.scenario import (
    POLICY_OBJECT,
    RECORDER_DEPLOYMENT,
    RUN_ID_ANNOTATION,
    RUN_ID_LABEL,
)
from lagbench.errors import NotReady
from lagbench_airflow.bench_versions import autoscaler_version
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator
from lagbench_airflow.operators.run_consumers import wait_ready

if TYPE_CHECKING:
    from airflow.sdk import Context

TAKEN_UP_TIMEOUT_SECONDS = 120.0
START_LEAD_SECONDS = 30.0
"""From placing cron windows to the stream: the policy is taken up, and the producer starts."""
RECORDER_METRICS_ANNOTATION = "lagbench.io/port-metrics"
KEDA_HPA = f"keda-hpa-{POLICY_OBJECT}"


class ApplyScalingPolicyOperator(CellOperator):
    """Make the run's policy the one that drives the consumers.

    After success: the object matches the policy (server-side apply: nothing of an earlier policy
    is left in it), no policy of the other kind exists, the lag scaler and on the embedded bench
    Prometheus are Ready if a trigger uses them, and the autoscaler has taken up the policy. On
    failure the policy may be in force; the teardown deletes it. An object with the policy's name
    that no run has created stays unchanged, and nothing is applied. A retry is safe.
    """

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Swap the policy and wait for the autoscaler."""
        from lagbench_airflow.hooks.kube import PATIENCE_SECONDS, embedded_access, open_kube

        is_embedded = embedded_access(self.kubernetes_conn_id) is not None
        target = self.target(cell)
        manifest = policy_for_run(
            cell.policy.manifest,
            target,
            is_embedded=is_embedded,
            starts_at_ns=_planned_start(cell),
        )
        kube = open_kube(self.kubernetes_conn_id, patience_seconds=PATIENCE_SECONDS)
        try:
            _refuse_foreign_policy(kube)
            before = _policy_in_force(kube)
            if asks_lag_scaler(manifest):
                _start_lag_scaler(kube, target, is_embedded=is_embedded)
            if is_embedded and asks_prometheus(manifest):
                _start_prometheus(kube, target)
            _delete_other_kind(kube, manifest["kind"])
            applied = kube.apply(manifest)
            difference = policy_diff(before, applied)
            hpa = _wait_taken_up(kube, manifest, cell.policy.limits, is_changed=bool(difference))
        finally:
            kube.close()
        self.log.info("policy in force, old -> new:\n%s", difference or "(no change)")
        cell.folder.write_text(cell.folder.policy, yaml.safe_dump(manifest, sort_keys=False))
        cell.folder.write_text("policy.diff", difference)
        versions = autoscaler_version(manifest, hpa, is_embedded=is_embedded)
        add_versions(cell.folder, versions)
        del hpa["metadata"]
        cell.folder.write_json("hpa.json", hpa)
        return {
            "kind": manifest["kind"],
            "generation": applied["metadata"].get("generation"),
            "hpa": hpa["name"],
            "diff": difference,
        }


def _planned_start(cell: CellRun) -> int | None:
    """Return the start of the stream that the policy's cron windows need; None: it has none.

    It is noted in the manifest; a retry keeps it while it can still be met.
    """
    windows = stream_windows(cell.policy.manifest, where=str(cell.folder.policy))
    if not windows:
        return None
    earliest_ns = time.time_ns() + round(START_LEAD_SECONDS * NANOSECONDS)
    noted = cell.folder.read_json(cell.folder.manifest).get("stream_planned_at")
    if noted is not None and noted >= earliest_ns:
        return int(noted)
    planned = aligned_start_ns(windows, earliest_ns)
    cell.folder.update_manifest(stream_planned_at=planned)
    return planned


def _start_lag_scaler(kube: Kube, target: RunTarget, *, is_embedded: bool) -> None:
    """Run the lag scaler before KEDA calls it: without an answer KEDA creates no HPA."""
    for companion in base_objects("lag-scaler"):
        if companion["kind"] != "PersistentVolumeClaim":
            kube.apply(companion_for_run(companion, target))
        elif not is_embedded:  # the embedded bench has no volumes
            claim = claim_for_cluster(companion, target.cluster)
            if claim is not None:
                kube.apply(claim)
    deployment = lag_scaler_for_run(base_manifest("lag-scaler", "Deployment"), target)
    kube.apply(deployment)
    wait_ready(kube, deployment["metadata"]["name"], 1)


def _start_prometheus(kube: Kube, target: RunTarget) -> None:
    """Run Prometheus on the recorder's metrics; localkube notes the port of each pod's ports."""
    pods = kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={target.names.run_id}")
    recorders = [p for p in pods if p["metadata"]["labels"].get("app") == RECORDER_DEPLOYMENT]
    if not recorders:
        raise NotReady("the recorder has no pod: Prometheus would have nothing to scrape")
    status = recorders[0].get("status") or {}
    port = recorders[0]["metadata"]["annotations"][RECORDER_METRICS_ANNOTATION]
    for companion in base_objects("prometheus"):
        kube.apply(companion_for_run(companion, target))
    deployment = prometheus_for_run(
        base_manifest("prometheus", "Deployment"),
        target,
        scraped_address=f"{status['podIP']}:{port}",
    )
    kube.apply(deployment)
    wait_ready(kube, deployment["metadata"]["name"], 1)


def policy_diff(before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    """Return the change of the part that a person writes, as a unified diff."""
    old, new = (_written(manifest).splitlines() for manifest in (before, after))
    return "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm=""))


def _written(manifest: dict[str, Any] | None) -> str:
    if manifest is None:
        return ""
    kept = {key: manifest.get(key) for key in ("apiVersion", "kind", "spec")}
    return yaml.safe_dump(kept, sort_keys=True)


def _policy_in_force(kube: Kube) -> dict[str, Any] | None:
    for kind in POLICY_KINDS:
        found = kube.get(kind, POLICY_OBJECT)
        if found is not None:
            return found
    return None


def _refuse_foreign_policy(kube: Kube) -> None:
    """Reject a policy that the check of the cluster missed: created since, or here by hand."""
    for kind in POLICY_KINDS:
        found = kube.get(kind, POLICY_OBJECT)
        if found is not None and is_foreign(found):
            raise NotReady(
                f"{kind}/{POLICY_OBJECT} exists, and no run created it (it has no label "
                f"{RUN_ID_LABEL}): the run's policy would replace it. Delete it, or rehearse in "
                "another namespace"
            )


def _delete_other_kind(kube: Kube, kind: str) -> None:
    """Delete the other kind, and KEDA's HPA with its ScaledObject: two autoscalers would fight."""
    other = HPA if kind == SCALED_OBJECT else SCALED_OBJECT
    if not kube.delete(other, POLICY_OBJECT):
        return
    left = [(other, POLICY_OBJECT)] + ([(HPA, KEDA_HPA)] if other == SCALED_OBJECT else [])
    kube.wait_until(
        lambda kube: all(kube.get(*object_) is None for object_ in left),
        timeout_seconds=TAKEN_UP_TIMEOUT_SECONDS,
        what=f"the former {other}/{POLICY_OBJECT} to be deleted",
    )


def _wait_taken_up(
    kube: Kube, manifest: dict[str, Any], limits: PolicyLimits, *, is_changed: bool
) -> dict[str, Any]:
    """Wait until the autoscaler has read this policy; return the content of its HPA.

    That is name, spec, conditions and metadata (None while the HPA is in a controller's memory).

    KEDA has read the policy when the ScaledObject is Ready and its HPA has the policy's bounds and,
    if the policy changed, the run's id, copied from it: a swap in place may leave the bounds
    unchanged. The HPA controller has read it when it has written conditions, at its first sync
    (15 s); KEDA's HPA may not have them yet.
    """
    kind = manifest["kind"]
    name = KEDA_HPA if kind == SCALED_OBJECT else POLICY_OBJECT
    wanted = (max(limits.floor_replicas, 1), limits.ceiling_replicas)
    seen: dict[str, Any] = {}
    found: dict[str, Any] = {}

    def is_taken_up(kube: Kube) -> bool:
        policy, hpa = kube.get(kind, POLICY_OBJECT) or {}, kube.get(HPA, name) or {}
        spec = hpa.get("spec") or {}
        bounds = (spec.get("minReplicas") or 1, spec.get("maxReplicas"))
        conditions = (policy.get("status") or {}).get("conditions") or []
        seen.update(hpa_bounds=bounds, wanted_bounds=wanted, conditions=conditions)
        found.update(name=name, spec=spec, conditions=(hpa.get("status") or {}).get("conditions"))
        found.update(metadata=hpa.get("metadata"))
        if is_handed_over(manifest):  # its HPA is in the controller's memory
            return is_driven(policy)
        if kind != SCALED_OBJECT:
            return bool(conditions)
        is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
        is_of_run = not is_changed or _run_id(hpa) == _run_id(manifest)
        return is_ready and bounds == wanted and is_of_run

    kube.wait_until(
        is_taken_up,
        timeout_seconds=TAKEN_UP_TIMEOUT_SECONDS,
        what=f"the autoscaler to take up {kind}/{POLICY_OBJECT}",
        last_seen=lambda: str(seen),
    )
    return found


def _run_id(manifest: dict[str, Any]) -> str | None:
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return annotations.get(RUN_ID_ANNOTATION)
