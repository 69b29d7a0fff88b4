"""Server-side apply: ownership, removal, conflicts, keyed lists."""

from __future__ import annotations

from typing import Any

import pytest

from localkube.kube_objects import ApiError, KubeObject
from localkube.merging.apply import FieldRules, Owner, owners_of
from localkube.merging.patch import (
    JSON,
    MERGE,
    STRATEGIC,
    json_patch,
    merge_patch,
    patched,
    strategic_merge_patch,
)


def writer(manager: str, operation: str = "Apply", at: str = "2026-01-01T00:00:00Z") -> Owner:
    """Return a manager that owns nothing yet."""
    return Owner(manager, operation, "", frozenset(), "v1", at)


def manifest(spec: dict[str, Any], **metadata: Any) -> KubeObject:
    """Return an object to apply."""
    return KubeObject(apiVersion="v1", kind="Thing", metadata={"name": "x", **metadata}, spec=spec)


def applied(
    live: KubeObject | None, spec: dict[str, Any], manager: str = "a", *, is_custom: bool = False
) -> KubeObject:
    """Apply a spec as a manager."""
    return FieldRules(is_custom).apply(live, manifest(spec), writer(manager), force=False)


def fields_of(obj: KubeObject) -> dict[str, frozenset[Any]]:
    """Return what each manager owns."""
    return {owner.manager: owner.fields for owner in owners_of(obj, writer("nobody"))[1]}


def containers(*entries: dict[str, Any]) -> dict[str, Any]:
    """Return a spec with containers."""
    return {"containers": list(entries)}


_PORTS = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]


@pytest.mark.parametrize(
    ("first", "second", "is_custom"),
    [
        # two entries for one number with different protocols are two items
        (
            containers({"name": "m", "ports": _PORTS}),
            containers({"name": "m", "ports": _PORTS[1:]}),
            False,
        ),
        # in a custom resource a list is one value, whatever its items look like
        (containers({"name": "one"}), containers({"name": "two"}), True),
    ],
)
def test_items_that_an_apply_leaves_out_go(
    first: dict[str, Any], second: dict[str, Any], *, is_custom: bool
) -> None:
    """The second apply of one manager is what is left."""
    live = applied(None, first, is_custom=is_custom)

    assert applied(live, second, is_custom=is_custom).spec == second


def test_what_nobody_applied_stays() -> None:
    """A field that the server or a plain write set survives an apply that does not name it."""
    live = applied(None, {"x": 1})
    live.spec["defaulted"] = True

    assert applied(live, {"x": 2}).spec == {"x": 2, "defaulted": True}


def test_a_data_map_loses_only_the_key() -> None:
    """A label of somebody else stays when the manager's own label goes."""
    mine = manifest({"a": 1}, labels={"mine": "1"})
    live = FieldRules(is_custom=False).apply(None, mine, writer("a"), force=False)
    live.metadata["labels"]["theirs"] = "2"

    assert applied(live, {"a": 1}).labels == {"theirs": "2"}


def test_repeating_an_apply_changes_nothing() -> None:
    """The same apply twice gives the same object, managed fields and time included."""
    spec = containers({"name": "one", "env": [{"name": "A", "value": "1"}]})
    live, later = applied(None, spec), writer("a", at="2026-02-02T00:00:00Z")

    assert FieldRules(is_custom=False).apply(live, manifest(spec), later, force=False) == live


def test_a_plain_write_takes_ownership() -> None:
    """What a plain write changes belongs to its manager from then on, without a conflict."""
    live = applied(None, {"replicas": 1, "x": 1}, "a")
    after = live.copy()
    after.spec["replicas"] = 5

    FieldRules(is_custom=False).record_update(live, after, writer("scaler", "Update"))

    fields = fields_of(after)
    assert fields["scaler"] == {("f:spec", "f:replicas")}
    assert ("f:spec", "f:replicas") not in fields["a"]
    with pytest.raises(ApiError):
        applied(after, {"replicas": 1, "x": 1}, "a")
    assert applied(after, {"x": 1}, "a").spec == {"replicas": 5, "x": 1}


