"""Find fields that the API does not have, in objects of kinds that the official client knows.

kubectl requests ``fieldValidation=Strict``: a misspelt field is an error. The client's models are
generated from the API's own schemas, so they define all fields. They are imported on demand,
because the import takes most of a second.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, MutableSequence
from dataclasses import dataclass
from typing import Any

from lagbench.core.policy.admission.api_server import Admission, FieldValidation, admit, stored_form
from lagbench.core.policy.admission.webhook import ClusterView, target_type
from lagbench.localkube.kube_objects import (
    CREATED_AT_NS,
    DELETED_AT_NS,
    ApiError,
    JsonObject,
    already_exists,
    annotate,
    bad_request,
    conflict,
    copy_of,
    invalid,
    is_terminating,
    name_of,
    namespace_of,
    not_found,
    rfc3339,
    uid_of,
)
from lagbench.localkube.storage import defaults_and_rules as validation
from lagbench.localkube.storage.object_store import Store
from lagbench.localkube.storage.resources import (
    AUTOSCALER,
    DEPLOYMENT,
    EVENT,
    NAMESPACE,
    POD,
    SCALED_OBJECT,
    STATEFUL_SET,
    Resource,
)

_LIST = re.compile(r"list\[(.+)\]")

_MAP = re.compile(r"dict\(str, (.+)\)")


def unknown_fields(resource: Resource, obj: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fields of ``obj`` that its kind does not have, sorted."""
    prefix = "CoreV1" if resource == EVENT else resource.version.capitalize()
    return sorted(_unknown(f"{prefix}{resource.kind}", obj, ""))


def _unknown(type_name: str, value: Any, path: str) -> Iterator[str]:
    from kubernetes.client import models

    if (inner := _LIST.fullmatch(type_name)) is not None:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _unknown(inner[1], item, f"{path}[{index}]")
    elif (inner := _MAP.fullmatch(type_name)) is not None:
        for name, item in value.items() if isinstance(value, Mapping) else ():
            yield from _unknown(inner[1], item, f"{path}.{name}")
    elif (model := getattr(models, type_name, None)) is not None and isinstance(value, Mapping):
        types = {model.attribute_map[name]: of for name, of in model.openapi_types.items()}
        for name, item in value.items():
            place = f"{path}.{name}" if path else str(name)
            if name in types:
                yield from _unknown(types[name], item, place)
            else:
                yield place


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


# Kubernetes' alphabet of name suffixes: without vowels and look-alikes.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

_SUFFIX_LENGTH = 5

FOREGROUND = "foregroundDeletion"

ORPHAN = "orphan"

# Set by the server; a client's values for them are ignored.
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def random_suffix() -> str:
    """Return five characters that make a generated name unique."""
    return "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))


@dataclass(frozen=True, slots=True)
class Asked:
    """The field validation that a writer requested (default: Warn), and the warnings for it."""

    field_validation: FieldValidation = "Warn"
    warnings: list[str] = dataclasses.field(default_factory=list)


