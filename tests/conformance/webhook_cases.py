"""Recorded answers of a real API server and KEDA's webhook, and what each row says of its cluster.

A row holds the manifest and the answer, not the cluster. What a rule needs to know of it is taken,
in this order, from the rows accepted before it (their ScaledObjects were there), and from the facts
that the recorded text itself states ("... is already managed by the hpa 'x'"). Rows that lean on
such a fact are counted apart: there the row shows that the rule speaks when the fact holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lagbench.core.keda.object.spec import KIND
from lagbench.core.policy.admission.cluster import ClusterView, target_type

_NAME = "'([^']*)'"
_BY_HPA = re.compile(rf"workload {_NAME} of type .* is already managed by the hpa {_NAME}")
_EXISTING_HPA = re.compile(rf"the existing hpa {_NAME} for workload {_NAME} ")
_BY_SCALED_OBJECT = re.compile(rf"workload {_NAME} of type .* managed by the ScaledObject {_NAME}")
_HPA_BY_SCALED_OBJECT = re.compile(
    rf"the HPA {_NAME} is already managed by the ScaledObject {_NAME}"
)
_NO_REQUEST = re.compile(r"the container (\S+) doesn't have the (\S+) request defined")
_NOT_FOUND = re.compile(r'"([^"]*)" not found$')
_DEPENDS_ON_TIMING = "informer cache"


def cluster_before(
    manifest: Mapping[str, Any], message: str, accepted: Sequence[Mapping[str, Any]], note: str = ""
) -> tuple[ClusterView, bool]:
    """Return the cluster that a request met, and whether a fact of its answer was needed."""
    view = ClusterView(knows_all_kinds=True)
    if _DEPENDS_ON_TIMING not in note:  # such a request overtook the webhook's view of the others
        view = replace(view, scaled_objects=tuple(accepted))
    target = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    stated = _stated(view, message, target)
    return stated, stated is not view


def _stated(view: ClusterView, message: str, target: Mapping[str, Any]) -> ClusterView:
    api_version, kind = target_type(target)
    reference = {"apiVersion": api_version, "kind": kind, "name": target.get("name")}
    if found := _BY_HPA.search(message):
        return replace(view, hpas=(_hpa(found[2], reference),))
    if found := _EXISTING_HPA.search(message):
        return replace(view, hpas=(_hpa(found[1], reference),))
    if found := _NOT_FOUND.search(message):
        return replace(view, missing=frozenset({(kind, found[1])}))
    if found := _NO_REQUEST.search(message):
        pod = {"containers": [{"name": found[1]}]}
        workload = {"kind": kind, "metadata": {"name": target.get("name")}}
        return replace(view, workloads=({**workload, "spec": {"template": {"spec": pod}}},))
    return _with_owner(view, message, reference)


def _with_owner(view: ClusterView, message: str, reference: Mapping[str, Any]) -> ClusterView:
    if found := _BY_SCALED_OBJECT.search(message):
        return _with_scaled_object(view, found[2], {"scaleTargetRef": reference})
    if found := _HPA_BY_SCALED_OBJECT.search(message):
        advanced = {"horizontalPodAutoscalerConfig": {"name": found[1]}}
        other = {"scaleTargetRef": {"name": f"of-{found[2]}"}, "advanced": advanced}
        return _with_scaled_object(view, found[2], other)
    return view


def _with_scaled_object(view: ClusterView, name: str, spec: Mapping[str, Any]) -> ClusterView:
    if any(item["metadata"].get("name") == name for item in view.scaled_objects):
        return view
    other = {"kind": KIND, "metadata": {"name": name}, "spec": spec}
    return replace(view, scaled_objects=(*view.scaled_objects, other))


def _hpa(name: str, reference: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": reference}}
