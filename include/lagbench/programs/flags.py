"""Read a program's command line and environment into the model of its settings.

The model owns each flag (see ``lagbench.core.scenario.Flag``). This module owns the rules that all
programs share: A flag works with one dash, as the lab writes it, or with two. It wins over its
variable. A switch takes ``on`` or ``off``, and alone means ``on``. An empty variable counts as not
given, and so does an empty text of a flag that takes any text.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Generic, Literal, NoReturn, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lagbench.core.scenario import NUMBER, Flag, flag_of, flag_text
from lagbench.errors import WrongInput

_SWITCH = {"on": True, "off": False}
_NOUNS = {int: "a whole number", float: "a number"}
_AS_THERE: Any = object()


class Settings(BaseModel):
    """Base of the settings of a program; the docstring is the description in ``--help``."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Read = TypeVar("Read", bound=BaseModel)


def like(model: type[Any], field: str, description: str = "", *, default: Any = _AS_THERE) -> Any:
    """Return a field with the bounds of another model's field, which stays their one owner."""
    there = model.__pydantic_fields__[field]
    return Field(
        there.default if default is _AS_THERE else default,
        description=description or there.description,
        **_bounds(there.metadata),
    )


class CommandLine(Generic[Read]):
    """The flags and variables of one program."""

    def __init__(self, model: type[Read], *, module: str, variable_prefix: str = "") -> None:
        """Read the flags of ``model`` for the program that ``python -m module`` starts.

        With ``variable_prefix`` each flag without a variable gets one, such as ``PRODUCER_SEED``.
        """
        self._model = model
        self._program = module.rpartition(".")[2]
        self._prefix = variable_prefix
        self._flags = {name: flag_of(name, info) for name, info in model.model_fields.items()}
        self._parser = self._build_parser(f"python -m {module}")

    def read(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Read:
        """Return the settings.

        :raises WrongInput: names the flag or variable, its value and the allowed values.
        """
        texts, names = self._texts(arguments, environment)
        values = {field: self._value(field, text) for field, text in texts.items()}
        try:
            return self._model.model_validate(values)
        except ValidationError as error:
            wrong = [list(map(str, one["loc"])) for one in error.errors(include_url=False)]
            # A wrong value before a missing one: the value is what somebody just wrote.
            field, *inner = min(wrong, key=lambda place: place[0] not in texts)
            parts = [part for part in inner if part != NUMBER]
            name = ".".join([names.get(field, self._name(field)), *parts])
            raise self._wrong(name, texts.get(field), field) from error

    def missing(self, field: str) -> WrongInput:
        """Return the error of a flag that is required together with others."""
        return self._wrong(self._name(field), None, field)

    def _texts(
        self, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the text of each field that is given, and the flag or variable that gave it."""
        texts, names = {}, {}
        for field, text in self._parse(arguments).items():
            if text or self._kind(field) not in (str, Path):
                texts[field], names[field] = text, self._name(field)
        for field, flag in self._flags.items():
            given = [name for name in self._variables(flag) if environment.get(name)]
            if field not in texts and given:
                texts[field], names[field] = environment[given[0]], given[0]
        return texts, names

    def _parse(self, arguments: Sequence[str]) -> dict[str, str]:
        known = {flag.name for flag in self._flags.values()}
        with_two_dashes = [
            f"-{word}" if word[:1] == "-" and word[1:].partition("=")[0] in known else word
            for word in arguments
        ]
        try:
            found, unknown = self._parser.parse_known_args(with_two_dashes)
        except argparse.ArgumentError as error:
            for field in self._flags:
                if error.argument_name == self._name(field):
                    raise self.missing(field) from error
            self._parser.error(str(error))
        if unknown:
            self._parser.error(" ".join(unknown))
        return vars(found)

    def _value(self, field: str, text: str) -> object:
        """Return a text as pydantic reads it; of the words for a truth value, only on and off."""
        is_switch = self._kind(field) is bool
        return _SWITCH.get(text, f"not a switch: {text}") if is_switch else text

    def _wrong(self, name: str, value: object, field: str) -> WrongInput:
        allowed = self._help(field) if value is None else self._allowed(field)
        return WrongInput(where=self._program, field=name, value=value, allowed=allowed)

    def _name(self, field: str) -> str:
        flag = self._flags[field]
        return flag.variables[0] if flag.is_variable_only else f"--{flag.name}"

    def _variables(self, flag: Flag) -> Sequence[str]:
        if self._prefix and not flag.variables:
            return [f"{self._prefix}{flag.name.upper().replace('-', '_')}"]
        return flag.variables

    def _kind(self, field: str) -> Any:
        """Return the type of a field, without the None of a flag that may be left out."""
        annotation: Any = self._model.model_fields[field].annotation
        parts = get_args(annotation)
        is_optional = NoneType in parts
        return next(part for part in parts if part is not NoneType) if is_optional else annotation

    def _allowed(self, field: str) -> str:
        """Return the allowed values in words."""
        kind, info = self._kind(field), self._model.model_fields[field]
        if kind is bool:
            return "on or off"
        if get_origin(kind) is Literal:
            return ", ".join(get_args(kind))
        noun = self._flags[field].noun or _NOUNS.get(kind)
        if noun is None:
            return str(info.description)
        return f"{noun} {_bounds_text(**_bounds(info.metadata))}".rstrip(" ,")

    def _help(self, field: str) -> str:
        info, allowed = self._model.model_fields[field], self._allowed(field)
        parts = [] if allowed == info.description else [allowed]
        parts += self._flags[field].variables
        if info.default not in (None, "") and not info.is_required():
            parts.append(f"default: {flag_text(info.default)}")
        return f"{info.description} ({'; '.join(parts)})" if parts else str(info.description)

    def _build_parser(self, usage: str) -> _Parser:
        also = f" Variables: {self._prefix}SEED for --seed, and so on." if self._prefix else ""
        parser = _Parser(
            self._program,
            prog=usage,
            description=inspect.getdoc(self._model),
            epilog=f"One dash is enough.{also}",
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            exit_on_error=False,
        )
        for field, flag in self._flags.items():
            if not flag.is_variable_only:
                action = parser.add_argument(
                    f"--{flag.name}", dest=field, help=self._help(field).replace("%", "%%")
                )
                if self._kind(field) is bool:
                    action.nargs, action.const, action.metavar = "?", "on", "on|off"
        return parser


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are lagbench's own."""

    def __init__(self, program: str, **how: Any) -> None:
        super().__init__(**how)
        self._program = program

    def error(self, message: str) -> NoReturn:
        raise WrongInput(
            where=self._program,
            field="command line",
            value=message,
            allowed="the flags that --help lists",
        )


def _bounds(metadata: Sequence[Any]) -> dict[str, Any]:
    """Return the bounds of a field by pydantic's names."""
    return {
        bound: getattr(part, bound)
        for part in metadata
        for bound in ("gt", "ge", "lt", "le")
        if getattr(part, bound, None) is not None
    }


def _bounds_text(
    *, ge: float | None = None, gt: float | None = None, le: float | None = None
) -> str:
    if ge is not None and le is not None:
        return f"from {ge} to {le}"
    low = f"above {gt}" if gt is not None else f"of at least {ge}" if ge is not None else ""
    high = f"at most {le}" if le is not None else ""
    return ", ".join(filter(None, (low, high)))
