"""Define how a program gets its settings: a document of its run, and flags for manual starts."""

from __future__ import annotations

from dataclasses import dataclass

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
