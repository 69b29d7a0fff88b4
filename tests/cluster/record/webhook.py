"""Ask a real API server with KEDA's webhook again about the kept manifests.

A row meets the cluster that its kept answer speaks of: the HPA or ScaledObject that it names, the
container without a request, and else a Deployment that has all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.cluster.lagging_group import CRON, idle_consumers
from tests.cluster.live_admission import LiveAnswer, LiveApi
from tests.cluster.policy_agreement import give_facts
from tests.cluster.record.comparison import is_repeatable
from tests.cluster.rig.versions import Versions
from tests.conformance.webhook import FIELD_VALIDATIONS, cluster_before

_NAMESPACE = "hook"
# The conditions, HPAs and events of the rows are theirs.
_OPERATOR = "Kubernetes 1.34.4 and KEDA 2.21.0"
# Stored all the same; its Deployment must not be there.
_WITHOUT_TARGET = "target-missing"
Row = Mapping[str, Any]


def ask_again(kept: Row, api: LiveApi, versions: Versions) -> dict[str, Any]:
    """Return the rows with the answers of now; one that depends on an instant stays as it is."""
    api.create_namespace(_NAMESPACE)
    facts = [fact for row in kept["rows"] if is_repeatable(row) for fact in _facts(row)]
    unique = {(fact["kind"], fact["metadata"]["name"]): fact for fact in facts}
    give_facts(api, [(fact, _NAMESPACE) for fact in unique.values()])
    rows = [_asked(api, row) if is_repeatable(row) else dict(row) for row in kept["rows"]]
    api.delete_namespace(_NAMESPACE)
    how = (
        f"{len(rows)} ScaledObjects, good and bad: what the real API server of Kubernetes "
        f"{versions.kubernetes} and the webhook of KEDA {versions.keda} answered; what the "
        f"operator made of those that were stored was recorded with {_OPERATOR}"
    )
    return {"how": how, "rows": rows}


def _asked(api: LiveApi, row: Row) -> dict[str, Any]:
    mode = FIELD_VALIDATIONS.get(row["field_validation"], "Warn")
    answer = api.send(row["manifest"], _NAMESPACE, field_validation=mode)
    asked = {**row, **_said(answer)}
    if "update" in row:
        spec = row["update"]["spec"]
        changed = {**row["manifest"], "spec": spec}
        updated = api.send(changed, _NAMESPACE, field_validation=mode)
        asked["update"] = {"spec": spec, **_said(updated)}
    return asked


def _said(answer: LiveAnswer) -> dict[str, Any]:
    # As they travel in a header, in which quotes are escaped.
    warnings = [text.replace('"', '\\"') for text in answer.warnings]
    return {
        "accepted": answer.is_accepted,
        "code": answer.code,
        "message": answer.message,
        "warnings": warnings,
    }


def _facts(row: Row) -> list[dict[str, Any]]:
    """Return what has to be there before a row is sent."""
    update = row.get("update") or {}
    manifest, message = row["manifest"], row["message"] or update.get("message") or ""
    given = {**manifest, "spec": update["spec"]} if update.get("message") else manifest
    view, _ = cluster_before(given, message, ())
    facts: list[dict[str, Any]] = [
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": hpa["metadata"],
            "spec": {**hpa["spec"], "maxReplicas": 3},
        }
        for hpa in view.hpas
    ]
    facts += [
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": scaled["metadata"],
            "spec": {**scaled["spec"], "minReplicaCount": 1, "triggers": [CRON]},
        }
        for scaled in view.scaled_objects
    ]
    target = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    is_deployment = target.get("kind", "Deployment") == "Deployment" and "name" in target
    if is_deployment and row["name"] != _WITHOUT_TARGET:
        facts.insert(0, _deployment(target["name"], has_requests=not view.workloads))
    return facts


def _deployment(name: str, *, has_requests: bool) -> dict[str, Any]:
    manifest = idle_consumers(_NAMESPACE, 0, name=name, has_node=False)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["name"] = "c"
    if not has_requests:
        del container["resources"]
    return manifest
