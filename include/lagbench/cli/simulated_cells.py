"""Simulate cells over seeds, in several processes where that is faster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell
    from lagbench.core.simulation.predicted_slos import SloOverSeeds
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment
    from lagbench.core.simulation.simulation_measures import Simulation, Spread
    from lagbench.core.verdict.slo import SloResult

    Job = tuple[Cell, int, SimulatedEnvironment]

_WORTH_SECONDS = 0.5
"""Work of one process that is worth starting others, which takes 0.1 s."""
_CHUNKS = 8
"""Pieces of work for each process: none waits long for the last one."""
_jobs: list[Job] = []
"""The work of a parent, from which its forked processes take jobs by number."""


@dataclass(frozen=True, slots=True)
class SimulatedCell:
    """A cell with its simulations, one for each seed, and what its SLOs say of them."""

    cell: Cell
    simulations: list[Simulation]
    summary: dict[str, Spread]
    slos: tuple[SloResult, ...]
    over_seeds: tuple[SloOverSeeds, ...]
    left_out: tuple[str, ...]  # parts of the scenario that no simulation plays

    @property
    def name(self) -> str:
        """Return the name of the policy."""
        return self.cell.policy_name


def simulate_cells(
    cells: Sequence[Cell], seeds: Sequence[int], environment: SimulatedEnvironment, *, allowed: int
) -> list[SimulatedCell]:
    """Return each cell with every seed; ``allowed`` seeds may break each of its SLOs.

    :raises WrongInput: the simulator cannot play a policy.
    """
    from lagbench.core.simulation.predicted_slos import predicted_slos, slos_over_seeds
    from lagbench.core.simulation.simulate import left_out
    from lagbench.core.simulation.simulation_measures import spreads

    done = _all_done([(cell, seed, environment) for seed in seeds for cell in cells], len(cells))
    found = []
    for place, cell in enumerate(cells):
        simulations = done[place :: len(cells)]
        summary = spreads(simulations)
        asked = cell.scenario, cell.policy.limits
        parts = tuple(sorted(set(left_out(cell.scenario))))
        over_seeds = slos_over_seeds(*asked, simulations, allowed=allowed)
        if parts:
            why = f"the simulation leaves out: {', '.join(parts)}"
            over_seeds = tuple(
                one.model_copy(update={"slo": one.slo.opened(why)}) for one in over_seeds
            )
        slos = predicted_slos(*asked, summary)
        found.append(SimulatedCell(cell, simulations, summary, slos, over_seeds, parts))
    return found


def _all_done(jobs: list[Job], first: int) -> list[Simulation]:
    """Return the simulation of each job; the ``first`` ones show what is wrong with a policy."""
    from lagbench.adapters.process.processor_speed import usable_cores
    from lagbench.adapters.process.simulation_pool import ending_workers

    began, done = time.perf_counter(), []
    for job in jobs:
        done.append(simulated_cell(*job))
        expected = (time.perf_counter() - began) / len(done) * (len(jobs) - len(done))
        if len(done) >= first and expected > _WORTH_SECONDS and usable_cores() > 1:
            break
    else:
        return done
    _jobs[:] = jobs
    rest, cores = range(len(done), len(jobs)), usable_cores()
    with ending_workers(cores, "fork") as pool:
        chunk = max(1, len(rest) // (_CHUNKS * cores))
        return [*done, *pool.map(_simulated_number, rest, chunksize=chunk)]


def _simulated_number(number: int) -> Simulation:
    return simulated_cell(*_jobs[number])


def simulated_cell(cell: Cell, seed: int, environment: SimulatedEnvironment) -> Simulation:
    """Return a cell's simulation with a seed."""
    from lagbench.core.simulation.simulate import simulate

    return simulate(
        cell.scenario,
        cell.policy,
        seed=seed,
        policy_name=cell.policy_name,
        environment=environment,
        swapped={number: swapped.policy for number, swapped in cell.swapped.items()},
    )
