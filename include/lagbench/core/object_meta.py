"""``metadata`` as the API server reads it: known fields, names, labels, owners, finalizers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lagbench.core.object_schema import Refusal, anything, entry, flag, rows, text, texts, whole

_TIME = text(
    pattern=r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})",
    description="an instant such as 2026-01-05T08:00:00Z",
)
_OWNER = {**dict.fromkeys(("apiVersion", "kind", "name", "uid"), text())}

METADATA = entry(
    {
        **dict.fromkeys(("annotations", "labels"), texts()),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
        **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), whole()),
        **dict.fromkeys(("generateName", "name", "namespace"), text()),
        **dict.fromkeys(("resourceVersion", "selfLink", "uid"), text()),
        "finalizers": rows(text()),
        "managedFields": rows(anything()),
        "ownerReferences": rows(
            entry({**_OWNER, "blockOwnerDeletion": flag(), "controller": flag()})
        ),
    }
)

_EXPORTED = (
    *("creationTimestamp", "deletionTimestamp", "generation", "managedFields"),
    *("resourceVersion", "selfLink", "uid"),
)
_OF_ITS_OLD_HOME = ("finalizers", "ownerReferences")
"""Of the controllers and owners there: a copy must neither wait for them nor be deleted by them."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN_LENGTH, LABEL_LENGTH = 253, 63


def exported_fields(manifest: Mapping[str, Any]) -> list[str]:
    """Return the paths of fields that a cluster has added to an object that was read from it."""
    metadata = manifest.get("metadata")
    found = [name for name in _EXPORTED if isinstance(metadata, Mapping) and metadata.get(name)]
    return [f"metadata.{name}" for name in found] + (["status"] if manifest.get("status") else [])


def without_export(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the object for another place: as its author wrote it, of no owner."""
    kept = {key: value for key, value in manifest.items() if key != "status"}
    if isinstance(metadata := manifest.get("metadata"), Mapping):
        gone = (*_EXPORTED, *_OF_ITS_OLD_HOME)
        kept["metadata"] = {k: value for k, value in metadata.items() if k not in gone}
        notes = metadata.get("annotations")
        if isinstance(notes, Mapping) and LAST_APPLIED in notes:
            notes = {key: value for key, value in notes.items() if key != LAST_APPLIED}
            kept["metadata"] |= {"annotations": notes}
    return kept


def left_out(manifest: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Return the fields of ``manifest`` that its copy ``kept`` lacks."""
    before, after = manifest.get("metadata"), kept.get("metadata")
    gone = [key for key in manifest if key not in kept]
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        gone += [f"metadata.{key}" for key in before if key not in after]
        if LAST_APPLIED in (before.get("annotations") or {}):
            gone.append(f"metadata.annotations[{LAST_APPLIED}]")
    return gone


def subdomain_problems(name: str) -> Iterator[str]:
    """Yield what is wrong with the name of an object."""
    if len(name.encode()) > _SUBDOMAIN_LENGTH or not _SUBDOMAIN.fullmatch(name):
        yield (
            f"a name has at most {_SUBDOMAIN_LENGTH} lower case letters, digits, '-' and '.', and "
            "begins and ends with a letter or a digit"
        )


def label_value_problems(value: str) -> Iterator[str]:
    """Yield what is wrong with the value of a label."""
    if value and (len(value.encode()) > LABEL_LENGTH or not _NAME.fullmatch(value)):
        yield (
            f"has at most {LABEL_LENGTH} letters, digits, '-', '_' and '.', and begins and ends "
            "with a letter or a digit"
        )


def qualified_name_problems(key: str) -> Iterator[str]:
    """Yield what is wrong with a key: a name, with the domain of its owner before it or not."""
    prefix, slash, name = key.rpartition("/")
    if not name or any(label_value_problems(name)):
        yield f"the name of a key has 1 to {LABEL_LENGTH} letters, digits, '-', '_' and '.'"
    if slash and any(subdomain_problems(prefix)):
        yield "before the '/' of a key stands one domain, such as example.com"


def metadata_refusals(metadata: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield what is wrong with name, labels, annotations, owners and finalizers."""
    name = metadata.get("name") or ""
    if not name and not metadata.get("generateName"):
        yield Refusal("schema", "metadata.name", "required, and absent")
    labels, finalizers = metadata.get("labels") or {}, metadata.get("finalizers") or []
    annotations = [key.lower() for key in metadata.get("annotations") or {}]
    checks: tuple[tuple[str, list[str], Callable[[str], Iterator[str]]], ...] = (
        ("name", [name] if name else [], subdomain_problems),
        ("labels", list(labels), qualified_name_problems),
        ("labels", [str(value or "") for value in labels.values()], label_value_problems),
        ("annotations", annotations, qualified_name_problems),
        ("finalizers", finalizers, qualified_name_problems),
    )
    for field, values, problems_of in checks:
        for value in values:
            for problem in problems_of(value):
                yield Refusal("schema", f"metadata.{field}", f'"{value}": {problem}')
    for index, owner in enumerate(metadata.get("ownerReferences") or []):
        for key in _OWNER:
            if not owner.get(key):
                field = f"metadata.ownerReferences[{index}].{key}"
                yield Refusal("schema", field, "required, and absent")


def odd_finalizers(metadata: Mapping[str, Any]) -> list[str]:
    """Return the finalizers without a domain, whose names might be someone else's too."""
    known = {"orphan", "foregroundDeletion", "kubernetes"}
    given = set(metadata.get("finalizers") or []) - known
    return sorted(name for name in given if "/" not in name)
