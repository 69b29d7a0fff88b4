"""``lagbench simulate``: policies over many seeds on a virtual clock, compared and judged."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagbench.cli.options import (
    JsonOption,
    ScenarioArgument,
    SettingsOption,
    SloOption,
    StartOption,
    environment_at,
    number,
    played,
    refuse,
    require_own_names,
    slo_limits,
    slo_settings,
)
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode, WrongInput

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell


def simulate(
    scenario: ScenarioArgument,
    *,
    policy: Annotated[
        list[str] | None, typer.Option(help="A policy by name or path; may be given several times.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of seeds, starting at 1.")
    ] = 10,
    seed: Annotated[int | None, typer.Option(min=0, help="One seed instead.")] = None,
    slo: SloOption = None,
    must_hold: Annotated[
        bool,
        typer.Option(
            "--fail", help="Exit with code 1 if seeds break an SLO, with 4 if it is undetermined."
        ),
    ] = False,
    allow: Annotated[
        int, typer.Option(min=0, help="Seeds that may break each SLO of a policy.")
    ] = 0,
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the SLOs of each policy as JUnit XML."),
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
    """Compare policies over many seeds without starting anything: minutes in milliseconds.

    With --fail the exit code is the verdict on the scenario's SLOs and --slo. Without it, 0.
    """
    from lagbench.catalog.catalog import parse_settings, policy_file
    from lagbench.cli.simulated_cells import simulate_cells
    from lagbench.cli.simulated_table import print_simulated
    from lagbench.cli.simulated_verdict import junit_of, print_verdict, verdict_code
    from lagbench.core.simulation.predicted_slos import SIMULATED_SLOS

    names: list[str | None] = [*policy] if policy else [None]
    drawn = [seed] if seed is not None else list(range(1, seeds + 1))
    limits = slo_limits(slo, known=SIMULATED_SLOS)
    asked = [name for name, limit in limits.items() if isinstance(limit, int | float)]
    if allow >= len(drawn):
        refuse("--allow", allow, f"fewer than the seeds, {len(drawn)}")
    if junit is not None and (junit.is_dir() or not junit.absolute().parent.is_dir()):
        refuse("--junit", junit, "a file in a folder that is there")
    is_judged = must_hold or junit is not None
    overrides = parse_settings(settings or []) | slo_settings(slo)
    cells, unfit = _fitting(scenario, names, overrides)
    if unfit and (is_judged or not cells):
        raise unfit[0][1]
    for left, reason in unfit:
        Terminal(stderr=True).warn(f"left out, does not fit: {left}: {reason}")
    of_unfit = [(policy_file(name or "").stem, str(reason)) for name, reason in unfit]
    require_own_names("--policy", [cell.policy_name for cell in cells] + [n for n, _ in of_unfit])
    around = replace(
        environment_at(start), hpa_sync_at_seconds=sync_at, start_up_seconds=start_seconds
    )
    if tail_seconds is not None:
        around = replace(around, tail_seconds=tail_seconds)
    found = simulate_cells(cells, drawn, around, allowed=allow)
    if parts := found[0].left_out:
        Terminal(stderr=True).say(f"! the simulation leaves out: {', '.join(parts)}")
    if junit is not None:
        junit.write_text(junit_of(found, asked), encoding="utf-8")
    if as_json:
        content: dict[str, dict[str, Any]] = {
            one.name: {
                "summary": one.summary,
                "slos": one.slos,
                "over_seeds": one.over_seeds,
                "cells": [each.to_json(with_timeline=timeline) for each in one.simulations],
            }
            for one in found
        }
        print_json(content | {name: {"left_out": reason} for name, reason in of_unfit})
    else:
        console = Terminal()
        print_simulated(console, found, len(drawn), show_all=show_all)
        if is_judged:
            options = {
                "--slo": slo,
                "--set": settings,
                "--start-seconds": start_seconds,
                "--tail-seconds": tail_seconds,
                "--sync-at": sync_at,
                "--start": start,
            }
            commands = [_command(scenario, name, options) for name in names]
            print_verdict(console, found, commands, asked)
    return verdict_code(found, asked) if must_hold else ExitCode.PASS


def _fitting(
    scenario: str, names: Sequence[str | None], overrides: dict[str, str]
) -> tuple[list[Cell], list[tuple[str | None, WrongInput]]]:
    """Return the cells of these policies, and those that do not fit, with the reason."""
    from lagbench.catalog.catalog import Cell, checked_cell, load_policy

    cells, unfit = list[Cell](), list[tuple[str | None, WrongInput]]()
    for name in names:
        try:
            cells.append(played(checked_cell(scenario, policy=name, overrides=overrides)))
        except WrongInput as error:
            if name is not None and len(names) > 1:
                load_policy(name)  # one that cannot be read at all is refused
            unfit.append((name, error))
    return cells, unfit


def _command(scenario: str, policy: str | None, options: dict[str, Any]) -> str:
    """Return the command that simulates one policy by the options that were given."""
    words = ["lagbench", "simulate", scenario, *(["--policy", policy] if policy else [])]
    for option, value in options.items():
        values = value if isinstance(value, list) else [] if value is None else [value]
        words += [word for one in values for word in (option, f"{one}")]
    return shlex.join(words)
