"""The rules of KEDA 2.21's admission webhook for ScaledObjects, with its messages.

The webhook runs its checks in random order and answers with the first that fails; here all that
fail are returned. The later checks of the *operator* (a trigger's parameters) are not in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lagbench.core.keda.object import DEFAULT_MAX_REPLICAS
from lagbench.core.kubernetes import go_quote
from lagbench.core.policy.admission.cluster import ClusterView, Manifest, target_type, type_text
from lagbench.core.policy.admission.resource_requests import request_problems
from lagbench.core.policy.admission.scaling_modifiers import modifiers_problem

RESOURCE_TRIGGERS = ("cpu", "memory")
_NEVER_CACHED = ("cpu", "memory", "cron")
_TRANSFER = "scaledobject.keda.sh/transfer-hpa-ownership"
_NOT_OWNED = "validations.keda.sh/hpa-ownership"
_LABEL_LENGTH = 63
NOT_FOUND = "not found"

POLLING_WARNING = (
    "PollingInterval is configured but is not relevant for scaling. It only affects scaling when "
    "minReplicaCount = 0, idleReplicaCount is set, or useCachedMetrics is enabled, but it still "
    "controls how often KEDA refreshes the ScaledObject status conditions and events"
)
COOLDOWN_WARNING = (
    "CooldownPeriod is configured but is not relevant. CooldownPeriod is only relevant when "
    "minReplicaCount = 0 or idleReplicaCount is set"
)


def webhook_refusals(
    manifest: Manifest, cluster: ClusterView, *, is_dry_run: bool = False
) -> list[str]:
    """Return every reason to reject, each in the webhook's words."""
    spec, target = manifest["spec"], manifest["spec"]["scaleTargetRef"]
    unknown = _unknown_kind(target, cluster)
    if unknown is not None:
        return [unknown]
    return [
        *_other_scaled_objects(manifest, cluster),
        *_modifiers(spec),
        *([] if is_dry_run else _resource_triggers(spec, cluster)),
        *_hpas(manifest, cluster),
        *_replica_counts(spec),
        *_fallback(spec),
        *_names(manifest),
        *_triggers(spec["triggers"]),
    ]


def _unknown_kind(target: Mapping[str, Any], cluster: ClusterView) -> str | None:
    api_version, kind = target_type(target)
    if api_version.count("/") > 1:
        return f"unexpected GroupVersion string: {api_version}"
    if kind in {"Deployment", "StatefulSet"} or cluster.has_kind(api_version, kind):
        return None
    return f'no matches for kind "{kind}" in version "{api_version}"'


def webhook_warnings(manifest: Manifest) -> list[str]:
    """Return what the webhook warns of when it accepts."""
    spec = manifest["spec"]
    warnings = []
    if spec.get("pollingInterval") is not None and not polling_interval_decides(spec):
        warnings.append(POLLING_WARNING)
    is_idle_unset = spec.get("idleReplicaCount") is None
    if spec.get("cooldownPeriod") is not None and is_idle_unset and spec.get("minReplicaCount"):
        warnings.append(COOLDOWN_WARNING)
    return warnings


def polling_interval_decides(spec: Mapping[str, Any]) -> bool:
    """Return whether KEDA's own loop has anything to decide, not the HPA alone."""
    return (
        not spec.get("minReplicaCount")
        or spec.get("idleReplicaCount") is not None
        or any(trigger.get("useCachedMetrics") for trigger in spec["triggers"])
        or uses_modifiers(spec)
    )


def uses_modifiers(spec: Mapping[str, Any]) -> bool:
    """Return whether any field of scalingModifiers holds something."""
    modifiers = (spec.get("advanced") or {}).get("scalingModifiers") or {}
    return any(modifiers.values())


def hpa_name(manifest: Manifest) -> str:
    """Return the name of the HPA that KEDA makes."""
    advanced = manifest["spec"].get("advanced") or {}
    given = (advanced.get("horizontalPodAutoscalerConfig") or {}).get("name")
    return given or f"keda-hpa-{_name(manifest)}"


def _name(manifest: Manifest) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "")


def _other_scaled_objects(manifest: Manifest, cluster: ClusterView) -> Iterator[str]:
    target = manifest["spec"]["scaleTargetRef"]
    others = [item for item in cluster.scaled_objects if _name(item) != _name(manifest)]
    for other in others:
        theirs = other["spec"].get("scaleTargetRef") or {}
        same_name = theirs.get("name") == target["name"]
        if same_name and type_text(theirs) == type_text(target):
            yield (
                f"the workload '{target['name']}' of type '{type_text(target)}' is already "
                f"managed by the ScaledObject '{_name(other)}'"
            )
    for other in others:
        if hpa_name(other) == hpa_name(manifest):
            yield (
                f"the HPA '{hpa_name(manifest)}' is already managed by the ScaledObject "
                f"'{_name(other)}'"
            )


def _modifiers(spec: Mapping[str, Any]) -> Iterator[str]:
    modifiers = (spec.get("advanced") or {}).get("scalingModifiers") or {}
    if uses_modifiers(spec):
        # Only named triggers that are not resource metrics are variables of the formula.
        names = [
            trigger["name"]
            for trigger in spec["triggers"]
            if trigger.get("name") and trigger["type"] not in RESOURCE_TRIGGERS
        ]
        problem = modifiers_problem(modifiers, names)
        if problem is not None:
            yield problem
    behavior = (spec.get("fallback") or {}).get("behavior")
    if behavior == "scalingModifiers" and not modifiers.get("formula"):
        yield ("scalingModifiers fallback behavior requires scalingModifiers.formula to be defined")


