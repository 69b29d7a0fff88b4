"""Put a policy into force in place of another, and wait until the autoscaler follows it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import yaml

from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.manifests import is_foreign
from lagbench.core.cluster.policy_manifest import HPA, POLICY_KINDS, SCALED_OBJECT
from lagbench.core.keda.loop.keda_hpa import is_driven, is_handed_over
from lagbench.core.keda.object.scaled_object_rules import hpa_name
from lagbench.core.kubernetes.workload_state import is_ready
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION, RUN_ID_LABEL, SWAP_ANNOTATION
from lagbench.errors import NotReady

TAKEN_UP_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class PutPolicy:
    """A policy in force: its difference from the one before, its generation, its HPA's content."""

    difference: str
    generation: int | None
    hpa: dict[str, Any]


def put_policy(kube: Kube, manifest: dict[str, Any], limits: PolicyLimits) -> PutPolicy:
    """Apply the policy; return when the autoscaler has taken it up.

    No policy of the other kind is left.

    :raises NotReady: the autoscaler has not taken it up in time; it may be in force.
    """
    name = manifest["metadata"]["name"]
    before = _policy_in_force(kube, name)
    _delete_other_kind(kube, manifest["kind"], name)
    applied = kube.apply(manifest)
    difference = policy_diff(before, applied)
    hpa = _wait_taken_up(kube, manifest, limits, is_changed=bool(difference))
    return PutPolicy(difference, applied["metadata"].get("generation"), hpa)


def policy_diff(before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    """Return the change of the part that a person writes, as a unified diff."""
    old, new = (_written(manifest).splitlines() for manifest in (before, after))
    return "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm=""))


def _written(manifest: dict[str, Any] | None) -> str:
    if manifest is None:
        return ""
    kept = {key: manifest.get(key) for key in ("apiVersion", "kind", "spec")}
    return yaml.safe_dump(kept, sort_keys=True)


def _policy_in_force(kube: Kube, name: str) -> dict[str, Any] | None:
    for kind in POLICY_KINDS:
        found = kube.get(kind, name)
        if found is not None:
            return found
    return None


def refuse_foreign_policy(kube: Kube, name: str) -> None:
    """Reject a policy that the check of the cluster missed: created since, or here by hand."""
    for kind in POLICY_KINDS:
        found = kube.get(kind, name)
        if found is not None and is_foreign(found):
            raise NotReady(
                f"{kind}/{name} exists, and no run created it (it has no label "
                f"{RUN_ID_LABEL}): the run's policy would replace it. Delete it, or rehearse in "
                "another namespace"
            )


def _delete_other_kind(kube: Kube, kind: str, name: str) -> None:
    """Delete the other kind, and KEDA's HPA with its ScaledObject: two autoscalers would fight."""
    other = HPA if kind == SCALED_OBJECT else SCALED_OBJECT
    found = kube.get(other, name)
    if found is None or not kube.delete(other, name):
        return
    status = found.get("status") or {}
    kedas = [(HPA, status.get("hpaName") or hpa_name(found))] if other == SCALED_OBJECT else []
    left = [(other, name), *kedas]
    kube.wait_until(
        lambda kube: all(kube.get(*object_) is None for object_ in left),
        timeout_seconds=TAKEN_UP_TIMEOUT_SECONDS,
        what=f"the former {other}/{name} to be deleted",
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
    kind, own_name = manifest["kind"], manifest["metadata"]["name"]
    name = hpa_name(manifest) if kind == SCALED_OBJECT else own_name
    wanted = (max(limits.floor_replicas, 1), limits.ceiling_replicas)
    seen: dict[str, Any] = {}
    found: dict[str, Any] = {}

    def is_taken_up(kube: Kube) -> bool:
        policy, hpa = kube.get(kind, own_name) or {}, kube.get(HPA, name) or {}
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
        is_of_run = not is_changed or _run_id(hpa) == _run_id(manifest)
        return is_ready(policy) and bounds == wanted and is_of_run

    kube.wait_until(
        is_taken_up,
        timeout_seconds=TAKEN_UP_TIMEOUT_SECONDS,
        what=f"the autoscaler to take up {kind}/{own_name}",
        last_seen=lambda: str(seen),
    )
    return found


def _run_id(manifest: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the run, and the swap in the run, that wrote the object."""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return annotations.get(RUN_ID_ANNOTATION), annotations.get(SWAP_ANNOTATION)
