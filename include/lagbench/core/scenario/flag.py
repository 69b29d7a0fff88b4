"""Define the flag of a field: how a model of settings is written on a program's command line.

The model owns a flag: its name is the field's with dashes, its default, help and bounds are the
field's. An annotation ``Flag`` adds what name and type of the field do not say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class Flag:
    """Annotate a field whose flag differs from the rule."""

    name: str = ""
    """Without its dashes; empty: the field's name."""
    variables: tuple[str, ...] = ()
    """Variables of the environment that count, in this order, if the flag is not given."""
    is_variable_only: bool = False
    """True: the value comes from the environment alone."""
    noun: str = ""
    """How an error names the values; empty: what the field's type says."""


def flag_of(field: str, info: FieldInfo) -> Flag:
    """Return the flag of a field, with its name."""
    flag = next((found for found in info.metadata if isinstance(found, Flag)), Flag())
    return replace(flag, name=flag.name or field.replace("_", "-"))


def flag_values(settings: BaseModel, model: type[BaseModel]) -> dict[str, str]:
    """Return the texts of all flags of ``model``, whose fields ``settings`` has."""
    return {
        flag_of(field, info).name: flag_text(getattr(settings, field))
        for field, info in model.model_fields.items()
    }


def flag_text(value: Any) -> str:
    """Return a value as a flag takes it: on or off, 2 for 2.0, 0.5 for 0.5, a model as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else repr(value)
    return str(value)
