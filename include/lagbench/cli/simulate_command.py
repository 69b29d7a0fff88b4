"""``lagbench simulate``: policies over many seeds on a virtual clock, compared in one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from lagbench.cli.options import (
    JsonOption,
    ScenarioArgument,
    SettingsOption,
    StartOption,
    environment_at,
    number,
    refuse,
)
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell
    from lagbench.core.simulation.simulation_measures import Simulation


def simulate(
    scenario: ScenarioArgument,
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy by name or path; may be given several times."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of seeds, starting at 1.")
    ] = 10,
    seed: Annotated[int | None, typer.Option(min=0, help="One seed instead.")] = None,
    slo_seconds: Annotated[
        float | None, number("Oldest message; default: the scenario's SLO.", min=0.1)
    ] = None,
    start_seconds: Annotated[
        float | None, number("From creation to Ready (the scenario's start_seconds).", min=0)
    ] = None,
    tail_seconds: Annotated[
        float | None, number("Seconds to simulate after the stream (900).", min=0)
    ] = None,
    sync_at: Annotated[
        float | None, number("Second of one of the HPA's syncs, as in a real run.", min=None)
    ] = None,
    start: StartOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
    timeline: Annotated[bool, typer.Option(help="With --json: each sync of each cell.")] = False,
) -> int:
    """Compare policies over many seeds without starting anything: minutes in milliseconds."""
    from lagbench.catalog.catalog import checked_cell, parse_settings
    from lagbench.core.simulation.simulate import left_out
    from lagbench.core.simulation.simulate import simulate as simulate_cell
    from lagbench.core.simulation.simulation_measures import spreads

    overrides = parse_settings(settings or [])
    names: list[str | None] = [*policy] if policy else [None]
    cells = [checked_cell(scenario, policy=name, overrides=overrides) for name in names]
    _require_own_names(cells)
    if parts := sorted(set(left_out(cells[0].scenario))):
        text = f"! the simulation leaves out: {', '.join(parts)}"
        Terminal(stderr=True).say(text)
    around = replace(environment_at(start), hpa_sync_at_seconds=sync_at)
    if start_seconds is not None:
        around = replace(around, start_up_seconds=start_seconds)
    if tail_seconds is not None:
        around = replace(around, tail_seconds=tail_seconds)
    drawn = [seed] if seed is not None else list(range(1, seeds + 1))
    found = {
        cell.policy_name: [
            simulate_cell(
                cell.scenario,
                cell.policy,
                seed=one,
                policy_name=cell.policy_name,
                slo_seconds=slo_seconds,
                environment=around,
                swapped={number: swapped.policy for number, swapped in cell.swapped.items()},
            )
            for one in drawn
        ]
        for cell in cells
    }
    if as_json:
        content = {
            name: {
                "summary": {key: asdict(value) for key, value in spreads(of_cell).items()},
                "cells": [one.to_json(with_timeline=timeline) for one in of_cell],
            }
            for name, of_cell in found.items()
        }
        typer.echo(json.dumps(content, indent=2))
    else:
        _print(Terminal(), found)
    return ExitCode.PASS


def _require_own_names(cells: Sequence[Cell]) -> None:
    """Reject two policies of one name: the table and the JSON have one column for each name."""
    names = [cell.policy_name for cell in cells]
    for name in names:
        if (count := names.count(name)) > 1:
            allowed = "policies whose names, or names of files, differ"
            refuse("--policy", f"{name}, {count} times", allowed, where="simulate")


def _print(console: Terminal, found: dict[str, list[Simulation]]) -> None:
    from lagbench.core.simulation.simulation_measures import COMPARED, spreads

    cells = next(iter(found.values()))
    summaries = [spreads(cells) for cells in found.values()]
    rows = [
        (measure.heading, *(summary[measure.name].text(measure) for summary in summaries))
        for measure in COMPARED
    ]
    of = f"{cells[0].scenario}, simulated, seeds: {len(cells)}"
    console.print(f"{of}; SLO: no message older than {cells[0].slo_seconds:g} s")
    headings = ("", *found)
    console.table(headings, rows, right=list(found), folded=headings)
    console.print("median (lowest to highest seed); – never happened", style="dim")
