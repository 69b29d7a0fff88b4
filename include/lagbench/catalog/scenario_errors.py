"""Turn pydantic's errors in a scenario into one message that names the dotted field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lagbench.core.scenario import Profile, Scenario, action_models
from lagbench.errors import WrongInput

_PROFILES: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model
    for model in get_args(get_args(Profile)[0])
}
_PARTS: dict[str, type[BaseModel]] = {"": Scenario} | {
    name: field.annotation
    for name, field in Scenario.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
# A rule over several fields says "FIELD must be …".
_RULE = re.compile(r"(?:Value error, )?([a-z0-9_.]+) must be (.+)")


def wrong_scenario(error: ValidationError, data: Mapping[str, Any], *, where: str) -> WrongInput:
    """Return the first problem as ``WrongInput``; further ones are counted in the message."""
    problems = error.errors(include_url=False)
    first, more = problems[0], len(problems) - 1
    field, value, allowed = _described(first, data)
    if more:
        allowed += f" (and {more} more problem{'s' if more > 1 else ''} in this scenario)"
    return WrongInput(where=where, field=field, value=value, allowed=allowed)


def _described(  # noqa: PLR0911 - one return a kind of problem
    problem: ErrorDetails, data: Mapping[str, Any]
) -> tuple[str, Any, str]:
    path = [str(part) for part in problem["loc"]]
    model = _PARTS.get(path[0] if len(path) > 1 else "")
    if len(path) > 1 and path[0] == "profile":
        model = _PROFILES.get(path[1])
        path = [path[0], *path[2:]]
    kinds = _PROFILES
    if path[:1] == ["actions"]:
        kinds = dict(action_models())
        model = kinds.get(path[2]) if len(path) > 2 else None
        path = [*path[:2], *path[3:]]
    field = ".".join(path)
    match problem["type"]:
        case "extra_forbidden" if model is not None:
            known = list(model.model_fields)
            close = get_close_matches(path[-1], known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]}? Fields here: " if close else "fields here: "
            return field, problem["input"], hint + ", ".join(known)
        case "missing":
            return field, None, "a value: this field is required"
        case "union_tag_invalid":
            tag = problem.get("ctx", {}).get("tag")
            return f"{field}.kind", tag, ", ".join(kinds)
        case "union_tag_not_found" | "model_attributes_type":
            allowed = f"a {'profile' if kinds is _PROFILES else 'mapping'} with kind "
            allowed += ", ".join(kinds)
            return field, problem["input"], allowed
        case "model_type":
            return field, problem["input"], "a mapping of fields"
        case "tuple_type":
            return field, problem["input"], "a list"
        case "value_error" if match := _RULE.fullmatch(problem["msg"]):
            return match[1], _value_at(data, match[1]), match[2]
        case _:
            text = problem["msg"].removeprefix("Input should be ")
            return field or "document", problem["input"], text


def _value_at(data: Mapping[str, Any], field: str) -> Any:
    value: Any = data
    for part in field.split("."):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value
