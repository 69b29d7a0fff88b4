"""The rules of a ScaledObject alone: KEDA's published definition, and the rules between fields.

The webhook has these rules, and KEDA's operator has some of them again; here they stand once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Any

from lagbench.core.keda.formula import Formula, FormulaRefusedError, NotEvaluatedError
from lagbench.core.keda.triggers.trigger_types import RESOURCE_TYPES, TRIGGER_TYPES
from lagbench.core.kubernetes_values import DEFAULT_MAX_REPLICAS
from lagbench.core.object_meta import LABEL_LENGTH
from lagbench.core.object_schema import (
    QUANTITY,
    Refusal,
    anything,
    entry,
    flag,
    rows,
    text,
    texts,
    whole,
)

MODIFIERS = "spec.advanced.scalingModifiers"

HPA_CONFIG = "spec.advanced.horizontalPodAutoscalerConfig"

_POLICY = entry(
    {"type": text(), "value": whole(), "periodSeconds": whole()}, "periodSeconds", "type", "value"
)

# Bounds of the behavior are not in this schema: the API server checks them on KEDA's HPA.
_RULES = {
    "policies": rows(_POLICY),
    "selectPolicy": text(),
    "stabilizationWindowSeconds": whole(),
    "tolerance": {**QUANTITY, "type": ["integer", "string"]},
}

BEHAVIOR = entry({"scaleDown": entry(_RULES), "scaleUp": entry(_RULES)})

_FALLBACK_BEHAVIORS = (
    *("static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"),
    "scalingModifiers",
)

_AUTHENTICATIONS = ("TriggerAuthentication", "ClusterTriggerAuthentication")

_SPEC = entry(
    {
        "advanced": entry(
            {
                "horizontalPodAutoscalerConfig": entry({"behavior": BEHAVIOR, "name": text()}),
                "restoreToOriginalReplicaCount": flag(),
                "scalingModifiers": entry(
                    {
                        **dict.fromkeys(("activationTarget", "formula", "target"), text()),
                        "metricType": text(enum=("AverageValue", "Value")),
                    }
                ),
            }
        ),
        "cooldownPeriod": whole(0),
        "fallback": entry(
            {
                "behavior": text(enum=_FALLBACK_BEHAVIORS),
                "failureThreshold": whole(0),
                "replicas": whole(0),
            },
            "failureThreshold",
            "replicas",
        ),
        "idleReplicaCount": whole(0),
        "initialCooldownPeriod": whole(0),
        "maxReplicaCount": whole(1),
        "minReplicaCount": whole(0),
        "pollingInterval": whole(1),
        "scaleTargetRef": entry(
            {
                **dict.fromkeys(("apiVersion", "envSourceContainerName", "kind"), text()),
                "name": text(minLength=1),
            },
            "name",
        ),
        "triggers": rows(
            entry(
                {
                    "authenticationRef": entry(
                        {"kind": text(enum=_AUTHENTICATIONS), "name": text()}, "name"
                    ),
                    "metadata": texts(),
                    "metricType": text(),
                    "name": text(),
                    "type": text(minLength=1),
                    "useCachedMetrics": flag(),
                },
                "metadata",
                "type",
            ),
            min_items=1,
        ),
    },
    "scaleTargetRef",
    "triggers",
)

_CONDITION = entry(dict.fromkeys(("message", "reason", "status", "type"), text()))

# What a person writes there is dropped, after the names of its fields were looked at.
_STATUS = entry(
    {
        **dict.fromkeys(("authenticationsTypes", "compositeScalerName", "hpaName"), text()),
        **dict.fromkeys(("lastActiveTime", "scaleTargetKind", "triggersTypes"), text()),
        **dict.fromkeys(("originalReplicaCount", "pausedReplicaCount"), whole()),
        **dict.fromkeys(("externalMetricNames", "resourceMetricNames"), rows(text())),
        "conditions": rows(_CONDITION),
        "health": {
            "type": ["object"],
            "additionalProperties": entry({"numberOfFailures": whole(), "status": text()}),
        },
        "scaleTargetGVKR": entry(dict.fromkeys(("group", "kind", "resource", "version"), text())),
        "triggersActivity": {
            "type": ["object"],
            "additionalProperties": entry({"isActive": flag()}),
        },
    }
)

SCALED_OBJECT = entry(
    {
        "apiVersion": text(),
        "kind": text(),
        "metadata": anything(),  # has a schema of its own
        "spec": _SPEC,
        "status": _STATUS,
    },
    "spec",
)


def object_refusals(manifest: Mapping[str, Any]) -> list[Refusal]:
    """Return the rules between fields that an object of the right shape breaks."""
    return [
        *_counts(manifest["spec"]),
        *_modifiers(manifest["spec"]),
        *_names(manifest),
        *_triggers(manifest["spec"]["triggers"]),
    ]


def hpa_name(manifest: Mapping[str, Any]) -> str:
    """Return the name of the HPA that KEDA makes."""
    advanced = manifest["spec"].get("advanced") or {}
    given = (advanced.get("horizontalPodAutoscalerConfig") or {}).get("name")
    name = (manifest.get("metadata") or {}).get("name") or ""
    return str(given or f"keda-hpa-{name}")


def uses_modifiers(spec: Mapping[str, Any]) -> bool:
    """Return whether any field of scalingModifiers holds something."""
    return any(((spec.get("advanced") or {}).get("scalingModifiers") or {}).values())


def formula_of(spec: Mapping[str, Any]) -> Formula:
    """Return the formula over the named triggers that are not resource metrics."""
    names = [
        trigger["name"]
        for trigger in spec["triggers"]
        if trigger.get("name") and trigger["type"] not in RESOURCE_TYPES
    ]
    return Formula(spec["advanced"]["scalingModifiers"]["formula"], names)


def number_of(text: str) -> float:
    """Return a number that KEDA reads of a text; not a number for any other text."""
    try:
        return float.fromhex(text) if "0x" in text.lower() else float(text)
    except ValueError:
        return nan


def _counts(spec: Mapping[str, Any]) -> Iterator[Refusal]:
    """Compare the counts: an absent minimum is 0, a given one counts as at least 1."""
    given, idle = spec.get("minReplicaCount"), spec.get("idleReplicaCount")
    minimum = 0 if given is None else max(given, 1)
    maximum = spec.get("maxReplicaCount", DEFAULT_MAX_REPLICAS)
    if minimum > maximum:
        text = f"{minimum} is above maxReplicaCount ({maximum})"
        yield Refusal("replica-counts", "spec.minReplicaCount", text, "idle < min <= max")
    elif idle is not None and idle >= minimum:
        text = f"{idle} is not below minReplicaCount ({minimum})"
        yield Refusal("replica-counts", "spec.idleReplicaCount", text, "idle < min <= max")


def _modifiers(spec: Mapping[str, Any]) -> Iterator[Refusal]:
    modifiers = (spec.get("advanced") or {}).get("scalingModifiers") or {}
    formula, target = modifiers.get("formula") or "", modifiers.get("target") or ""
    if (spec.get("fallback") or {}).get("behavior") == "scalingModifiers" and not formula:
        text = "the fallback behavior scalingModifiers needs it"
        yield Refusal("formula", f"{MODIFIERS}.formula", text, "a formula")
    if not uses_modifiers(spec):
        return
    for name, given in (("formula", formula), ("target", target)):
        if not given:
            text = "required with scalingModifiers"
            yield Refusal("formula", f"{MODIFIERS}.{name}", text, f"a {name}")
            return
    try:
        formula_of(spec)
    except FormulaRefusedError as error:
        yield Refusal("formula", f"{MODIFIERS}.formula", str(error), "names of the triggers")
    except NotEvaluatedError:
        pass  # KEDA may take it
    number = number_of(target)
    if isnan(number) or number <= 0:
        yield Refusal("formula", f"{MODIFIERS}.target", "must be a number above 0")


def _names(manifest: Mapping[str, Any]) -> Iterator[Refusal]:
    """Both names become label values."""
    name, hpa = str((manifest.get("metadata") or {}).get("name") or ""), hpa_name(manifest)
    most = f"at most {LABEL_LENGTH} characters"
    if len(name) > LABEL_LENGTH:
        text = f"has {len(name)} characters, and becomes a label's value"
        yield Refusal("name-too-long", "metadata.name", text, most)
    elif len(hpa.encode()) > LABEL_LENGTH:
        text = f"the HPA's name {hpa} has {len(hpa.encode())} characters"
        yield Refusal("name-too-long", f"{HPA_CONFIG}.name", text, most)


def _triggers(triggers: Sequence[Mapping[str, Any]]) -> Iterator[Refusal]:
    names: set[str] = set()
    for index, trigger in enumerate(triggers):
        kind, name = trigger["type"], trigger.get("name") or ""
        known, field = TRIGGER_TYPES.get(kind), f"spec.triggers[{index}]"
        if trigger.get("useCachedMetrics") and known is not None and not known.may_be_cached:
            text = f"not supported by the {kind} scaler"
            yield Refusal("never-cached", f"{field}.useCachedMetrics", text, "leave it out there")
        if name and name in names:
            text = f'"{name}" is the name of two triggers'
            yield Refusal("trigger-name-twice", f"{field}.name", text, "a name of its own")
        names.add(name)
