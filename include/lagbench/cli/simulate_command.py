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
    from lagbench.core.measures.model import NamedMeasure
    from lagbench.core.simulation.simulation_measures import Spread

    Summaries = Mapping[str, Mapping[str, Spread]]
    Marks = Mapping[tuple[str, str], str]

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
        float | None,
        number("Oldest message; default: slos.time_lag_p99_seconds, if it is set.", min=0.1),
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
    from lagbench.core.simulation.model_error import error_text
    from lagbench.core.simulation.predicted_slos import predicted_slos
    from lagbench.core.simulation.simulate import left_out
    from lagbench.core.simulation.simulate import simulate as simulate_cell
    from lagbench.core.simulation.simulation_measures import COMPARED, spreads
    from lagbench.core.verdict.in_words import MARKS

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
    summaries = {name: spreads(of_cell) for name, of_cell in found.items()}
    slos = {
        name: predicted_slos(cell.scenario, cell.policy.limits, summaries[name])
        for name, cell in zip(found, cells, strict=True)
    }
    if as_json:
        content: dict[str, dict[str, Any]] = {
            name: {
                "summary": summaries[name],
                "slos": slos[name],
                "cells": [one.to_json(with_timeline=timeline) for one in of_cell],
            }
            for name, of_cell in found.items()
        }
        print_json(content | {name: {"left_out": reason} for name, reason in of_unfit})
        return ExitCode.PASS
    oldest = slo_seconds or cells[0].scenario.slos.time_lag_p99_seconds
    head = f"{cells[0].scenario.name}, simulated, seeds: {len(drawn)}"
    console = Terminal()
    console.print(f"{head}; no message older than {oldest:g} s" if oldest else head)
    kept = [one for one in COMPARED if oldest or one.name != "seconds_over_slo"]
    marks = {(name, slo.name): MARKS[slo.status] for name in slos for slo in slos[name]}
    is_short = len(cells) > _MOST_COLUMNS and not show_all
    (_print_policies if is_short else _print_measures)(console, kept, summaries, marks)
    asked = {f"{slo.title.lower()} {slo.threshold}" for of in slos.values() for slo in of}
    told = f"✓ ✗ SLO: {'; '.join(sorted(asked))} (? holds with some seeds)\n" if asked else ""
    ends = "a drain ends at a total lag of one lagThreshold, of each policy its own"
    text = f"{told}a reaction ends with the first added pod, even if enough ran before; {ends}"
    console.print(f"{text}\n{error_text(one.name for one in kept)}", style="dim")
    return ExitCode.PASS


def _require_own_names(names: Sequence[str]) -> None:
    """Reject two policies of one name: the table and the JSON have one column for each name."""
    for name in names:
        if (count := names.count(name)) > 1:
            allowed = "policies whose names, or names of files, differ"
            refuse("--policy", f"{name}, {count} times", allowed, where="simulate")


def _print_measures(
    console: Terminal, measures: Sequence[NamedMeasure], summaries: Summaries, marks: Marks
) -> None:
    """Print a row for each measure and a column for each policy; of many, a table each."""

    def cell(policy: str, of: NamedMeasure) -> str:
        return f"{summaries[policy][of.name].text(of)} {marks.get((policy, of.name), '')}".rstrip()

    if len(summaries) > _MOST_COLUMNS:
        for one in measures:
            rows = [(name, cell(name, one)) for name in summaries]
            console.table(("", one.heading), rows, right=(one.heading,))
    else:
        rows_of = [(one.heading, *(cell(name, one) for name in summaries)) for one in measures]
        headings = ("", *summaries)
        console.table(headings, rows_of, right=list(summaries), folded=headings)
    console.print("median (lowest to highest seed); – never happened", style="dim")


def _print_policies(
    console: Terminal, kept: Sequence[NamedMeasure], summaries: Summaries, marks: Marks
) -> None:
    """Print a row for each policy with the medians of six measures, the lowest ones marked."""
    measures = {one.name: one for one in kept if one.name in _DECIDING}
    shorts = {name: short for name, short in _DECIDING.items() if name in measures}
    rows: list[list[str | Text]] = [[policy] for policy in summaries]
    for name in shorts:
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
            judged = marks.get((str(row[0]), name), "").replace("✓", "")
            row.append(Text(f"{text}{judged}{mark}", "bold green" if mark == "*" else ""))
    console.table(("policy", *shorts.values()), rows, right=list(shorts.values()))
    legend = "; ".join(f"{short}: {measures[name].heading}" for name, short in shorts.items())
    console.print(
        f"medians; * lowest; – never happened; † not with each seed\n{legend}", style="dim"
    )
    console.print("--all has every measure with its range", style="dim")
