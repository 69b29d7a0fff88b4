"""Define what a measure must be, for a claim that needs no test: a number, or limits.

``lost: 0`` and ``duplicated: {above: 0}`` are claims on every run. A value that was not measured
shows nothing, and neither does one whose precision leaves the claim open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

_WORDS = {"equals": "", "above": "above ", "at_least": "at least ", "below": "below "}


class ExpectedValue(BaseModel):
    """All given limits hold; a plain number in the file is ``equals``. In the measure's unit."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    equals: float | None = Field(None)
    above: float | None = Field(None)
    at_least: float | None = Field(None)
    below: float | None = Field(None)
    at_most: float | None = Field(None)

    @model_validator(mode="before")
    @classmethod
    def _is_a_number_or_limits(cls, given: Any) -> Any:
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        return {"equals": given} if is_number else given

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedValue:
        if not any(limit is not None for _, limit in self._limits()):
            raise ValueError(f"a number, or one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def text(self) -> str:
        """Return the limits in words: ``0``, ``above 0 and at most 5``."""
        return " and ".join(
            f"{_WORDS.get(name, 'at most ')}{limit:,g}"
            for name, limit in self._limits()
            if limit is not None
        )

    def holds(self, low: float, high: float) -> bool | None:
        """Return whether every value from ``low`` to ``high`` meets the limits.

        False: no value does. None: some do, so the precision leaves it open.
        """
        meets = [
            _meets(name, limit, low, high) for name, limit in self._limits() if limit is not None
        ]
        if False in meets:
            return False
        return None if None in meets else True

    def _limits(self) -> Iterator[tuple[str, float | None]]:
        for name in type(self).model_fields:
            yield name, getattr(self, name)


def _meets(name: str, limit: float, low: float, high: float) -> bool | None:
    always, never = {
        "equals": (low == high == limit, limit < low or limit > high),
        "above": (low > limit, high <= limit),
        "at_least": (low >= limit, high < limit),
        "below": (high < limit, low >= limit),
        "at_most": (high <= limit, low > limit),
    }[name]
    if always:
        return True
    return False if never else None
