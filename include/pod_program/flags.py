"""Read the settings of a program: from the document of its run, its flags and its variables.

The model is the one owner of names, defaults and bounds. Each field is a flag, with one dash as
the lab writes it or with two. The document wins over flags, and a flag over its variable. An empty
variable counts as not given, and so does an empty text of a flag that takes any text.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NoReturn, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pod_program.errors import WrongInput

_AS_THERE: Any = object()

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


SETTINGS_VARIABLE = "LAGBENCH_SETTINGS"
"""The variable with what a run sets, as a JSON object by the fields' names; it wins over flags."""

NUMBER = "number"
"""The tag of a plain number in a field that takes other forms, too: no part of a field's name."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Annotate a field whose flag is more than its name with dashes."""

    name: str = ""
    """A shorter name beside the field's, as the lab writes it."""
    variables: tuple[str, ...] = ()
    """Variables of the environment that count, in this order, if the flag is not given."""
    is_variable_only: bool = False


PodName = Annotated[
    str,
    Flag(variables=("POD_NAME",), is_variable_only=True),
    Field(description="the pod's metadata.name"),
]


class Settings(BaseModel):
    """Base of the settings of a program; the docstring is the description in ``--help``."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Read = TypeVar("Read", bound=BaseModel)


def like(model: type[Any], field: str, description: str = "", *, default: Any = _AS_THERE) -> Any:
    """Return a field with the bounds of another model's field, which stays their one owner."""
    there = model.__pydantic_fields__[field]
    given = there.default if default is _AS_THERE else default
    bounds = _bounds(there.metadata)
    return Field(given, description=description or there.description, **bounds)


def _bounds(metadata: Sequence[Any]) -> dict[str, Any]:
    """Return the bounds of a field by pydantic's names."""
    return {
        bound: getattr(part, bound)
        for part in metadata
        for bound in _SIGNS
        if getattr(part, bound, None) is not None
    }


class CommandLine(Generic[Read]):
    """The flags and variables of the program that ``python -m module`` starts."""

    def __init__(self, model: type[Read], *, module: str, variable_prefix: str = "") -> None:
        """With ``variable_prefix`` each flag also has a variable, such as ``PRODUCER_SEED``."""
        self._model, self._program = model, module.rpartition(".")[2]
        self._flags: dict[str, Flag] = {}
        self._parser = _Parser(
            self._program,
            prog=f"python -m {module}",
            description=inspect.getdoc(model),
            epilog="One dash is enough.",
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        for field, info in model.model_fields.items():
            flag = next((found for found in info.metadata if isinstance(found, Flag)), Flag())
            variables = flag.variables
            if variable_prefix and not variables:
                variables = (f"{variable_prefix}{field.upper()}",)
            self._flags[field] = Flag(flag.name, variables, flag.is_variable_only)
            if flag.is_variable_only:
                continue
            names = dict.fromkeys((flag.name or _dashed(field), _dashed(field)))
            default = "" if info.is_required() or info.default is None else info.default
            more = [f"{_SIGNS[name]} {limit}" for name, limit in _bounds(info.metadata).items()]
            more += [*variables, *([f"default: {default}"] if default != "" else [])]
            text = f"{info.description} ({'; '.join(more)})" if more else str(info.description)
            action = self._parser.add_argument(
                *(f"{dashes}{name}" for name in names for dashes in ("-", "--")),
                dest=field,
                help=text.replace("%", "%%"),
            )
            if get_origin(info.annotation) is Literal:
                action.metavar = "|".join(get_args(info.annotation))
            if info.annotation is bool:
                action.nargs, action.const, action.metavar = "?", "on", "on|off"

    def read(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Read:
        """Return the settings; ``WrongInput`` names the first wrong one and what is allowed."""
        values: dict[str, Any] = {}
        names: dict[str, str] = {}
        for field, flag in self._flags.items():
            for variable in flag.variables:
                if field not in values and environment.get(variable):
                    values[field], names[field] = _value(environment[variable]), variable
        for field, text in vars(self._parser.parse_args(arguments)).items():
            annotation = self._model.model_fields[field].annotation
            if text or not {str, Path} & {annotation, *get_args(annotation)}:
                values[field], names[field] = _value(text), self._name(field)
        if document := environment.get(SETTINGS_VARIABLE):
            of_run = json.loads(document)
            values |= of_run
            names |= {field: f"{SETTINGS_VARIABLE}.{field}" for field in of_run}
        try:
            return self._model.model_validate(values)
        except ValidationError as error:
            # A wrong value before a missing one: the value is what somebody just wrote.
            first = min(error.errors(include_url=False), key=lambda one: one["type"] == "missing")
            field, *inner = (str(part) for part in first["loc"] if part != NUMBER)
            if first["type"] == "missing" and not inner:
                raise self.missing(field) from error
            info = self._model.model_fields.get(field)
            allowed = first["msg"].removeprefix("Input should be ")
            raise WrongInput(
                where=self._program,
                field=".".join([names.get(field, field), *inner]),
                value=first["input"],
                allowed=f"{allowed} ({info.description})" if info else allowed,
            ) from error

    def missing(self, field: str) -> WrongInput:
        """Return the error of a setting that is required."""
        description = str(self._model.model_fields[field].description)
        return self.wrong(field, None, description)

    def wrong(self, field: str, value: object, allowed: str) -> WrongInput:
        """Return the error of a setting, by the name of its flag or variable."""
        return WrongInput(
            where=self._program, field=self._name(field), value=value, allowed=allowed
        )

    def _name(self, field: str) -> str:
        flag = self._flags[field]
        return flag.variables[0] if flag.is_variable_only else f"--{flag.name or _dashed(field)}"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are ``WrongInput``."""

    def __init__(self, program: str, **how: Any) -> None:
        super().__init__(**how)
        self._program = program

    def error(self, message: str) -> NoReturn:
        allowed = "the flags that --help lists"
        raise WrongInput(where=self._program, field="command line", value=message, allowed=allowed)


def _dashed(field: str) -> str:
    return field.replace("_", "-")


def _value(text: str) -> Any:
    """Return a list or an object that is written as JSON; every other text as it is."""
    if text.startswith(("{", "[")):
        with suppress(ValueError):  # for example the address [::1]:9092
            return json.loads(text)
    return text
