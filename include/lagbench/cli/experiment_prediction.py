"""Print what the simulator predicts of an experiment, with the seeds and phases of its pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from lagbench.core.experiment.result import PREDICTED_HEADINGS, not_simulated, predicted_values
from lagbench.core.simulation import (
    SimulatedEnvironment,
    SimulationMeasures,
    left_out,
    simulate,
)
from lagbench.errors import WrongInput

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell
    from lagbench.core.experiment import Experiment, Schedule


def print_prediction(
    console: Console, found: Experiment, cells: Mapping[str, Cell], schedule: Schedule
) -> None:
    """Print each measure of the experiment that the simulator has, by cell and pair."""
    try:
        simulated = {
            (run.pair, run.cell): _simulated(cells[run.cell], run.seed, run.hpa_sync_at_seconds)
            for run in schedule.runs
        }
    except WrongInput as error:
        _say(console, f"not simulated: {error}")
        return
    played = {cell.name: cells[cell.name].scenario for cell in found.cells}
    if missing_parts := sorted({one for each in played.values() for one in left_out(each)}):
        _say(console, f"! the prediction leaves out: {', '.join(missing_parts)}")
    rows = predicted_values(found, schedule, simulated)
    if rows:
        title = "simulated with the seeds and phases of the pairs; differences to"
        table = Table(box=None, title=f"{title} {found.cells[0].name}", title_justify="left")
        for heading in PREDICTED_HEADINGS:
            table.add_column(heading)
        for row in rows:
            table.add_row(*row.row)
        console.print(table, highlight=False)
    if missing := not_simulated(found):
        _say(console, missing)


def _simulated(cell: Cell, seed: int, phase: float | None) -> SimulationMeasures:
    around = SimulatedEnvironment(hpa_sync_at_seconds=phase)
    swapped = {number: one.policy for number, one in cell.swapped.items()}
    made = simulate(cell.scenario, cell.policy, seed=seed, environment=around, swapped=swapped)
    return made.measures


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
