"""Turn pydantic's errors in a file into one message: each field with its line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lagbench.catalog.kubernetes_files import list_example
from lagbench.catalog.strict_yaml import line_of
from lagbench.core.scenario.conf_limits import models_in
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.slo_limits import LIMIT
from lagbench.errors import WrongInput
from pod_program.flags import NUMBER
from pod_program.shown import shown

# A rule over several fields says "FIELD must be …".
_RULE = re.compile(r"(?:Value error, )?(\S+) must be (.+)")


def wrong_file(
    error: ValidationError,
    data: Mapping[str, Any],
    *,
    where: str,
    model: type[BaseModel] = Scenario,
    text: str = "",
    settings: Collection[str] = (),
) -> WrongInput:
    """Return all problems of a file as one ``WrongInput``, whose field is the first one's.

    :param text: of the file, for the lines of the fields.
    :param settings: fields that do not come from the file.
    """
    found = error.errors(include_url=False)
    missing = {".".join(_place(one["loc"], model)[0]) for one in found if one["type"] == "missing"}
    problems = []
    for one in found:
        field, value, allowed = _described(one, data, model)
        what = f"{field} = {shown(value, name=field)} is not allowed; allowed: {allowed}"
        if one["type"] == "extra_forbidden":
            meant = _meant(one, model)
            is_missing = meant in missing
            missing.discard(meant)
            last = meant.split(".")[-1]
            near = meant if field.split(".")[-1] == last else last
            close = f"did you mean {near}{', which is missing' * is_missing}?"
            what = f"{field} is not a field; {close if meant else allowed}"
        problems.append((field, value, allowed, what, one["type"]))
    kept = [one for one in problems if one[4] != "missing" or one[0] in missing]
    lines = []
    for field, _, _, what, kind in kept:
        set_fields = (key for key in settings if f"{field}.".startswith(f"{key}."))
        line = None if any(set_fields) else line_of(text, field)
        is_set = line is None and any(f"{key}.".startswith(field) for key in settings)
        place = "--set " if is_set and len(kept) > 1 else f"line {line}: " if line else ""
        lines.append((line or 0, place + (f"{field} is missing" if kind == "missing" else what)))
    told = "\n  ".join(line for _, line in sorted(lines))
    if len(lines) > 1:
        told = f"{len(lines)} problems\n  {told}"
    field, value, allowed, *_ = kept[0]
    return WrongInput(where=where, field=field, value=value, allowed=allowed, sentence=told)


def _meant(problem: ErrorDetails, model: type[BaseModel]) -> str:
    """Return the dotted field that a misspelt one is most like; empty if there is none."""
    path, above, _ = _place(problem["loc"], model)
    name, fields = path[-1], above.model_fields
    close = get_close_matches(name, list(fields), n=1, cutoff=0.6)
    close = close or [one for one in fields if one.startswith(f"{name}_")]
    close = close or [
        f"{one}.{name}"
        for one, info in fields.items()
        for _, inner in models_in(info.annotation)
        if name in inner.model_fields
    ]
    return ".".join([*path[:-1], close[0]]) if close else ""


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
    elif isinstance(given, Mapping) and not isinstance(value, Mapping):  # a limit with its level
        if LIMIT in given:
            yield from _given(value, given[LIMIT], f"{path}{LIMIT}.")
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
            return field, given, "fields here: " + ", ".join(above.model_fields)
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
    allowed = problem["msg"].removeprefix("Input should be ").partition(", unable to parse")[0]
    return field or "document", given, allowed


def _place(
    loc: Sequence[int | str], model: type[BaseModel]
) -> tuple[list[str], type[BaseModel], str]:
    """Return a problem's path, the model above its last part, and the kinds that it can have."""
    path: list[str] = []
    above = model
    kinds: dict[str, type[BaseModel]] = {}
    for part in loc:
        if str(part).startswith("function"):  # a check of pydantic's, which is not a field either
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
