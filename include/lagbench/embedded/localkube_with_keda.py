"""Run localkube as the bench needs it: with KEDA's kinds and webhook, and our programs warm."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace

from lagbench.core.hpa.controller_flags import DEFAULT_KUBERNETES, has_gate, version_of
from lagbench.core.keda.object.scaled_object_spec import API_VERSION, KIND
from lagbench.core.kubernetes_values import DEFAULT_MAX_REPLICAS
from lagbench.core.policy.admission.api_server import Admission, admit, stored_form, stored_hpa
from lagbench.core.policy.admission.webhook import ClusterView, target_type
from localkube.kinds import AUTOSCALER, DEPLOYMENT, STATEFUL_SET, Column, Select, custom_kind
from localkube.kube_objects import ApiError, JsonObject, KubeObject, Write, field_at, scale_target
from localkube.server import main
from pod_program.shown import looks_secret

CONTEXT = "lagbench-embedded"
"""The name in the kubeconfig."""
# Settings of an Airflow that may have started localkube, and of the user's log-in.
_OF_OTHERS = re.compile(r"^(AIRFLOW|SSH)_")
_WORKLOADS = (DEPLOYMENT, STATEFUL_SET)
_REASONS = {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 422: "Invalid"}
# Programs that run in dozens of pods, or that have to start at once, and what they import only when
# they run. The other programs import the missing modules in their own process: a fork copies the
# page tables of everything that is loaded (the Kubernetes client is half of it), and gRPC must not
# be forked.
WARM = (
    "lagbench.programs.consumer.*",
    "lagbench.programs.producer.*",
    "lagbench.adapters.kafka.telemetry_topic",
    "http.server",
    "numpy.random",
)


def pod_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return our own environment in the form that pods inherit: without secrets."""
    return {
        name: value
        for name, value in environment.items()
        if not looks_secret(name, value) and not _OF_OTHERS.search(name.upper())
    }


def admit_scaled_object(obj: KubeObject, write: Write, select: Select) -> None:
    """Change ``obj`` into its stored form, as the API server and KEDA's webhook do.

    :raises ApiError: one of them rejects it.
    """
    answer = admit(
        obj,
        _view(obj, select),
        field_validation=write.field_validation,
        is_dry_run=write.is_dry_run,
    )
    write.warnings.extend(answer.warnings)
    if not answer.is_accepted:
        raise _refusal(answer, obj)
    stored = stored_form(obj)
    obj.clear()
    obj.update(stored)


def autoscaler_faults(autoscaler: JsonObject) -> list[tuple[str, str]]:
    """Check an HPA as the API server of the version that it names does."""
    spec = autoscaler["spec"]
    may_be_zero = has_gate("HPAScaleToZero", version_of(autoscaler)) and any(
        metric.get("type") in ("External", "Object") for metric in spec["metrics"]
    )
    if may_be_zero and spec["minReplicas"] == 0:
        autoscaler = {**autoscaler, "spec": {**spec, "minReplicas": 1}}
    return AUTOSCALER.find_faults(autoscaler)


def admit_autoscaler(obj: KubeObject, _write: Write, _select: Select) -> None:
    """Drop of an HPA what the API server of the version that it names drops."""
    obj["spec"] = stored_hpa(obj)["spec"]


def _view(obj: KubeObject, select: Select) -> ClusterView:
    spec = obj.get("spec")
    target = (spec.get("scaleTargetRef") if isinstance(spec, dict) else None) or {}
    workloads, missing = [], set()
    for kind in _WORKLOADS:
        found = select(kind, obj.namespace)
        workloads += [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in found]
        if isinstance(target, dict) and target_type(target) == (kind.api_version, kind.kind):
            name = str(target.get("name"))
            if all(item.name != name for item in found):
                missing.add((kind.kind, name))
    return ClusterView(
        scaled_objects=tuple(select(SCALED_OBJECT, obj.namespace)),
        hpas=tuple(select(AUTOSCALER, obj.namespace)),
        workloads=tuple(workloads),
        missing=frozenset(missing),
    )


def _refusal(answer: Admission, obj: KubeObject) -> ApiError:
    texts = [str(refusal) for refusal in answer.refusals]
    # The webhook answers with the first problem that it meets, the API server with all.
    by_webhook = 'admission webhook "vscaledobject.kb.io" denied the request: '
    return ApiError(
        answer.code,
        _REASONS.get(answer.code, "InternalError"),
        f"{by_webhook}{texts[0]}" if answer.refused_by == "webhook" else "; ".join(texts),
        kind=KIND,
        name=str(obj.metadata.get("name") or ""),
        causes=[
            {"reason": "FieldValueInvalid", "field": refusal.field, "message": refusal.text}
            for refusal in (answer.refusals if answer.code == 422 else ())
        ],
    )


def _truth(kind: str) -> Column:
    return kind, lambda obj: obj.condition(kind).get("status", "Unknown")


SCALED_OBJECT = custom_kind(
    *(API_VERSION, KIND, "scaledobjects", "so"),
    admit=admit_scaled_object,
    columns=(
        ("Target", scale_target),
        ("Min", field_at("spec.minReplicaCount", 0)),
        ("Max", field_at("spec.maxReplicaCount", DEFAULT_MAX_REPLICAS)),
        *map(_truth, ("Ready", "Active", "Paused")),
    ),
)
KINDS = (
    replace(AUTOSCALER, find_faults=autoscaler_faults, admit=admit_autoscaler),
    SCALED_OBJECT,
    custom_kind(API_VERSION, "TriggerAuthentication", "triggerauthentications", "ta"),
    custom_kind(
        *(API_VERSION, "ClusterTriggerAuthentication", "clustertriggerauthentications"),
        *("cta", "clustertriggerauth"),
        namespaced=False,
    ),
)


if __name__ == "__main__":
    code = main(
        kinds=KINDS,
        pod_environment=pod_environment(os.environ),
        forked=("lagbench.programs.", "lag_scaler"),
        warm=WARM,
        context=CONTEXT,
        kubernetes=DEFAULT_KUBERNETES,
    )
    sys.exit(code)
