"""Which field a scenario is rejected for."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from lagbench.catalog.scenario_errors import wrong_file


def names(field: str) -> Callable[[ValidationError], bool]:
    """Return whether an error is reported as one of this field (``check`` of ``pytest.raises``)."""
    return lambda error: wrong_file(error, {}, where="a scenario").field == field
