"""The verdict over the seeds of simulated policies: exit code, lines, and JUnit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import TYPE_CHECKING

from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode

if TYPE_CHECKING:
    from lagbench.cli.simulated_cells import SimulatedCell

_NOTHING = "nothing was judged: no limit that can fail, of those that a simulation can judge"


def verdict_code(cells: Sequence[SimulatedCell], asked: Collection[str]) -> ExitCode:
    """Return 1 if an SLO fails, 4 if one is undetermined or was not judged, else 0.

    :param asked: names of SLOs that a policy must hold, beside those of the scenario.
    """
    slos = [one.slo for cell in cells for one in cell.over_seeds]
    if any(slo.status == "fail" for slo in slos):
        return ExitCode.SLO_FAILED
    if any(slo.leaves_open for slo in slos) or any(_unjudged(one, asked) for one in cells):
        return ExitCode.UNDETERMINED
    return ExitCode.PASS


def _unjudged(cell: SimulatedCell, asked: Collection[str]) -> str:
    """Say which of the SLOs that were asked no seed can judge, or that there is none at all."""
    judged = {one.slo.name for one in cell.over_seeds}
    if missing := [name for name in asked if name not in judged]:
        return f"not judged: {', '.join(missing)}, because the load has no spike"
    return _NOTHING if all(one.slo.level == "warn" for one in cell.over_seeds) else ""


def print_verdict(
    console: Terminal,
    cells: Sequence[SimulatedCell],
    commands: Sequence[str],
    asked: Collection[str],
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
        if why := _unjudged(cell, asked):
            console.say(f"? {cell.name}: {why}")


def junit_of(cells: Sequence[SimulatedCell], asked: Collection[str]) -> str:
    """Return the JUnit document: a testcase for each SLO of each policy."""
    from lagbench.report.junit import junit_suite

    scenario = cells[0].cell.scenario.name
    unjudged = [(f"{scenario}.{cell.name}", _unjudged(cell, asked)) for cell in cells]
    return junit_suite(
        f"lagbench.simulate.{scenario}",
        [(f"{scenario}.{cell.name}", one.slo) for cell in cells for one in cell.over_seeds],
        errors=[(name, why) for name, why in unjudged if why],
    )
