"""Fill in and check StatefulSets as the API server of Kubernetes 1.34 does.

``volumeClaimTemplates`` are rejected, because localkube has no volumes.
"""

from __future__ import annotations

import re

from lagbench.core.kubernetes import selector_string
from lagbench.localkube.objects import JsonObject
from lagbench.localkube.storage.defaults import default_pod_spec
from lagbench.localkube.storage.selectors import label_matcher
from lagbench.localkube.storage.validation import Faults, integer_faults, pod_spec_faults

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POLICIES = ("OrderedReady", "Parallel")
_STRATEGIES = ("RollingUpdate", "OnDelete")
_MAY_CHANGE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


def default_stateful_set(stateful_set: JsonObject) -> None:
    """Fill in a StatefulSet: one replica, in order, rolling update of all pods."""
    spec = stateful_set.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def stateful_set_faults(stateful_set: JsonObject) -> Faults:
    """Check a StatefulSet."""
    spec, name = stateful_set["spec"], str(stateful_set["metadata"].get("name"))
    faults = _label_faults("metadata.name", name)  # it becomes a host name
    if spec["podManagementPolicy"] not in _POLICIES:
        given = spec["podManagementPolicy"]
        faults.append(("spec.podManagementPolicy", _one_of(given, _POLICIES)))
    faults += _strategy_faults(spec["updateStrategy"])
    for field in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        faults += integer_faults(spec, field, "spec", lowest=0)
    faults += integer_faults(spec.get("ordinals") or {}, "start", "spec.ordinals", lowest=0)
    if spec.get("serviceName"):
        faults += _label_faults("spec.serviceName", str(spec["serviceName"]))
    if spec.get("volumeClaimTemplates"):
        message = "Unsupported value: localkube has no volumes; name a real cluster as the target"
        faults.append(("spec.volumeClaimTemplates", message))
    return faults + _template_faults(spec)


def stateful_set_change_faults(before: JsonObject, after: JsonObject) -> Faults:
    """Reject a change of a field that cannot change after creation."""
    old, new = before["spec"], after["spec"]
    fixed = (set(old) | set(new)) - _MAY_CHANGE
    if all((old.get(field) or None) == (new.get(field) or None) for field in fixed):
        return []
    message = (
        "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', "
        "'template', 'updateStrategy', 'revisionHistoryLimit', "
        "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    )
    return [("spec", message)]


def _strategy_faults(strategy: JsonObject) -> Faults:
    path, rolling = "spec.updateStrategy", strategy.get("rollingUpdate")
    if strategy["type"] not in _STRATEGIES:
        return [(path, _one_of(strategy["type"], _STRATEGIES))]
    if strategy["type"] == "OnDelete":
        message = f"Invalid value: {rolling!r}: only allowed for updateStrategy 'RollingUpdate'"
        return [(f"{path}.rollingUpdate", message)] if rolling is not None else []
    return integer_faults(rolling or {}, "partition", f"{path}.rollingUpdate", lowest=0)


def _template_faults(spec: JsonObject) -> Faults:
    template, faults = spec["template"], Faults()
    selector = spec.get("selector")
    if not isinstance(selector, dict):
        faults.append(("spec.selector", "Required value"))
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        message = f"Invalid value: {selector!r}: empty selector is invalid for statefulset"
        faults.append(("spec.selector", message))
    else:
        labels = template["metadata"].get("labels") or {}
        if not label_matcher(selector_string(selector))(labels):
            message = f"Invalid value: {labels!r}: `selector` does not match template `labels`"
            faults.append(("spec.template.metadata.labels", message))
    faults += pod_spec_faults(template.get("spec"), "spec.template.spec")
    if template["spec"].get("restartPolicy") != "Always":
        faults.append(("spec.template.spec.restartPolicy", "Unsupported value: only Always"))
    if template["spec"].get("activeDeadlineSeconds") is not None:
        message = "Forbidden: activeDeadlineSeconds in StatefulSet is not Supported"
        faults.append(("spec.template.spec.activeDeadlineSeconds", message))
    return faults


def _label_faults(field: str, value: str) -> Faults:
    if _LABEL.fullmatch(value):
        return []
    message = (
        f"Invalid value: {value!r}: a lowercase RFC 1123 label must consist of lower case "
        "alphanumeric characters or '-', and must start and end with an alphanumeric character, "
        "with at most 63 characters"
    )
    return [(field, message)]


def _one_of(value: object, allowed: tuple[str, ...]) -> str:
    return f"Invalid value: {value!r}: must be '{allowed[0]}' or '{allowed[1]}'"
