"""Print comparisons of runs as terminal tables, with the noise floor beside each difference."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lagbench.cli.wide_table import print_whole
from lagbench.core.compare import Difference, DifferenceVerdict, NoiseFloor, RunPair
from lagbench.core.measures import NAMED, Measures, NamedMeasure

_COLOURS: dict[DifferenceVerdict, str] = {
    "differs": "bold",
    "equivalent": "green",
    "undetermined": "yellow",
    "listed": "dim",
}
_NO_FLOOR = (
    "no noise floor of this cell on this machine and versions: run the same cell twice with each "
    "of 8 seeds, then lagbench compare --keep-noise-floor RUN…"
)


def print_two_runs(console: Console, pair: RunPair, floor: NoiseFloor | None) -> None:
    """Print each measure of both runs and the difference; one pair is not tested."""
    table = _table("measure", "first", "second", "difference", "noise ±")
    for measure in NAMED.values():
        before, after = (measure.read(run.measures) for run in pair)
        change = None if before is None or after is None else after - before
        sign = "+" if change is not None and change > 0 else ""
        table.add_row(
            measure.heading,
            measure.number(before),
            measure.number(after),
            f"{sign}{measure.number(change)}",
            _noise(measure, floor),
        )
    _print_sides(console, [pair])
    print_whole(console, table)
    _print_floor_line(console, floor)
    _say(console, "two runs are one pair: nothing is tested")


def print_differences(
    console: Console,
    pairs: Sequence[RunPair],
    differences: Sequence[Difference],
    floor: NoiseFloor | None,
) -> None:
    """Print a line for each measure, and below the table the sentence of each tested one."""
    table = _table("measure", "first", "second", "difference", "95 %", "noise ±", "p", "Holm", "")
    for found in differences:
        between = (
            "–" if found.low is None else f"{found.change(found.low)} to {found.change(found.high)}"
        )
        table.add_row(
            found.heading,
            found.number(found.mean_first),
            found.number(found.mean_second),
            found.change(found.difference),
            between,
            _noise(NAMED[found.name], floor),
            _p(found.p),
            _p(found.holm_p),
            Text(found.verdict, style=_COLOURS[found.verdict]),
        )
    _print_sides(console, pairs)
    print_whole(console, table)
    for found in differences:
        if found.verdict != "listed":
            _say(console, f"{found.title}: {found.text}")
    _print_floor_line(console, floor)
    floors = [found.p_floor for found in differences if found.p_floor is not None]
    if floors:
        _say(console, f"lowest possible p of these pairs: {min(floors):.2g}")


def print_floor(console: Console, floor: NoiseFloor) -> None:
    """Print the noise floor of a cell."""
    table = _table("measure", "noise ±", "pairs")
    for measure in NAMED.values():
        found = floor.of_measure(measure.name)
        if found is not None:
            table.add_row(measure.heading, measure.number(found.half_width), str(found.n))
    print_whole(console, table)
    _print_floor_line(console, floor)


def _print_sides(console: Console, pairs: Sequence[RunPair]) -> None:
    for name, side in (("first", 0), ("second", 1)):
        runs = [pair[side] for pair in pairs]
        ids = ", ".join(run.run_id for run in runs)
        _say(console, f"{name:6}  {runs[0].measures.policy}: {ids}")


def _print_floor_line(console: Console, floor: NoiseFloor | None) -> None:
    _say(console, _NO_FLOOR if floor is None else f"noise floor: {floor.text}")


def _noise(measure: NamedMeasure[Measures], floor: NoiseFloor | None) -> str:
    found = None if floor is None else floor.of_measure(measure.name)
    return measure.number(None if found is None else found.half_width)


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def _table(*headings: str) -> Table:
    table = Table(box=None)
    for heading in headings:
        is_text = heading in ("measure", "")
        table.add_column(heading, no_wrap=True, justify="left" if is_text else "right")
    return table


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
