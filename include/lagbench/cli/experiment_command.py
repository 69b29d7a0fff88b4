"""``lagbench experiment``: run the cells of experiments by pairs, over days if need be."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lagbench.cli.asked_experiment import AskedExperiment, End, Place
from lagbench.cli.experiment_plan import print_hours, print_order, print_prediction, warn_of_target
from lagbench.cli.options import SettingsOption, TargetOption, TargetSettingsOption, refuse
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, NotReady

if TYPE_CHECKING:
    from lagbench.core.compare.experiment import Experiment

_PAIRS = 6
"""Without a file; the fewest with which a test can show anything."""


def experiment(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Names from the catalog, or YAML files; they are run one after the other. None: "
            "list them.",
        ),
    ] = None,
    *,
    scenario: Annotated[
        str | None, typer.Option(help="Without a NAME: compare policies under this scenario.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="With --scenario, two to six: the others are compared with the first."),
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(
            help="6, 8 or 12 pairs instead of the file's number (2 are listed without a test); "
            "with --scenario 6."
        ),
    ] = None,
    cell: Annotated[
        list[str] | None,
        typer.Option(help="Run these cells alone, e.g. those that a cluster can play."),
    ] = None,
    settings: SettingsOption = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Keep the execution here, for example in a repository, and continue it from here; "
            "of several experiments each in a folder of its name in it. Default: a folder of its "
            "own in runs/_experiments."
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1000,
            help="Start no run that does not fit into this number of hours from now.",
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print the hours, the order and the prediction, and start nothing."
        ),
    ] = False,
    target: TargetOption = "embedded",
    target_settings: TargetSettingsOption = None,
) -> int:
    """Compare cells by pairs of runs; the same command continues a stopped experiment."""
    from lagbench.catalog.catalog import parse_settings
    from lagbench.catalog.experiments import load_experiment

    console = Terminal()
    if scenario is not None or policy:
        if names or scenario is None or len({*(policy or ())}) < 2:
            allowed = "NAME, or --scenario with --policy two to six times, all different"
            refuse("experiment", " ".join((*(names or ()), *(policy or ()))), allowed)
        wanted = [_of_policies(scenario, policy or [], pairs or _PAIRS)]
    elif not names:
        _print_experiments(console)
        return ExitCode.PASS
    else:
        wanted = [load_experiment(name) for name in names]
    if cell or settings:
        overrides = parse_settings(settings or ())
        wanted = [found.adapted(cell or (), overrides) for found in wanted]
    place = Place(target, target_settings, inf if hours is None else 3600 * hours)
    asked = []
    for name, found in zip(names or [""], wanted, strict=True):
        if names and names.count(name) > 1:
            refuse("NAME", name, "each experiment once")
        at = folder if folder is None or len(wanted) == 1 else folder / Path(name).stem
        asked.append(AskedExperiment.of(console, found, place, pairs, at))
    for one in asked:
        print_hours(one)
        if plan:
            warn_of_target(one)
            print_order(one)
            print_prediction(one)
    if len(asked) > 1:
        together = sum(one.found.hours_of(one.schedule.pairs) for one in asked)
        console.say(
            f"{len(asked)} experiments: about {together:.1f} hours, with those that are done"
        )
    return ExitCode.PASS if plan else _execute_all(console, asked)


def _of_policies(scenario: str, policies: Sequence[str], pairs: int) -> Experiment:
    """Return the experiment that compares policies under one scenario, as a file would have it."""
    from lagbench.catalog.catalog import checked_cell
    from lagbench.catalog.experiments import as_name, experiment_of
    from lagbench.cli.rehearsal import run_seconds

    seconds = sum(run_seconds(checked_cell(scenario, policy=one)) for one in policies)
    return experiment_of(
        {
            "name": as_name(f"{Path(scenario).stem}_policies"),
            "title": f"{' against '.join(policies)} under {scenario}",
            "question": f"Which of these policies is better under {scenario}?",
            "scenario": scenario,
            "cells": [{"name": as_name(Path(one).stem), "policy": one} for one in policies],
            "pairs": pairs,
            "hours": seconds * pairs / 3600,
        }
    )


def _execute_all(console: Terminal, asked: Sequence[AskedExperiment]) -> ExitCode:
    """Run them one after the other; one that the bench stops does not stop those after it."""
    ended: list[End] = []
    for one in asked:
        try:
            ended.append(one.execute())
        except NotReady as error:
            if len(asked) == 1:
                raise
            console.say(str(error), style="red")
            ended.append((ExitCode.NOT_READY, f"stopped: {error}"))
    if len(ended) > 1:
        console.print()
        for one, (_, text) in zip(asked, ended, strict=True):
            console.say(f"{one.found.name}: {text}")
    codes = {code for code, _ in ended}
    # What needs a person most: the bench, then what is missing.
    order = (ExitCode.NOT_READY, ExitCode.UNDETERMINED)
    return next((code for code in order if code in codes), ExitCode.PASS)


def _print_experiments(console: Terminal) -> None:
    """Print a line for each experiment of the catalog, with the state of its last execution."""
    from lagbench.adapters.runs.experiment_folder import executions
    from lagbench.catalog.catalog_files import list_experiments
    from lagbench.catalog.experiments import load_experiment
    from lagbench.results.executions import read_progress, read_result

    rows = []
    for name in list_experiments():
        found, folders, state = load_experiment(name), executions(name), "–"
        if folders and read_result(folders[-1]) is not None:
            state = f"finished: {folders[-1].page}"
        elif folders:
            progress = read_progress(folders[-1])
            state = f"{progress.done} of {len(progress.schedule.runs)} runs"
        rows.append((name, str(found.pairs), f"{found.hours:g}", found.question, state))
    headings = ("experiment", "pairs", "hours", "question", "last")
    console.table(headings, rows, folded=("question", "last"))
