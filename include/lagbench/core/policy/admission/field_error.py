"""The API server's way to name what is wrong with one field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

ErrorKind = Literal["Required value", "Invalid value", "Unsupported value", "Too long", "Forbidden"]

SKIPPED_RULES = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was "
    "invalid; correct the existing errors to complete validation"
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that is rejected; ``detail`` says what is allowed.

    ``is_type_error``: the value is of another JSON type, and is named by it.
    """

    kind: ErrorKind
    field: str
    detail: str = ""
    value: Any = None
    is_type_error: bool = False

    @property
    def is_blocking(self) -> bool:
        """Return whether rules that compare fields are left out because of this error."""
        return self.is_type_error or self.kind != "Invalid value"

    def __str__(self) -> str:
        """Return the text as ``field.Error`` writes it."""
        parts = [self.field, self.kind]
        if self.kind in {"Invalid value", "Unsupported value"}:
            parts[1] += f": {json_text(self.value)}"
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)


def json_text(value: Any) -> str:
    """Return a value as JSON, a string in quotes."""
    return json.dumps(value, ensure_ascii=False)


def aggregate(texts: Sequence[str]) -> str:
    """Return one text as it is, several in brackets, each once."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
