"""What the conf of a Dag may name: the rule over all fields of a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from lagbench.core.scenario.conf_limits import ConfLimits, Reach, models_in, reaching_fields
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import WrongInput

FIELDS = dict(reaching_fields(Scenario))
HARMLESS = {
    "description": "is shown, escaped",
    "payload.key_field": "names a field of a sample",
    "payload.sha256": "is compared",
    "consumer.manifest_sha256": "is compared",
    "consumer.container": "names a container of the manifest",
    "consumer.client_id": "is compared, escaped",
}
"""Texts that lead to no file and to no process."""
LEAVES: dict[str, Any] = {
    "consumer.env": {"PYTHONWARNINGS": "x"},
    "actions.*.env": {"PYTHONWARNINGS": "x"},
    "consumer.command": ["sh", "-c", "id"],
    "consumer.args": ["-c", "id"],
}


def texts(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Yield each field below a model that takes any text."""
    for name, info in model.model_fields.items():
        inner = list(models_in(info.annotation))
        for part, one in inner:
            yield from texts(one, f"{above}{name}.{part}")
        is_bound = any(getattr(one, "pattern", None) for one in info.metadata)
        if not inner and takes_text(info.annotation) and not is_bound:
            yield f"{above}{name}"


def takes_text(annotation: Any) -> bool:
    """Return whether a type has ``str`` in it."""
    if get_origin(annotation) is Literal:
        return False
    return annotation in (str, Any) or any(map(takes_text, get_args(annotation)))


def data_with(field: str, value: Any) -> dict[str, Any]:
    """Return a scenario's data with one value at a dotted field."""
    first, _, rest = field.partition(".")
    if rest.startswith("*."):
        return {first: [data_with(rest[2:], value)]}
    return {first: data_with(rest, value) if rest else value}


def given(field: str) -> dict[str, Any]:
    """Return data that reach further by this field."""
    return data_with(field, LEAVES.get(field.removeprefix("second_group."), "/etc/passwd"))


def require(limits: ConfLimits, data: dict[str, Any], own: dict[str, Any] | None = None) -> None:
    """Apply the rule; a path leads to itself."""
    limits.require_fields(data, own or {}, lambda _, path: PurePath(path))


def test_each_text_of_a_scenario_is_known() -> None:
    """A new field of the models is marked with its reach, or stands above as harmless."""
    found = {field.removeprefix("second_group.") for field in texts(Scenario)}

    assert found - FIELDS.keys() == HARMLESS.keys()


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_reaches_further_is_refused(field: str) -> None:
    """It is named; what the catalog's file has itself is taken, and what is left empty."""
    limits = ConfLimits(FIELDS, allowed_folders=(PurePath("/"),))

    with pytest.raises(WrongInput) as refused:
        require(limits, given(field))

    assert refused.value.field.startswith(field.replace("*", "0"))
    assert refused.value.where == "conf"
    assert field in refused.value.allowed
    require(limits, given(field), given(field))
    for empty in (None, [], {}, ""):
        require(limits, data_with(field, empty), given(field))


@pytest.mark.parametrize("field", FIELDS)
def test_the_deployer_allows_fields_by_name(field: str) -> None:
    """That of a file needs an allowed folder, too."""
    inside = ConfLimits(FIELDS, (PurePath("/etc"),), allowed_fields=frozenset([field]))
    outside = ConfLimits(FIELDS, (PurePath("/etc/pass"),), allowed_fields=frozenset([field]))

    require(inside, given(field))
    if FIELDS[field] is Reach.FILE:
        with pytest.raises(WrongInput, match="/etc/pass"):
            require(outside, given(field))
    else:
        require(outside, given(field))


def test_a_variable_beside_those_of_the_catalog_is_refused() -> None:
    """By its own name; the others stay."""
    own = {"consumer": {"env": {"A": "1"}}}

    with pytest.raises(WrongInput) as refused:
        require(ConfLimits(FIELDS), {"consumer": {"env": {"A": "1", "B": "2"}}}, own)

    assert refused.value.field == "consumer.env.B"
