"""Server-side apply: ownership, removal, conflicts, keyed lists."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.localkube.api_error import ApiError
from lagbench.localkube.merging.apply import Owner, apply, owners_of, record_update
from lagbench.localkube.merging.field_paths import from_fields_v1, to_fields_v1, values_by_path
from lagbench.localkube.objects import copy_of


def writer(manager: str, operation: str = "Apply") -> Owner:
    """Return a manager that owns nothing yet."""
    return Owner(manager, operation, "", frozenset(), "v1", "2026-01-01T00:00:00Z")


def manifest(spec: dict[str, Any]) -> dict[str, Any]:
    """Return an object to apply."""
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec}


def applied(
    live: dict[str, Any] | None, spec: dict[str, Any], manager: str = "a", **options: Any
) -> dict[str, Any]:
    """Apply a spec as a manager."""
    settings = {"force": False, "is_custom": False, **options}
    return apply(live, manifest(spec), writer(manager), **settings)


def containers(*entries: dict[str, Any]) -> dict[str, Any]:
    """Return a spec with containers."""
    return {"containers": list(entries)}


def test_what_nobody_applied_stays() -> None:
    """A field that the server or a plain write set survives an apply that does not name it."""
    live = applied(None, {"x": 1})
    live["spec"]["defaulted"] = True

    assert applied(live, {"x": 2})["spec"] == {"x": 2, "defaulted": True}


def test_a_data_map_loses_only_the_key() -> None:
    """A label of somebody else stays when the manager's own label goes."""
    live = apply(
        None,
        {"metadata": {"name": "x", "labels": {"mine": "1"}}, "spec": {"a": 1}},
        writer("a"),
        force=False,
        is_custom=False,
    )
    live["metadata"]["labels"]["theirs"] = "2"

    after = applied(live, {"a": 1})

    assert after["metadata"]["labels"] == {"theirs": "2"}


def test_a_foreign_value_is_a_conflict_and_force_takes_it() -> None:
    """Another manager's value rejects the apply with its name and field; force moves ownership."""
    live = applied(None, {"x": 1}, "a")

    with pytest.raises(ApiError) as refused:
        applied(live, {"x": 2}, "b")
    forced = applied(live, {"x": 2}, "b", force=True)

    assert refused.value.code == 409
    assert refused.value.causes[0]["field"] == ".spec.x"
    assert 'conflict with "a"' in refused.value.message
    assert forced["spec"] == {"x": 2}
    assert {owner.manager for owner in owners_of(forced)} == {"b"}


def test_ports_are_distinguished_by_number_and_protocol() -> None:
    """Two entries for one number with different protocols are two items."""
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    live = applied(None, containers({"name": "m", "ports": ports}))

    after = applied(live, containers({"name": "m", "ports": ports[1:]}))

    assert after["spec"]["containers"][0]["ports"] == ports[1:]


def test_lists_of_a_custom_kind_are_replaced_whole() -> None:
    """In a custom resource a list is one value, whatever its items look like."""
    live = applied(None, containers({"name": "one"}), is_custom=True)

    after = applied(live, containers({"name": "two"}), is_custom=True)

    assert after["spec"]["containers"] == [{"name": "two"}]


def test_repeating_an_apply_changes_nothing() -> None:
    """The same apply twice gives the same object, managed fields and time included."""
    live = applied(None, containers({"name": "one", "env": [{"name": "A", "value": "1"}]}))
    later = Owner("a", "Apply", "", frozenset(), "v1", "2026-02-02T00:00:00Z")

    again = apply(
        live,
        manifest(containers({"name": "one", "env": [{"name": "A", "value": "1"}]})),
        later,
        force=False,
        is_custom=False,
    )

    assert again == live


def test_a_plain_write_takes_ownership() -> None:
    """What a plain write changes belongs to its manager from then on, without a conflict."""
    live = applied(None, {"replicas": 1, "x": 1}, "a")
    after = copy_of(live)
    after["spec"]["replicas"] = 5

    record_update(live, after, writer("scaler", "Update"), is_custom=False)

    fields = {owner.manager: owner.fields for owner in owners_of(after)}
    assert fields["scaler"] == {("f:spec", "f:replicas")}
    assert ("f:spec", "f:replicas") not in fields["a"]
    with pytest.raises(ApiError):
        applied(after, {"replicas": 1, "x": 1}, "a")
    assert applied(after, {"x": 1}, "a")["spec"] == {"replicas": 5, "x": 1}


def test_field_sets_survive_their_document() -> None:
    """A set of paths written as fieldsV1 is read back the same."""
    paths = frozenset(
        values_by_path(
            manifest(containers({"name": "one", "env": [{"name": "A", "value": "1"}]})),
            is_custom=False,
        )
    )

    document = to_fields_v1(paths)

    assert from_fields_v1(document) == paths
    assert document["f:spec"]["f:containers"]['k:{"name":"one"}']["."] == {}
