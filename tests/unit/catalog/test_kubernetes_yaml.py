"""Kubernetes objects are read as kubectl reads them; each row was read by its YAML library."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.catalog.kubernetes_yaml import parse_objects
from lagbench.errors import WrongInput


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", False),
        ("on", True),
        ("Y", True),
        ("yEs", "yEs"),
        ('"no"', "no"),
        ("!!str no", "no"),
        ("10:30", "10:30"),
        ("=", "="),
        ("1\t# a comment", 1),
        ("\t1", 1),
        ("010", 8),
        ("0o10", 8),
        ("0o8", "0o8"),
        ("09", 9),
        ("0b11", 3),
        ("0x1F", 31),
        ("1_000", 1000),
        ("_1", "_1"),
        ("1e3", 1000),
        ("1.2e1", 12),
        ("12.0", 12),
        ("0.5", 0.5),
        ("1e400", "1e400"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
    ],
)
def test_a_scalar_is_what_kubectl_makes_of_it(text: str, value: Any) -> None:
    """Booleans and numbers of YAML 1.1, without its dates and its base 60."""
    (found,) = parse_objects(f"a: {text}", where="f")

    assert (found["a"], type(found["a"])) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "key"), [("no", "false"), ("010", "8"), ("1.0", "1"), ("x", "x"), ('"no"', "no")]
)
def test_a_key_is_the_text_of_its_value(text: str, key: str) -> None:
    """A label named no is named false."""
    assert parse_objects(f"{text}: 1", where="f") == [{key: 1}]


@pytest.mark.parametrize("text", ["a: .inf", "~: 1", "\ta: 1", "a: 1\na: 2"])
def test_what_kubectl_does_not_read_is_one_message(text: str) -> None:
    """An infinite number, a key of nothing, an indentation by tab, a key twice."""
    with pytest.raises(WrongInput, match="f: line"):
        parse_objects(text, where="f")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("{kind: List, items: [{kind: A}, {kind: B}]}", ["A", "B"]),
        ("{kind: ScaledObjectList, apiVersion: v, items: [{spec: 1}]}", ["ScaledObject"]),
        ("{kind: List, items: [{kind: List, items: [{kind: A}]}]}", ["A"]),
        ("kind: List\n---\nkind: A", ["A"]),
        ('{\n\t"kind": "A"\n}', ["A"]),
    ],
)
def test_the_items_of_a_list_are_objects(text: str, kinds: list[str]) -> None:
    """As kubectl get -o yaml or -o json writes them."""
    assert [item["kind"] for item in parse_objects(text, where="f")] == kinds
