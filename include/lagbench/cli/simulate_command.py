"""``lagbench simulate``: policies over many seeds on a virtual clock, compared in one table."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lagbench.cli.cell_options import ScenarioArgument, SettingsOption
from lagbench.errors import ExitCode

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell
    from lagbench.core.simulation import Simulation, Spread, Surroundings

# Each measure with its heading and the digits after the point.
_ROWS = (
    ("scaling_events", "scaling events", 0),
    ("flips", "flips", 0),
    ("rebalances", "rebalances", 0),
    ("pod_minutes", "pod-minutes", 1),
    ("max_replicas", "most pods", 0),
    ("peak_lag_records", "peak lag", 0),
    ("reaction_seconds", "reaction s", 1),
    ("seconds_over_slo", "s over SLO", 0),
    ("drain_seconds", "drain s", 1),
)


def simulate(
    scenario: ScenarioArgument,
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy by name or path; may be given several times."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="So many seeds, from 1 on.")] = 10,
    seed: Annotated[int | None, typer.Option(min=0, help="This one seed instead.")] = None,
    slo_seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Oldest message; default: the scenario's SLO.")
    ] = None,
    start_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="From creation to Ready (the scenario's start_seconds)."),
    ] = None,
    tail_seconds: Annotated[
        float | None, typer.Option(min=0, help="How long after the stream is watched (900).")
    ] = None,
    sync_at: Annotated[
        float | None, typer.Option(help="Second of one of the HPA's syncs, as in a real run.")
    ] = None,
    settings: SettingsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a cell per seed.")] = False,
    timeline: Annotated[bool, typer.Option(help="With --json: each sync of each cell.")] = False,
) -> int:
    """Compare policies over many seeds without starting anything: minutes in milliseconds."""
    from lagbench.catalog.catalog import checked_cell, parse_settings
    from lagbench.core.simulation import Surroundings

    overrides = parse_settings(settings or [])
    names: list[str | None] = [*policy] if policy else [None]
    cells = [checked_cell(scenario, policy=name, overrides=overrides) for name in names]
    around = Surroundings(hpa_sync_at_seconds=sync_at)
    if start_seconds is not None:
        around = replace(around, start_up_seconds=start_seconds)
    if tail_seconds is not None:
        around = replace(around, tail_seconds=tail_seconds)
    drawn = [seed] if seed is not None else list(range(1, seeds + 1))
    found = {
        cell.policy_name: [_simulated(cell, one, slo_seconds, around) for one in drawn]
        for cell in cells
    }
    if as_json:
        typer.echo(json.dumps(_as_json(found, with_timeline=timeline), indent=2))
    else:
        _print(Console(), found)
    return ExitCode.PASS


def _simulated(
    cell: Cell, seed: int, slo_seconds: float | None, around: Surroundings
) -> Simulation:
    from lagbench.core.simulation import simulate as simulate_cell

    return simulate_cell(
        cell.scenario,
        cell.policy,
        seed=seed,
        policy_name=cell.policy_name,
        slo_seconds=slo_seconds,
        surroundings=around,
    )


def _as_json(found: dict[str, list[Simulation]], *, with_timeline: bool) -> dict[str, Any]:
    from lagbench.core.simulation import spreads

    return {
        name: {
            "summary": {key: asdict(value) for key, value in spreads(cells).items()},
            "cells": [cell.to_json(with_timeline=with_timeline) for cell in cells],
        }
        for name, cells in found.items()
    }


def _print(console: Console, found: dict[str, list[Simulation]]) -> None:
    from lagbench.core.simulation import spreads

    cells = next(iter(found.values()))
    table = Table()
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right", overflow="fold")
    summaries = [spreads(cells) for cells in found.values()]
    for key, heading, digits in _ROWS:
        table.add_row(heading, *(_cell(summary[key], digits) for summary in summaries))
    of = f"{cells[0].scenario}, simulated, seeds: {len(cells)}"
    slo = f"SLO: no message older than {cells[0].slo_seconds:g} s"
    console.print(f"{of}; {slo}", highlight=False)
    console.print(table)
    console.print("median (lowest to highest seed); – never happened", style="dim")


def _cell(spread: Spread, digits: int) -> str:
    if spread.median is None or spread.low is None or spread.high is None:
        return "–"
    text, low, high = (f"{value:,.{digits}f}" for value in (spread.median, spread.low, spread.high))
    if low != high:
        text += f" ({low} to {high})"
    return f"{text}, {spread.missing} –" if spread.missing else text
