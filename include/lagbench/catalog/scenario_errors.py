"""Turn pydantic's errors in a file into one message that names the dotted field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lagbench.catalog.kubernetes_files import list_example
from lagbench.core.scenario.conf_limits import models_in
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import WrongInput
from pod_program.flags import NUMBER

# A rule over several fields says "FIELD must be …".
_RULE = re.compile(r"(?:Value error, )?(\S+) must be (.+)")


def wrong_file(
    error: ValidationError,
    data: Mapping[str, Any],
    *,
    where: str,
    model: type[BaseModel] = Scenario,
) -> WrongInput:
    """Return the first problem as ``WrongInput``; further ones are counted in the message."""
    problems = error.errors(include_url=False)
    first, more = problems[0], len(problems) - 1
    field, value, allowed = _described(first, data, model)
    if more:
        allowed += f" (and {more} more problem{'s' if more > 1 else ''} in this file)"
    return WrongInput(where=where, field=field, value=value, allowed=allowed)


def require_numbers(model: BaseModel, data: Mapping[str, Any], *, where: str) -> None:
    """Reject a text or a truth value as a number, and a number as a truth value."""
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
            if hasattr(value, name):
                yield from _given(getattr(value, name), given[name], f"{path}{name}.")
    elif isinstance(value, tuple) and isinstance(given, list):
        for number, (one, other) in enumerate(zip(value, given, strict=True)):
            yield from _given(one, other, f"{path}{number}.")
    else:
        yield path.removesuffix("."), value, given


def _described(  # noqa: PLR0911 - one return a kind of problem
    problem: ErrorDetails, data: Mapping[str, Any], model: type[BaseModel]
) -> tuple[str, Any, str]:
    """Return the field, its value, and what is allowed."""
    path, above, kinds = _place(problem["loc"], model)
    field, given = ".".join(path), problem["input"]
    number = "a number of milliseconds, or " if path[-1:] == ["process_ms"] else ""
    match problem["type"]:
        case "extra_forbidden":
            known = list(above.model_fields)
            close = get_close_matches(path[-1], known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]}? Fields here: " if close else "fields here: "
            return field, given, hint + ", ".join(known)
        case "missing":
            return field, None, "a value: this field is required"
        case "union_tag_invalid" if not number:
            return f"{field}.kind", problem.get("ctx", {}).get("tag"), kinds
        case "union_tag_invalid" | "union_tag_not_found" | "model_attributes_type":
            return field, given, f"{number}a mapping with kind {kinds}"
        case "model_type":
            return field, given, "a mapping of fields"
        case "tuple_type":
            return field, given, list_example(given) if isinstance(given, str) else "a list"
        case "value_error" if match := _RULE.fullmatch(problem["msg"]):
            return match[1], _value_at(data, match[1]), match[2]
    return field or "document", given, problem["msg"].removeprefix("Input should be ")


def _place(
    loc: Sequence[int | str], model: type[BaseModel]
) -> tuple[list[str], type[BaseModel], str]:
    """Return a problem's path, the model above its last part, and the kinds that it can have."""
    path: list[str] = []
    above = model
    kinds: dict[str, type[BaseModel]] = {}
    for part in loc:
        if str(part).startswith("function"):  # a check of pydantic's, which is no field either
            continue
        if part in kinds or (kinds and part == NUMBER):
            model, kinds = kinds.get(str(part), model), {}
            continue
        path.append(str(part))
        if isinstance(part, int):
            continue
        above, info = model, model.model_fields.get(part)
        models = [] if info is None else [one for _, one in models_in(info.annotation)]
        model = models[0] if models else model
        kinds = {
            get_args(one.model_fields["kind"].annotation)[0]: one
            for one in models
            if len(models) > 1 and "kind" in one.model_fields
        }
    return path, above, ", ".join(kinds)


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
