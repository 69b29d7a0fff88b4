"""Make a committed manifest one of a consumer group's own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from lagbench.core.scenario import RunNames

Manifest = dict[str, Any]
GroupFlag = Literal["group", "processed-topic", "telemetry-topic", "deployment"]

_OWN_KINDS = (
    "Deployment",
    "StatefulSet",
    "Service",
    "PodDisruptionBudget",
    "PersistentVolumeClaim",
)
"""Each group has its own of these; accounts and roles are shared."""
_NAME_LABELS = ("app", "app.kubernetes.io/name")


def for_group(committed: Mapping[str, Any], names: RunNames) -> Manifest:
    """Return a copy of a committed manifest as an object of the group.

    For the first group it is unchanged. For the second one its name, the labels that hold a name,
    the selectors and the claims of its volumes are the group's own.
    """
    manifest = copy.deepcopy(dict(committed))
    if not names.is_second or manifest.get("kind") not in _OWN_KINDS:
        return manifest
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    metadata["name"] = names.own(metadata["name"])
    _rename(metadata.get("labels"), names)
    selector = spec.get("selector")
    if selector is not None:
        _rename(selector if manifest["kind"] == "Service" else selector.get("matchLabels"), names)
    template = spec.get("template") or {}
    _rename((template.get("metadata") or {}).get("labels"), names)
    for volume in (template.get("spec") or {}).get("volumes") or []:
        if claim := volume.get("persistentVolumeClaim"):
            claim["claimName"] = names.own(claim["claimName"])
    return manifest


def flags_of_group(names: RunNames, *flags: GroupFlag) -> dict[str, str]:
    """Return the flags that name the second group's own; none for the first: the id names them."""
    if not names.is_second:
        return {}
    values: dict[GroupFlag, str] = {
        "group": names.group,
        "processed-topic": names.processed_topic,
        "telemetry-topic": names.telemetry_topic,
        "deployment": names.consumers,
    }
    return {flag: values[flag] for flag in flags}


def _rename(labels: dict[str, str] | None, names: RunNames) -> None:
    for key in _NAME_LABELS:
        if labels is not None and key in labels:
            labels[key] = names.own(labels[key])