def test_a_merge_patch_removes_by_null_and_replaces_lists() -> None:
    """Null removes, objects merge, everything else is replaced."""
    target = {"a": {"b": 1, "c": 2}, "list": [1, 2], "gone": 1}

    merged = merge_patch(
        target, {"a": {"b": 3, "new": {"x": None, "y": 1}}, "list": [3], "gone": None}
    )

    assert merged == {"a": {"b": 3, "c": 2, "new": {"y": 1}}, "list": [3]}
    assert target["gone"] == 1


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/list/1", "value": 9}, {"list": [1, 9, 2], "m": {"a/b": 1}}),
        ({"op": "add", "path": "/list/-", "value": 9}, {"list": [1, 2, 9], "m": {"a/b": 1}}),
        ({"op": "remove", "path": "/m/a~1b"}, {"list": [1, 2], "m": {}}),
        ({"op": "replace", "path": "/list/0", "value": 7}, {"list": [7, 2], "m": {"a/b": 1}}),
        ({"op": "move", "from": "/m/a~1b", "path": "/m/c"}, {"list": [1, 2], "m": {"c": 1}}),
        (
            {"op": "copy", "from": "/list/0", "path": "/n"},
            {"list": [1, 2], "m": {"a/b": 1}, "n": 1},
        ),
        ({"op": "test", "path": "/list/0", "value": 1}, {"list": [1, 2], "m": {"a/b": 1}}),
    ],
)
def test_json_patch_operations(operation: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each operation of RFC 6902 does what it says, with escaped pointers."""
    assert json_patch({"list": [1, 2], "m": {"a/b": 1}}, [operation]) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/missing"},
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "jump", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_a_json_patch_that_cannot_be_done_is_refused(operation: dict[str, Any]) -> None:
    """A failing test, a missing place or an unknown operation is a 422."""
    with pytest.raises(ApiError) as refused:
        json_patch({"a": 1}, [operation])

    assert refused.value.code == 422


def test_a_strategic_patch_merges_items_by_key() -> None:
    """Containers are merged by name, variables inside them too; directives delete and replace."""
    variables = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    changed = [{"name": "A", "value": "9"}, {"name": "B", "$patch": "delete"}]
    spec = {"containers": [{"name": "one", "env": variables}, {"name": "two"}], "args": [1, 2]}
    change = {
        "$setElementOrder/containers": [{"name": "one"}],
        "containers": [
            {"name": "one", "env": changed},
            {"name": "two", "$patch": "delete"},
            {"name": "three"},
        ],
        "args": [3],
    }

    merged = strategic_merge_patch({"spec": spec}, {"spec": change})

    one = {"name": "one", "env": [{"name": "A", "value": "9"}]}
    assert merged == {"spec": {"containers": [one, {"name": "three"}], "args": [3]}}


def test_a_strategic_patch_can_keep_only_named_fields() -> None:
    """``$retainKeys`` drops the fields that it does not name: a strategy changes its type."""
    strategy = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}

    merged = strategic_merge_patch(
        strategy, {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    )

    assert merged == {"strategy": {"type": "Recreate"}}


@pytest.mark.parametrize(
    ("content_type", "is_custom", "code"),
    [
        ("application/json", False, 415),
        (STRATEGIC, True, 415),
        (MERGE, True, 400),
        (JSON, False, 400),
    ],
)
def test_what_is_no_patch_is_refused(content_type: str, code: int, *, is_custom: bool) -> None:
    """Unknown formats, strategic patches of custom kinds and wrong shapes are rejected."""
    with pytest.raises(ApiError) as refused:
        patched({"a": 1}, "text", content_type, is_custom=is_custom)

    assert refused.value.code == code
