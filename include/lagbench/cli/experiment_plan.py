"""Print what an experiment needs and what the simulator predicts of it; nothing is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lagbench.errors import WrongInput

if TYPE_CHECKING:
    from lagbench.cli.asked_experiment import AskedExperiment


def print_hours(asked: AskedExperiment) -> None:
    """Print the expected hours of all runs, and of those that are still missing."""
    from lagbench.core.compare.experiment_result import decidability_note

    found, schedule, progress = asked.found, asked.schedule, asked.progress
    hours, count = found.hours_of(schedule.pairs), len(schedule.runs)
    pairs = f"{schedule.pairs} {'pair' if schedule.pairs == 1 else 'pairs'}"
    asked.console.say(f"{found.title}: about {hours:.1f} hours, {pairs}, {count} runs")
    if note := decidability_note(found, schedule.pairs):
        asked.console.warn(note)
    if progress.records:
        left = hours * len(progress.missing) / count
        done = f"{progress.done} of {count} runs are done"
        asked.console.say(f"continues: {done}, about {left:.1f} hours are left")


def warn_of_target(asked: AskedExperiment) -> None:
    """Name each cell that the target, a cluster, cannot play."""
    from lagbench.core.cluster.cluster_settings import EMBEDDED
    from lagbench.orchestrator.target import refuse_elsewhere

    for name, cell in asked.cells.items():
        try:
            refuse_elsewhere(cell, is_embedded=asked.label == EMBEDDED)
        except WrongInput as error:
            asked.console.warn(f"cell {name} cannot run there, --cell leaves it out: {error}")


def print_order(asked: AskedExperiment) -> None:
    """Print the drawn order of the runs."""
    rows, cells = [], {cell.name: cell for cell in asked.found.cells}
    for number, run in enumerate(asked.schedule.runs, start=1):
        phase = "–" if run.hpa_sync_at_seconds is None else f"{run.hpa_sync_at_seconds:g}"
        overrides = asked.found.overrides_of(cells[run.cell]).items()
        settings = [*filter(None, [cells[run.cell].policy])]
        settings += [f"{key}={value}" for key, value in overrides]
        verdict = "".join(str(one.verdict) for one in asked.progress.attempts(run)[-1:])
        place = (str(number), str(run.pair), run.cell, str(run.seed))
        rows.append((*place, phase, ", ".join(settings), verdict))
    headings = ("", "pair", "cell", "seed", "HPA's sync, s", "settings", "verdict")
    title = f"order, drawn by seed {asked.schedule.order_seed}"
    asked.console.table(headings, rows, title=title, folded=headings)


def print_prediction(asked: AskedExperiment) -> None:
    """Print what the simulator predicts of each measure, with seeds and phases of the pairs."""
    from lagbench.cli.simulated_cells import simulated_cell
    from lagbench.core.compare.experiment_page import (
        PREDICTED_HEADINGS,
        not_simulated,
        predicted_rows,
    )
    from lagbench.core.simulation.simulate import left_out
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment

    found, say, simulated = asked.found, asked.console.say, {}
    try:
        for run in asked.schedule.runs:
            cell = asked.cells[run.cell]
            around = SimulatedEnvironment(hpa_sync_at_seconds=run.hpa_sync_at_seconds)
            played = simulated_cell(cell, run.seed, around)
            simulated[run.pair, run.cell] = played.measures
    except WrongInput as error:
        say(f"not simulated: {error}")
        return
    scenarios = [asked.cells[cell.name].scenario for cell in found.cells]
    if missing_parts := sorted({one for each in scenarios for one in left_out(each)}):
        say(f"! the prediction leaves out: {', '.join(missing_parts)}")
    if rows := [*predicted_rows(found, asked.schedule, simulated)]:
        title = "simulated with the seeds and phases of the pairs; differences to "
        title += found.cells[0].name
        asked.console.table(PREDICTED_HEADINGS, rows, title=title, folded=PREDICTED_HEADINGS)
    if missing := not_simulated(found):
        say(missing)