class Registry:
    """Applies the API's rules to written objects before they are stored."""

    def __init__(self, store: Store, *, wall_ns: Callable[[], int] = time.time_ns) -> None:
        """Write into ``store`` with instants from ``wall_ns``."""
        self.store = store
        self._wall_ns = wall_ns

    def now_ns(self) -> int:
        """Return the wall clock in nanoseconds."""
        return self._wall_ns()

    def now(self) -> str:
        """Return the wall clock in Kubernetes' time format."""
        return rfc3339(self._wall_ns() / 1e9)

    def create(
        self,
        resource: Resource,
        given: JsonObject,
        namespace: str,
        *,
        dry_run: bool = False,
        asked: Asked | None = None,
    ) -> JsonObject:
        """Create an object and return it as stored; a dry run only returns it."""
        obj = copy_of(given)
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        metadata = obj.setdefault("metadata", {})
        for field in (*_SERVER_FIELDS, "resourceVersion", "selfLink", "generation"):
            metadata.pop(field, None)
        if resource.namespaced:
            metadata["namespace"] = namespace
            self._check_namespace(resource, namespace, metadata.get("name", ""))
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + random_suffix()
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self.now()
        if "spec" in obj:
            metadata["generation"] = 1
        if resource.has_status:
            obj.pop("status", None)
        if resource == POD:
            annotate(obj, CREATED_AT_NS, str(self._wall_ns()))
            obj["status"] = {"phase": "Pending"}
        if resource == NAMESPACE:
            obj["status"] = {"phase": "Active"}
            obj.setdefault("spec", {})["finalizers"] = ["kubernetes"]
        self._check_written(resource, obj, asked, dry_run=dry_run)
        if dry_run:
            if self.store.find(resource, namespace_of(obj), name_of(obj)) is not None:
                raise already_exists(resource.qualified_plural, name_of(obj))
            return obj
        return self.store.insert(resource, obj)

    def check(self, resource: Resource, obj: JsonObject) -> None:
        """Fill in defaults and raise the API's 422 when a rule is broken."""
        faults = validation.name_faults(obj["metadata"].get("name"))
        for field in ("labels", "annotations"):
            entries = obj["metadata"].get(field) or {}
            if not isinstance(entries, dict) or not all(
                isinstance(value, str) for value in entries.values()
            ):
                faults.append((f"metadata.{field}", "Invalid value: all values must be strings"))
        if not faults:
            try:
                resource.apply_defaults(obj)
                faults = resource.find_faults(obj)
            except (AttributeError, TypeError, KeyError) as error:
                faults = [("", f"a field has another type than the API's: {error}")]
        if faults:
            raise invalid(resource.kind, str(obj["metadata"].get("name", "")), faults)

    def update(
        self,
        resource: Resource,
        obj: JsonObject,
        *,
        dry_run: bool = False,
        asked: Asked | None = None,
    ) -> JsonObject:
        """Replace an object, both spec and status, by a changed copy of itself."""
        before = self.store.get(resource, namespace_of(obj), name_of(obj))
        metadata = obj["metadata"]
        if metadata.get("uid") not in (None, uid_of(before)):
            why = f"its UID is {uid_of(before)}, not {metadata['uid']}"
            raise conflict(resource.qualified_plural, name_of(obj), why)
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
        for field in _SERVER_FIELDS:
            metadata.pop(field, None)
            if field in before["metadata"]:
                metadata[field] = before["metadata"][field]
        if "generation" in before["metadata"]:
            metadata["generation"] = before["metadata"]["generation"]
        if _desired(obj) != _desired(before):
            self._check_written(resource, obj, asked, dry_run=dry_run)
            if faults := resource.find_change_faults(before, obj):
                raise invalid(resource.kind, name_of(obj), faults)
            metadata = obj["metadata"]
        else:  # only status or metadata changed: no strict check or admission of the spec
            self.check(resource, obj)
        if "generation" in metadata and _desired(obj) != _desired(before):
            metadata["generation"] += 1
        if dry_run:
            return obj
        stored = self.store.replace(resource, obj)
        if is_terminating(stored) and not stored["metadata"].get("finalizers"):
            self._remove_when_released(resource, stored)
        return stored

    def change(
        self, resource: Resource, namespace: str, name: str, edit: Callable[[JsonObject], None]
    ) -> JsonObject | None:
        """Apply ``edit`` to a copy of an object and store it; None if the object does not exist."""
        before = self.store.find(resource, namespace, name)
        if before is None:
            return None
        obj = copy_of(before)
        edit(obj)
        return self.store.replace(resource, obj)

    def mark_deleted(self, resource: Resource, obj: JsonObject, grace_seconds: int) -> JsonObject:
        """Set the deletion timestamp; a later request can only shorten the grace period."""
        after = copy_of(obj)
        metadata = after["metadata"]
        earlier = metadata.get("deletionGracePeriodSeconds")
        if earlier is not None and earlier <= grace_seconds:
            return obj
        now_ns = self._wall_ns()
        metadata["deletionTimestamp"] = rfc3339(now_ns / 1e9 + grace_seconds)
        metadata["deletionGracePeriodSeconds"] = grace_seconds
        if resource == POD and earlier is None:
            annotate(after, DELETED_AT_NS, str(now_ns))
        return self.store.replace(resource, after)

    def _remove_when_released(self, resource: Resource, obj: JsonObject) -> None:
        """Remove a terminating object that nothing holds.

        A pod stays until its processes have ended (its node then sets the grace period to 0), a
        namespace until it is empty.
        """
        has_ended = obj["metadata"].get("deletionGracePeriodSeconds") == 0
        if resource != NAMESPACE and (resource != POD or has_ended):
            self.store.remove(resource, namespace_of(obj), name_of(obj))

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        found = self.store.find(NAMESPACE, "", namespace)
        if found is None:
            raise not_found("namespaces", namespace)
        if is_terminating(found) and resource != EVENT:
            raise ApiError(
                403,
                "Forbidden",
                f'{resource.qualified_plural} "{name}" is forbidden: unable to create new content '
                f"in namespace {namespace} because it is being terminated",
                kind=resource.plural,
                name=name,
            )

    def _check_written(
        self, resource: Resource, obj: JsonObject, asked: Asked | None, *, dry_run: bool
    ) -> None:
        """Check an object with a written spec by the validation that the writer requested."""
        asked = asked or Asked()
        if not resource.is_custom and asked.field_validation == "Strict":
            _refuse_unknown_fields(resource, obj)
        self.check(resource, obj)
        if resource == SCALED_OBJECT:
            admit_scaled_object(
                self.store,
                obj,
                field_validation=asked.field_validation,
                is_dry_run=dry_run,
                warnings=asked.warnings,
            )


def _refuse_unknown_fields(resource: Resource, obj: JsonObject) -> None:
    found = ", ".join(f'unknown field "{path}"' for path in unknown_fields(resource, obj))
    if found:
        kind = resource.kind
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {kind}: '
            f"strict decoding error: {found}"
        )


def _desired(obj: JsonObject) -> JsonObject:
    """Return the part of an object in which a change counts as a new generation."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}