def _resource_triggers(spec: Mapping[str, Any], cluster: ClusterView) -> Iterator[str]:
    wanted = [item for item in spec["triggers"] if item["type"] in RESOURCE_TRIGGERS]
    api_version, kind = target_type(spec["scaleTargetRef"])
    if not wanted or (api_version, kind) not in {
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
    }:
        return
    name = spec["scaleTargetRef"]["name"]
    if cluster.lacks_workload(kind, name):
        yield f'{kind}.apps "{name}" {NOT_FOUND}'
        return
    workload = cluster.workload(kind, name)
    for trigger in wanted:
        if workload is not None:
            container = str(trigger["metadata"].get("containerName") or "")
            yield from request_problems(workload, trigger["type"], container, cluster)
    if len(wanted) == len(spec["triggers"]) and not spec.get("minReplicaCount"):
        yield (
            "scaledobject has only cpu/memory triggers AND minReplica is 0 (scale to zero doesn't "
            "work in this case)"
        )


def _hpas(manifest: Manifest, cluster: ClusterView) -> Iterator[str]:
    target = manifest["spec"]["scaleTargetRef"]
    advanced = manifest["spec"].get("advanced") or {}
    wanted_name = (advanced.get("horizontalPodAutoscalerConfig") or {}).get("name") or ""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    for hpa in cluster.hpas:
        metadata, theirs = hpa.get("metadata") or {}, hpa["spec"].get("scaleTargetRef") or {}
        if (metadata.get("annotations") or {}).get(_NOT_OWNED) == "false":
            continue
        if theirs.get("name") != target["name"]:
            continue
        unknown = _unknown_kind(theirs, cluster)
        if unknown is not None:
            yield unknown  # it cannot say whether that HPA is on the same workload
            continue
        is_other = type_text(theirs) != type_text(target)
        if is_other or _is_owner(metadata.get("ownerReferences") or (), manifest):
            continue
        workload = f"workload '{target['name']}' of type '{type_text(target)}'"
        if annotations.get(_TRANSFER) != "true":
            yield f"the {workload} is already managed by the hpa '{_name(hpa)}'"
        elif wanted_name != _name(hpa):
            yield (
                f"the existing hpa '{_name(hpa)}' for {workload} must be specified by name in "
                "advanced settings to enable ownership transfer"
            )


def _is_owner(owners: Sequence[Mapping[str, Any]], manifest: Manifest) -> bool:
    wanted = (manifest.get("kind"), _name(manifest))
    return any((owner.get("kind"), owner.get("name")) == wanted for owner in owners)


def _replica_counts(spec: Mapping[str, Any]) -> Iterator[str]:
    """Compare the counts: an absent minimum is 0, a given one counts as at least 1."""
    given, idle = spec.get("minReplicaCount"), spec.get("idleReplicaCount")
    minimum = 0 if given is None else max(int(given), 1)
    maximum = int(spec.get("maxReplicaCount") or DEFAULT_MAX_REPLICAS)
    if minimum > maximum:
        yield f"MinReplicaCount={minimum} must be less than MaxReplicaCount={maximum}"
    elif idle is not None and idle >= minimum:
        yield f"IdleReplicaCount={int(idle)} must be less than MinReplicaCount={minimum}"


def _fallback(spec: Mapping[str, Any]) -> Iterator[str]:
    """Require a trigger that can fall back; the schema has already rejected negative numbers."""
    if spec.get("fallback") is None or uses_modifiers(spec):
        return
    if all(trigger["type"] in RESOURCE_TRIGGERS for trigger in spec["triggers"]):
        yield (
            "at least one trigger (that is not cpu or memory) has to have the `AverageValue` type "
            "for the fallback to be enabled"
        )


def _names(manifest: Manifest) -> Iterator[str]:
    """Both names become label values."""
    name, hpa = _name(manifest), hpa_name(manifest)
    if len(name) > _LABEL_LENGTH:
        yield (
            f"scaledobject name {go_quote(name)} is {len(name)} characters long; must be no more "
            f'than {_LABEL_LENGTH} characters because it is used as the "scaledobject.keda.sh/'
            'name" label value'
        )
    elif len(hpa.encode()) > _LABEL_LENGTH:
        yield (
            f"HPA name {go_quote(hpa)} derived from scaledobject is {len(hpa.encode())} "
            f"characters long; must be no more than {_LABEL_LENGTH} characters; set "
            "spec.advanced.horizontalPodAutoscalerConfig.name to a shorter name or shorten the "
            "scaledobject name"
        )


def _triggers(triggers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names: set[str] = set()
    for trigger in triggers:
        kind, name = trigger["type"], trigger.get("name") or ""
        if trigger.get("useCachedMetrics") and kind in _NEVER_CACHED:
            yield f'property "useCachedMetrics" is not supported for {go_quote(kind)} scaler'
        if name and name in names:
            yield (
                f"triggerName {go_quote(name)} is defined multiple times in the "
                "ScaledObject/ScaledJob, but it must be unique"
            )
        names.add(name)
