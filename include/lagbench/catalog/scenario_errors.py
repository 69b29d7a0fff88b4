"""Turn pydantic's errors in a scenario into one message that names the dotted field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lagbench.catalog.kubernetes_types import list_example
from lagbench.core.scenario import EARLIER_NAMES, ProcessCost, Profile, Scenario, action_models
from lagbench.errors import WrongInput

_PROFILES: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model
    for model in get_args(get_args(Profile)[0])
}
_PARTS: dict[str, type[BaseModel]] = {"": Scenario} | {
    name: model
    for name, field in Scenario.model_fields.items()
    for model in (field.annotation, *get_args(field.annotation)[:1])
    if isinstance(model, type) and issubclass(model, BaseModel)
}
SECOND_GROUP = "second_group"
_COST = ["consumer", "process_ms"]
_COSTS: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(ProcessCost)
}
# A rule over several fields says "FIELD must be …".
_RULE = re.compile(r"(?:Value error, )?(\S+) must be (.+)")


def wrong_scenario(error: ValidationError, data: Mapping[str, Any], *, where: str) -> WrongInput:
    """Return the first problem as ``WrongInput``; further ones are counted in the message."""
    problems = error.errors(include_url=False)
    first, more = problems[0], len(problems) - 1
    field, value, allowed = _described(first, data)
    if more:
        allowed += f" (and {more} more problem{'s' if more > 1 else ''} in this scenario)"
    return WrongInput(where=where, field=field, value=value, allowed=allowed)


def require_numbers(model: BaseModel, data: Mapping[str, Any], *, where: str) -> None:
    """Reject a text or a truth value as a number, and a number as a truth value.

    Pydantic takes them.
    """
    for path, value, given in _given(model, data):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and isinstance(given, bool | str):
            allowed = "a number, without quotes"
            raise WrongInput(where=where, field=path, value=given, allowed=allowed)
        if isinstance(value, bool) and not isinstance(given, bool | str):
            raise WrongInput(where=where, field=path, value=given, allowed="true or false")


def _given(value: Any, given: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each value of a model beside what it was made from, with its dotted field."""
    if isinstance(value, BaseModel) and isinstance(given, Mapping):
        for name in given:
            current = EARLIER_NAMES.get(f"{path}{name}", name).rpartition(".")[2]
            if hasattr(value, current):
                yield from _given(getattr(value, current), given[name], f"{path}{name}.")
    elif isinstance(value, tuple) and isinstance(given, list):
        for number, (one, other) in enumerate(zip(value, given, strict=True)):
            yield from _given(one, other, f"{path}{number}.")
    else:
        yield path.removesuffix("."), value, given


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a problem lies: the fields on the way, the model there, the kinds to choose from."""

    path: list[str]
    model: type[BaseModel] | None
    kinds: Mapping[str, type[BaseModel]]
    what: str  # that has a kind, in words

    @classmethod
    def of(cls, problem: ErrorDetails) -> _Place:
        """Return the place without the kinds that pydantic puts into it."""
        path = [str(part) for part in problem["loc"]]
        if path[:1] == [SECOND_GROUP] and len(path) > 2:
            inner = cls.of({**problem, "loc": problem["loc"][1:]})
            return replace(inner, path=[SECOND_GROUP, *inner.path])
        if path[:1] == ["actions"]:
            kinds: Mapping[str, type[BaseModel]] = action_models()
            model = kinds.get(path[2]) if len(path) > 2 else None
            return cls([*path[:2], *path[3:]], model, kinds, "a mapping")
        if path[:2] == _COST:
            model = _COSTS.get(path[2]) if len(path) > 3 else None
            what = "a number of milliseconds, or a mapping"
            return cls([*path[:2], *path[3:]], model, _COSTS, what)
        if path[0:1] == ["profile"] and len(path) > 1:
            return cls([path[0], *path[2:]], _PROFILES.get(path[1]), _PROFILES, "a profile")
        return cls(path, _PARTS.get(path[0] if len(path) > 1 else ""), _PROFILES, "a profile")


def _described(  # noqa: PLR0911 - one return a kind of problem
    problem: ErrorDetails, data: Mapping[str, Any]
) -> tuple[str, Any, str]:
    place = _Place.of(problem)
    path, model, kinds = place.path, place.model, ", ".join(place.kinds)
    field = ".".join(path)
    match problem["type"]:
        case "extra_forbidden" if model is not None:
            known = list(model.model_fields)
            close = get_close_matches(path[-1], known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]}? Fields here: " if close else "fields here: "
            return field, problem["input"], hint + ", ".join(known)
        case "missing":
            return field, None, "a value: this field is required"
        case "union_tag_invalid" if path[:2] == _COST:
            return field, problem["input"], f"{place.what} with kind {kinds}"
        case "union_tag_invalid":
            return f"{field}.kind", problem.get("ctx", {}).get("tag"), kinds
        case "union_tag_not_found" | "model_attributes_type":
            return field, problem["input"], f"{place.what} with kind {kinds}"
        case "model_type":
            return field, problem["input"], "a mapping of fields"
        case "tuple_type":
            given = problem["input"]
            allowed = list_example(given) if isinstance(given, str) else "a list"
            return field, given, allowed
        case "value_error" if match := _RULE.fullmatch(problem["msg"]):
            return match[1], _value_at(data, match[1]), match[2]
        case _:
            text = problem["msg"].removeprefix("Input should be ")
            return field or "document", problem["input"], text


def _value_at(data: Mapping[str, Any], field: str) -> Any:
    value: Any = data
    parts = field.split(".")
    for number, part in enumerate(parts):
        rest = ".".join(parts[number:])  # a variable's name may have dots
        if isinstance(value, Mapping) and rest in value:
            return value[rest]
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value
