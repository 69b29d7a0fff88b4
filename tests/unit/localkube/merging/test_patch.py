"""Merge patch, JSON patch and strategic merge patch."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.localkube.api_error import ApiError
from lagbench.localkube.merging.patch import (
    JSON,
    MERGE,
    STRATEGIC,
    json_patch,
    merge_patch,
    patched,
    strategic_merge_patch,
)


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
    spec = {
        "spec": {
            "containers": [
                {"name": "one", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"name": "two"},
            ],
            "args": [1, 2],
        }
    }
    change = {
        "spec": {
            "$setElementOrder/containers": [{"name": "one"}],
            "containers": [
                {
                    "name": "one",
                    "env": [{"name": "A", "value": "9"}, {"name": "B", "$patch": "delete"}],
                },
                {"name": "two", "$patch": "delete"},
                {"name": "three"},
            ],
            "args": [3],
        }
    }

    merged = strategic_merge_patch(spec, change)

    assert merged == {
        "spec": {
            "containers": [
                {"name": "one", "env": [{"name": "A", "value": "9"}]},
                {"name": "three"},
            ],
            "args": [3],
        }
    }


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
