"""Refusal of unknown fields in a manifest, with the field that was probably meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from lagbench.errors import WrongInput


def refuse_unknown_fields(
    given: object, known: Sequence[str], *, where: str, field: str
) -> Mapping[str, Any]:
    """Return ``given`` as a mapping of known fields; ``WrongInput`` names the first other one."""
    if not isinstance(given, Mapping):
        raise WrongInput(where=where, field=field, value=given, allowed="a mapping of fields")
    for name in given:
        if name not in known:
            close = get_close_matches(str(name), known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]}? Fields here: " if close else "fields here: "
            raise WrongInput(
                where=where,
                field=f"{field}.{name}",
                value=given[name],
                allowed=hint + ", ".join(known),
            )
    return given
