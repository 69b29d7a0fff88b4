"""The rows of the table of differences, for the terminal and for ``result.md``."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.compare import Difference, NoiseFloor
from lagbench.core.experiment.result.experiment_result import ShownValue
from lagbench.core.measures import NAMED

HEADINGS = (
    "measure",
    "{first}",
    "{second}",
    "difference (95 % interval)",
    "noise floor",
    "bound",
    "Holm p",
    "verdict",
)
"""The titles of the columns; the names of both cells are inserted."""
SHOWN_HEADINGS = ("cell", "measure", "expected", "in each run", "verdict")
_UNKNOWN = "–"


def tested(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences that have a verdict; the others are only listed."""
    return [found for found in differences if found.verdict != "listed"]


def in_order(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences that have a verdict, then those that are listed and were measured."""
    shown = [found for found in differences if not _is_unknown(found)]
    return sorted(shown, key=lambda found: found.verdict == "listed")


def not_measured(differences: Sequence[Difference]) -> str | None:
    """Return which listed measures no pair has in either cell; None: there are none."""
    titles = [found.title for found in differences if _is_unknown(found)]
    return f"not measured in these cells: {', '.join(titles)}" if titles else None


def _is_unknown(found: Difference) -> bool:
    means = (found.mean_first, found.mean_second)
    return found.verdict == "listed" and means == (None, None)


def difference_row(found: Difference, noise: NoiseFloor | None) -> tuple[str, ...]:
    """Return one measure's row; a dash where there is no value."""
    floor = None if noise is None else noise.of_measure(found.name)
    change = found.change(found.difference)
    if found.low is not None and found.high is not None:
        change += f" ({found.change(found.low)} to {found.change(found.high)})"
    return (
        found.heading,
        found.number(found.mean_first),
        found.number(found.mean_second),
        change,
        _within(found, None if floor is None else floor.half_width),
        _within(found, found.bound),
        _UNKNOWN if found.holm_p is None else f"{found.holm_p:.2g}",
        found.verdict,
    )


def _within(found: Difference, width: float | None) -> str:
    return _UNKNOWN if width is None else f"±{found.number(width)}"


def shown_row(found: ShownValue) -> tuple[str, ...]:
    """Return the row of a claim that needs no test; a dash where there is no value."""
    measure = NAMED[found.name]
    values = ", ".join(measure.number(value) for value in found.values)
    return (found.cell, measure.heading, found.expected, values, found.verdict)
