"""``lagbench compare``: two runs in a table, or two sides by pairs of runs with the same seed."""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Annotated

import typer

from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, WrongInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lagbench.core.compare import Bound, ComparedRun, RunPair

BETWEEN = "vs"


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run ids, or the beginnings of them; FILE#RUN of a runs.jsonl.gz; vs divides the "
            "two sides.",
            metavar="RUN RUN… [vs RUN…]",
        ),
    ],
    *,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="Scenario field that differs on purpose, e.g. consumer.balancer."),
    ] = None,
    looks: Annotated[
        str | None,
        typer.Option(help="Numbers of pairs at which the test was planned (6,8,12)."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help="Test only this measure; may be given several times."),
    ] = None,
    bound: Annotated[
        list[str] | None,
        typer.Option(
            help="MEASURE=VALUE: a difference up to VALUE does not matter (noise floor, else the "
            "nightly gate's bound)."
        ),
    ] = None,
    keep_noise_floor: Annotated[
        bool,
        typer.Option(
            "--keep-noise-floor", help="The runs are pairs of one cell: keep its noise floor."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Compare runs: two in a table without a test, more by pairs with the same seed."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.cli.difference_table import print_differences, print_floor, print_two_runs
    from lagbench.core.compare import (
        Pair,
        bounds_of,
        closest_floor,
        compare_pairs,
        pairs_of_one_cell,
        require_comparable,
    )
    from lagbench.core.significance import PLANNED_LOOKS
    from lagbench.results.compared_runs import keep_floor_of, read_noise_floors

    console, varied = Terminal(), tuple(vary or ())
    sides = [[_compared(name) for name in names] for names in _divided(runs)]
    if keep_noise_floor:
        pairs = pairs_of_one_cell([run for side in sides for run in side])
        floor = keep_floor_of(runs_root(), pairs)
        if as_json:
            typer.echo(json.dumps(floor.model_dump(mode="json"), indent=2))
        else:
            print_floor(console, floor)
        return ExitCode.PASS
    pairs = _pairs(sides)
    require_comparable(pairs, varied=varied)
    floor_found = closest_floor(read_noise_floors(runs_root()), *pairs[0])
    if len(pairs) == 1:
        if as_json:
            raise WrongInput(
                where="compare", field="--json", value="2 runs", allowed="with 2 or more pairs"
            )
        print_two_runs(console, pairs[0], floor_found)
        return ExitCode.PASS
    found = compare_pairs(
        [Pair(first.measures, second.measures) for first, second in pairs],
        bounds_of(floor_found, measure, [_bound(text) for text in bound or ()]),
        PLANNED_LOOKS if looks is None else _numbers(looks),
    )
    if as_json:
        typer.echo(json.dumps([each.model_dump(mode="json") for each in found], indent=2))
    else:
        print_differences(console, pairs, found, floor_found)
    return ExitCode.PASS


def _compared(name: str) -> ComparedRun:
    from lagbench.adapters.runs.named_run import opened
    from lagbench.results.compared_runs import read_compared

    with opened(name) as folder:
        return read_compared(folder)


def _divided(names: Sequence[str]) -> list[list[str]]:
    """Return the names of each side; one side without the word vs."""
    if BETWEEN not in names:
        return [list(names)]
    at = list(names).index(BETWEEN)
    sides = [list(names[:at]), list(names[at + 1 :])]
    if not all(sides) or BETWEEN in sides[1]:
        raise WrongInput(
            where="compare", field="runs", value=" ".join(names), allowed="RUN… vs RUN…"
        )
    return sides


def _pairs(sides: list[list[ComparedRun]]) -> tuple[RunPair, ...]:
    from lagbench.core.compare import pairs_by_seed, sides_by_policy

    every = [run for side in sides for run in side]
    if len(every) < 2 or len({run.run_id for run in every}) < len(every):
        raise WrongInput(
            where="compare",
            field="runs",
            value=", ".join(run.run_id for run in every),
            allowed="two or more runs, each of them once",
        )
    if len(every) == 2:
        return ((every[0], every[1]),)
    first, second = sides if len(sides) == 2 else sides_by_policy(every)
    return pairs_by_seed(first, second)


def _bound(text: str) -> Bound:
    from lagbench.core.compare import Bound

    name, _, value = text.partition("=")
    try:
        width = float(value)
    except ValueError:
        width = -1.0
    if not 0 <= width < inf:
        raise WrongInput(
            where="compare",
            field="--bound",
            value=text,
            allowed="MEASURE=VALUE, e.g. reaction_seconds=5",
        )
    return Bound(name, absolute=width)


def _numbers(looks: str) -> list[int]:
    try:
        return [int(part) for part in looks.split(",")]
    except ValueError as broken:
        raise WrongInput(
            where="compare", field="--looks", value=looks, allowed="numbers, e.g. 6,8,12"
        ) from broken
