"""The verdict over the seeds of simulated policies: exit code, lines, and JUnit."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode

if TYPE_CHECKING:
    from lagbench.cli.simulated_cells import SimulatedCell

_NOTHING = "nothing was judged: no limit that can fail, of those that a simulation can judge"


def verdict_code(cells: Sequence[SimulatedCell]) -> ExitCode:
    """Return 1 if an SLO fails, 4 if one is undetermined or of a policy none was judged, else 0."""
    slos = [one.slo for cell in cells for one in cell.over_seeds]
    if any(slo.status == "fail" for slo in slos):
        return ExitCode.SLO_FAILED
    if any(slo.leaves_open for slo in slos) or any(map(_judges_nothing, cells)):
        return ExitCode.UNDETERMINED
    return ExitCode.PASS


def _judges_nothing(cell: SimulatedCell) -> bool:
    return all(one.slo.level == "warn" for one in cell.over_seeds)


def print_verdict(
    console: Terminal, cells: Sequence[SimulatedCell], commands: Sequence[str]
) -> None:
    """Print a line for each SLO of each policy, and the command that shows the worst seed.

    :param commands: for each policy, without the seed.
    """
    from lagbench.core.verdict.in_words import MARKS

    for cell, command in zip(cells, commands, strict=True):
        for one in cell.over_seeds:
            slo = one.slo
            title = f"{slo.title}, {slo.threshold}"
            console.say(f"{MARKS[slo.status]} {cell.name}: {title}: {slo.reason}")
            if one.broken and slo.status != "pass":
                worst = max(one.broken, key=lambda seed: inf if seed.value is None else seed.value)
                console.say(f"  {command} --seed {worst.seed}")
        if _judges_nothing(cell):
            console.say(f"? {cell.name}: {_NOTHING}")


def junit_of(cells: Sequence[SimulatedCell]) -> str:
    """Return the JUnit document: a testcase for each SLO of each policy."""
    from lagbench.report.junit import junit_suite

    scenario = cells[0].cell.scenario.name
    return junit_suite(
        f"lagbench.simulate.{scenario}",
        [(f"{scenario}.{cell.name}", one.slo) for cell in cells for one in cell.over_seeds],
        errors=[(f"{scenario}.{cell.name}", _NOTHING) for cell in cells if _judges_nothing(cell)],
    )
