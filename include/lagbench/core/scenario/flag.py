"""Define the base of what users and programs set: strict models, and flags for manual starts."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

SETTINGS_VARIABLE = "LAGBENCH_SETTINGS"
"""The variable with what a run sets, as a JSON object by the fields' names; it wins over flags."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Annotate a field whose flag is more than its name with dashes."""

    name: str = ""
    """A shorter name beside the field's, as the lab writes it."""
    variables: tuple[str, ...] = ()
    """Variables of the environment that count, in this order, if the flag is not given."""
    is_variable_only: bool = False


class StrictModel(BaseModel):
    """A frozen model that takes no unknown field, and no number without an end."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
