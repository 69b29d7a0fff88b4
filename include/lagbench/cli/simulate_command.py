"""``lagbench simulate``: policies over many seeds on a virtual clock, compared in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lagbench.cli.options import (
    JsonOption,
    ScenarioArgument,
    SettingsOption,
    StartOption,
    environment_at,
    number,
    played,
    refuse,
)
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode, WrongInput

if TYPE_CHECKING:
    from lagbench.core.simulation.simulation_measures import Simulation, Spread

_MOST_COLUMNS = 2
"""Policies that stand beside each other; of more each has a row."""
_DECIDING = {
    "reaction_seconds": "react",
    "time_lag_p99_seconds": "p99",
    "seconds_over_slo": "late",
    "drain_seconds": "drain",
    "pod_minutes_in_all": "pod-min",
    "flips": "flips",
}
"""The measures of a row, lower is better, and their headings."""


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
    show_all: Annotated[
        bool, typer.Option("--all", help="Of more than two policies all measures, with ranges.")
    ] = False,
) -> int:
    """Compare policies over many seeds without starting anything: minutes in milliseconds."""
    from lagbench.catalog.catalog import (
        Cell,
        checked_cell,
        load_policy,
        parse_settings,
        policy_file,
    )
    from lagbench.core.simulation.simulate import left_out
    from lagbench.core.simulation.simulate import simulate as simulate_cell
    from lagbench.core.simulation.simulation_measures import spreads

    overrides = parse_settings(settings or [])
    names: list[str | None] = [*policy] if policy else [None]
    cells, unfit = list[Cell](), list[tuple[str | None, WrongInput]]()
    for name in names:
        try:
            cells.append(played(checked_cell(scenario, policy=name, overrides=overrides)))
        except WrongInput as error:
            if name is not None and len(names) > 1:
                load_policy(name)  # one that cannot be read at all is refused
            unfit.append((name, error))
    if not cells:
        raise unfit[0][1]
    for name, reason in unfit:
        Terminal(stderr=True).warn(f"left out, does not fit: {name}: {reason}")
    of_unfit = [(policy_file(name or "").stem, str(reason)) for name, reason in unfit]
    _require_own_names([*(cell.policy_name for cell in cells), *(name for name, _ in of_unfit)])
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
        content: dict[str, dict[str, Any]] = {
            name: {
                "summary": spreads(of_cell),
                "cells": [one.to_json(with_timeline=timeline) for one in of_cell],
            }
            for name, of_cell in found.items()
        }
        print_json(content | {name: {"left_out": reason} for name, reason in of_unfit})
    else:
        _print(Terminal(), found, show_all=show_all)
    return ExitCode.PASS


def _require_own_names(names: Sequence[str]) -> None:
    """Reject two policies of one name: the table and the JSON have one column for each name."""
    for name in names:
        if (count := names.count(name)) > 1:
            allowed = "policies whose names, or names of files, differ"
            refuse("--policy", f"{name}, {count} times", allowed, where="simulate")


def _print(console: Terminal, found: dict[str, list[Simulation]], *, show_all: bool) -> None:
    from lagbench.core.simulation.simulation_measures import COMPARED, spreads

    cells = next(iter(found.values()))
    summaries = {name: spreads(of_policy) for name, of_policy in found.items()}
    of = f"{cells[0].scenario}, simulated, seeds: {len(cells)}"
    console.print(f"{of}; SLO: no message older than {cells[0].slo_seconds:g} s")
    if len(found) > _MOST_COLUMNS and not show_all:
        _print_policies(console, summaries)
        return
    if len(found) > _MOST_COLUMNS:
        for measure in COMPARED:
            of_measure = {name: of[measure.name].text(measure) for name, of in summaries.items()}
            console.table(("", measure.heading), of_measure.items(), right=(measure.heading,))
    else:
        rows = [
            (measure.heading, *(of[measure.name].text(measure) for of in summaries.values()))
            for measure in COMPARED
        ]
        headings = ("", *found)
        console.table(headings, rows, right=list(found), folded=headings)
    console.print("median (lowest to highest seed); – never happened", style="dim")


def _print_policies(console: Terminal, summaries: Mapping[str, Mapping[str, Spread]]) -> None:
    """Print a row for each policy with the medians of six measures, the lowest ones marked."""
    from lagbench.core.simulation.simulation_measures import COMPARED

    measures = {measure.name: measure for measure in COMPARED if measure.name in _DECIDING}
    rows: list[list[str | Text]] = [[policy] for policy in summaries]
    for name in _DECIDING:
        found = [of[name] for of in summaries.values()]
        texts = [measures[name].number(one.median) for one in found]
        whole = {
            one.median: text
            for one, text in zip(found, texts, strict=True)
            if one.median is not None and not one.missing
        }
        best = whole[min(whole)] if len({*texts}) > 1 and whole else ""
        for row, text, one in zip(rows, texts, found, strict=True):
            is_partial = one.missing and one.median is not None
            mark = "†" if is_partial else "*" if text == best else " "
            row.append(Text(f"{text}{mark}", "bold green" if mark == "*" else ""))
    console.table(("policy", *_DECIDING.values()), rows, right=list(_DECIDING.values()))
    legend = "; ".join(f"{short}: {measures[name].heading}" for name, short in _DECIDING.items())
    console.print(
        f"medians; * lowest; – never happened; † not with each seed\n{legend}", style="dim"
    )
    console.print("--all has every measure with its range", style="dim")
