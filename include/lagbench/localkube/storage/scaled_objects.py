"""Admit ScaledObjects into the store as the API server and KEDA's webhook do.

The rules are those of ``core/policy/admission``, which recorded answers of the real ones confirm.
Here they are applied to the stored objects.
"""

from __future__ import annotations

from collections.abc import MutableSequence

from lagbench.core.policy.admission.answer import Admission, FieldValidation, admit, stored_form
from lagbench.core.policy.admission.cluster import ClusterView, target_type
from lagbench.localkube.api_error import ApiError
from lagbench.localkube.objects import JsonObject, namespace_of
from lagbench.localkube.storage.resources import (
    AUTOSCALER,
    DEPLOYMENT,
    SCALED_OBJECT,
    STATEFUL_SET,
)
from lagbench.localkube.storage.store import Store

_WORKLOADS = (DEPLOYMENT, STATEFUL_SET)
_REASONS = {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 422: "Invalid"}


def admit_scaled_object(
    store: Store,
    obj: JsonObject,
    *,
    field_validation: FieldValidation,
    is_dry_run: bool,
    warnings: MutableSequence[str],
) -> None:
    """Change ``obj`` into its stored form; add the warnings for the client to ``warnings``.

    :raises ApiError: the API server or the webhook rejects it.
    """
    answer = admit(obj, _view(store, obj), field_validation=field_validation, is_dry_run=is_dry_run)
    warnings.extend(answer.warnings)
    if not answer.is_accepted:
        raise _refusal(answer, obj)
    stored = stored_form(obj)
    obj.clear()
    obj.update(stored)


def _view(store: Store, obj: JsonObject) -> ClusterView:
    namespace = namespace_of(obj)
    workloads = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **item}
        for kind in _WORKLOADS
        for item in store.select(kind, namespace)
    ]
    spec = obj.get("spec")
    target = (spec.get("scaleTargetRef") if isinstance(spec, dict) else None) or {}
    missing = set()
    for kind in _WORKLOADS:
        if isinstance(target, dict) and target_type(target) == (kind.api_version, kind.kind):
            name = str(target.get("name"))
            if store.find(kind, namespace, name) is None:
                missing.add((kind.kind, name))
    return ClusterView(
        scaled_objects=tuple(store.select(SCALED_OBJECT, namespace)),
        hpas=tuple(store.select(AUTOSCALER, namespace)),
        workloads=tuple(workloads),
        missing=frozenset(missing),
    )


def _refusal(answer: Admission, obj: JsonObject) -> ApiError:
    metadata = obj.get("metadata")
    name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
    texts = [str(refusal) for refusal in answer.refusals]
    # The webhook answers with the first problem that it meets, the API server with all.
    by_webhook = 'admission webhook "vscaledobject.kb.io" denied the request: '
    is_webhook = answer.refused_by == "webhook"
    return ApiError(
        answer.code,
        _REASONS.get(answer.code, "InternalError"),
        f"{by_webhook}{texts[0]}" if is_webhook else "; ".join(texts),
        kind=SCALED_OBJECT.kind,
        name=name,
        causes=[
            {"reason": "FieldValueInvalid", "field": refusal.field, "message": refusal.text}
            for refusal in (answer.refusals if answer.code == 422 else ())
        ],
    )
