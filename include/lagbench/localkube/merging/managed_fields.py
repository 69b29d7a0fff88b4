"""Ownership of the fields of an object: the entries of ``metadata.managedFields``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lagbench.localkube.merging.field_sets import (
    FieldSet,
    from_fields_v1,
    to_fields_v1,
    values_by_path,
)
from lagbench.localkube.objects import JsonObject


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry: a manager by name, its operation (Apply or Update) and the subresource."""

    manager: str
    operation: str
    subresource: str
    fields: FieldSet
    api_version: str
    at: str

    def is_same(self, other: Owner) -> bool:
        """Return whether both entries have the same manager, operation and subresource."""
        return (self.manager, self.operation, self.subresource) == (
            other.manager,
            other.operation,
            other.subresource,
        )


def owners_of(obj: JsonObject) -> list[Owner]:
    """Return the entries of an object."""
    return [
        Owner(
            manager=entry.get("manager", ""),
            operation=entry.get("operation", "Update"),
            subresource=entry.get("subresource", ""),
            fields=from_fields_v1(entry.get("fieldsV1") or {}),
            api_version=entry.get("apiVersion", ""),
            at=entry.get("time", ""),
        )
        for entry in obj["metadata"].get("managedFields") or ()
    ]


def store_owners(obj: JsonObject, owners: list[Owner]) -> None:
    """Write the entries into ``obj`` in place; an entry without fields is dropped."""
    entries = []
    for owner in owners:
        if not owner.fields:
            continue
        entry = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owner.api_version,
            "time": owner.at,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(owner.fields),
        }
        if owner.subresource:
            entry["subresource"] = owner.subresource
        entries.append(entry)
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def record_update(
    before: JsonObject | None, after: JsonObject, writer: Owner, *, is_custom: bool
) -> None:
    """Transfer the fields that a plain write changed from all other managers to ``writer``.

    Unlike an apply, a plain write never conflicts: it takes over the ownership.
    """
    old = values_by_path(before, is_custom=is_custom) if before else {}
    new = values_by_path(after, is_custom=is_custom)
    changed = frozenset(
        path for path, value in new.items() if path not in old or old[path] != value
    )
    owners = owners_of(before) if before else []
    mine = next((owner for owner in owners if owner.is_same(writer)), writer)
    kept: list[Owner] = []
    for owner in owners:
        if owner.is_same(writer):
            continue
        left = frozenset(p for p in owner.fields if p in new and p not in changed)
        kept.append(owner if left == owner.fields else replace(owner, fields=left))
    fields = frozenset(path for path in mine.fields if path in new) | changed
    at = writer.at if changed or fields != mine.fields else mine.at
    store_owners(after, [*kept, replace(writer, fields=fields, at=at)])
