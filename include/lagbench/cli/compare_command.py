"""``lagbench compare``: two runs in a table, or two sides by pairs of runs with the same seed."""

from __future__ import annotations

from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lagbench.cli.options import JsonOption, refuse
from lagbench.cli.terminal import Row, Terminal, print_json
from lagbench.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lagbench.core.compare.comparable import ComparedRun, RunPair
    from lagbench.core.compare.compare import Bound
    from lagbench.core.compare.experiment_result import CellComparison
    from lagbench.core.compare.noise_floor import NoiseFloor
    from lagbench.core.compare.pairs import Difference

BETWEEN = "vs"
_COLOURS = {"differs": "bold", "equivalent": "green", "undetermined": "yellow", "listed": "dim"}
_NO_FLOOR = (
    "no noise floor of this cell on this machine and versions: run the same cell twice with each "
    "of 8 seeds, then lagbench compare --keep-noise-floor RUN…"
)


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run ids, or the beginnings of them; FILE#RUN of a runs.jsonl.gz; vs divides the "
            "two sides. Or two executions of experiments: FOLDER or FOLDER#CELL.",
            metavar="RUN",
        ),
    ],
    *,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="Permit a difference: target, or a field of the scenario or the manifest, "
            "e.g. consumer.balancer."
        ),
    ] = None,
    looks: Annotated[
        str | None, typer.Option(help="Numbers of pairs at which the test was planned (6,8,12).")
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option(help="Test only this measure; may be given several times.")
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
    show_all: Annotated[
        bool, typer.Option("--all", help="Of two runs also measures that are equal or missing.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print two executions as Markdown, for a page.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            help="Write curves, differences and policies of two to six runs as a page.",
            metavar="FILE",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Compare runs: two in a table without a test, more by pairs with the same seed."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.core.compare.comparable import pairs_of_one_cell, require_comparable
    from lagbench.core.compare.noise_floor import bounds_of, closest_floor
    from lagbench.core.compare.pairs import Pair, compare_pairs
    from lagbench.core.significance import PLANNED_LOOKS
    from lagbench.results.compared_runs import keep_floor_of, read_noise_floors
    from lagbench.results.executions import is_execution

    console, stated = Terminal(), [_bound(text) for text in bound or ()]
    if html is not None:
        _write_page(html, _divided(runs), vary or ())
        console.say(f"page: {html}")
        return ExitCode.PASS
    if any(map(is_execution, runs)):
        if looks is not None or keep_noise_floor:
            refuse("--looks, --keep-noise-floor", "given", "only with runs", where="compare")
        found = _executions(runs, stated, vary or (), measure)
        _show_executions(console, found, markdown=markdown, as_json=as_json)
        return ExitCode.PASS
    if markdown:
        refuse("--markdown", "runs", "with two executions", where="compare")
    sides = [[_compared(name) for name in names] for names in _divided(runs)]
    if keep_noise_floor:
        floor = keep_floor_of(runs_root(), pairs_of_one_cell([run for s in sides for run in s]))
        if as_json:
            print_json(floor)
        else:
            _print_floor(console, floor)
        return ExitCode.PASS
    pairs = _pairs(sides)
    require_comparable(pairs, varied=tuple(vary or ()))
    known = closest_floor(read_noise_floors(runs_root()), *pairs[0])
    if len(pairs) == 1:
        if as_json:
            refuse("--json", "2 runs", "with 2 or more pairs", where="compare")
        bounds = bounds_of(known, None, stated)
        _print_two_runs(console, pairs[0], known, bounds, vary or (), show_all=show_all)
        return ExitCode.PASS
    differences = compare_pairs(
        [Pair(first.measures, second.measures) for first, second in pairs],
        bounds_of(known, measure, stated),
        PLANNED_LOOKS if looks is None else _numbers(looks),
    )
    if as_json:
        print_json(differences)
    else:
        _print_differences(console, pairs, differences, known, vary or ())
    return ExitCode.PASS


def _executions(
    given: Sequence[str],
    stated: Sequence[Bound],
    varied: Sequence[str],
    measures: Sequence[str] | None,
) -> CellComparison:
    """Compare two cells of executions; of the measures that are only listed, keep the counts."""
    from lagbench.core.compare.experiment_result import compare_cells
    from lagbench.core.compare.noise_floor import bounds_of
    from lagbench.core.compare.pairs import IDENTITY_COUNTS
    from lagbench.results.executions import is_execution, read_cell

    names = [name for name in given if name != BETWEEN]
    if len(names) != 2 or not all(map(is_execution, names)):
        allowed = "two folders of executions, each FOLDER or FOLDER#CELL"
        refuse("runs", " ".join(names), allowed, where="compare")
    found = compare_cells(
        [read_cell(name) for name in names], bounds_of(None, measures, stated), varied
    )
    if measures is None:
        return found
    shown = {*measures, *IDENTITY_COUNTS}
    kept = [one for one in found.differences if one.name in shown]
    return found.model_copy(update={"differences": tuple(kept)})


def _show_executions(
    console: Terminal, found: CellComparison, *, markdown: bool, as_json: bool
) -> None:
    from lagbench.cli.comparison_table import print_comparison
    from lagbench.core.compare.experiment_page import comparison_lines

    if as_json:
        print_json(found)
    elif markdown:
        for line in comparison_lines(found, None):
            console.print(line, markup=False, soft_wrap=True)
    else:
        print_comparison(console, found, None)


def _write_page(file: Path, sides: Sequence[Sequence[str]], varied: Sequence[str]) -> None:
    """Write the page of the runs; it says which of them cannot be compared."""
    from lagbench.adapters.runs.experiment_folder import opened
    from lagbench.adapters.runs.run_folder import RunFolder, runs_root
    from lagbench.report.compare_page import read_shown, render_compared, require_few
    from lagbench.results.compared_runs import read_noise_floors

    require_few(sum(map(len, sides)))
    with ExitStack() as stack:
        shown = [[read_shown(stack.enter_context(opened(name))) for name in of] for of in sides]
    every = [run for side in shown for run in side]
    named = [[run.compared for run in side] for side in shown] if len(shown) > 1 else ()
    page = render_compared(every, read_noise_floors(runs_root()), sides=named, varied=varied)
    RunFolder(file.absolute().parent).write_text(file.name, page)


def _compared(name: str) -> ComparedRun:
    from lagbench.adapters.runs.experiment_folder import opened
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
        refuse("runs", " ".join(names), "RUN… vs RUN…", where="compare")
    return sides


def _pairs(sides: list[list[ComparedRun]]) -> tuple[RunPair, ...]:
    from lagbench.core.compare.comparable import pairs_by_seed, sides_by_policy

    every = [run for side in sides for run in side]
    ids = [run.run_id for run in every]
    if len(ids) < 2 or len(set(ids)) < len(ids):
        refuse("runs", ", ".join(ids), "two or more runs, each of them once", where="compare")
    if len(every) == 2:
        return ((every[0], every[1]),)
    first, second = sides if len(sides) == 2 else sides_by_policy(every)
    return pairs_by_seed(first, second)


def _bound(text: str) -> Bound:
    from lagbench.core.compare.compare import Bound

    name, _, value = text.partition("=")
    try:
        width = float(value)
    except ValueError:
        width = -1.0
    if not 0 <= width < inf:
        refuse("--bound", text, "MEASURE=VALUE, e.g. reaction_seconds=5", where="compare")
    return Bound(name, absolute=width)


def _numbers(looks: str) -> list[int]:
    try:
        return [int(part) for part in looks.split(",")]
    except ValueError:
        refuse("--looks", looks, "numbers, e.g. 6,8,12", where="compare")


def _print_two_runs(
    console: Terminal,
    pair: RunPair,
    floor: NoiseFloor | None,
    bounds: Sequence[Bound],
    varied: Sequence[str],
    *,
    show_all: bool,
) -> None:
    """Print each measure that differs, and which run is better; one pair is not tested."""
    from lagbench.core.compare.compare import BOUNDS
    from lagbench.core.measures.measures import NAMED

    rows: list[Row] = []
    known = {bound.name: bound for bound in (*BOUNDS, *bounds)}
    for measure in NAMED.values():
        before, after = (measure.read(run.measures) for run in pair)
        change = None if before is None or after is None else after - before
        values = (measure.number(before), measure.number(after))
        if values[0] == values[1] and not show_all:
            continue
        sign, mark = "+" if change is not None and change > 0 else "", Text("")
        if change and before is not None and measure.name in known:
            mark = Text("worse", "yellow") if change > 0 else Text("better", "green")
            if abs(change) <= known[measure.name].width(before):
                mark = Text("small", "dim")
        rows.append((measure.heading, *values, f"{sign}{measure.number(change)}", mark))
    _print_table(console, [pair], ("first", "second", "difference", ""), rows, floor, varied=varied)
    if left_out := len(NAMED) - len(rows):
        console.say(f"{left_out} measures are equal or missing on both sides: --all shows them")
    console.say("two runs are one pair: nothing is tested; small: within the measure's bound")


def _print_differences(
    console: Terminal,
    pairs: Sequence[RunPair],
    differences: Sequence[Difference],
    floor: NoiseFloor | None,
    varied: Sequence[str],
) -> None:
    """Print a line for each measure, and below the table the sentence of each tested one."""
    rows: list[Row] = []
    for found in differences:
        means = (found.number(found.mean_first), found.number(found.mean_second))
        interval = f"{found.change(found.low)} to {found.change(found.high)}"
        tested = ("–" if p is None else f"{p:.2g}" for p in (found.p, found.holm_p))
        rows.append(
            (
                found.heading,
                *means,
                found.change(found.difference),
                "–" if found.low is None else interval,
                *tested,
                Text(found.verdict, style=_COLOURS[found.verdict]),
            )
        )
    headings = ("first", "second", "difference", "95 %", "p", "Holm", "")
    sentences = [f"{one.title}: {one.text}" for one in differences if one.verdict != "listed"]
    _print_table(console, pairs, headings, rows, floor, *sentences, varied=varied)
    if floors := [found.p_floor for found in differences if found.p_floor is not None]:
        console.say(f"lowest possible p of these pairs: {min(floors):.2g}")


def _print_table(
    console: Terminal,
    pairs: Sequence[RunPair],
    headings: Sequence[str],
    rows: Sequence[Row],
    floor: NoiseFloor | None,
    *sentences: str,
    varied: Sequence[str],
) -> None:
    """Print the sides by what varies, a row for each measure and its noise floor, and sentences."""
    from lagbench.core.compare.comparable import side_names
    from lagbench.core.measures.measures import NAMED

    for place, runs, side in zip(
        ("first", "second"), zip(*pairs, strict=True), side_names(pairs[0], varied), strict=True
    ):
        console.say(f"{place:6}  {side}: {', '.join(run.run_id for run in runs)}")
    shown, whole = ("measure", *headings), rows
    if floor is not None:
        widths = floor.widths
        noise = {
            of.heading: of.number(widths[name]) for name, of in NAMED.items() if name in widths
        }
        shown = ("measure", *headings[:3], "noise ±", *headings[3:])
        whole = [(*row[:4], noise.get(str(row[0]), "–"), *row[4:]) for row in rows]
    folded = ("measure",) if len(pairs) == 1 else ()
    console.table(shown, whole, right=[one for one in shown[1:] if one], folded=folded)
    for sentence in sentences:
        console.say(sentence)
    console.say(_NO_FLOOR if floor is None else f"noise floor: {floor.text}")


def _print_floor(console: Terminal, floor: NoiseFloor) -> None:
    """Print the noise floor of a cell."""
    from lagbench.core.measures.measures import NAMED

    known = [(NAMED[found.name], found) for found in floor.noise]
    rows = [(of.heading, of.number(found.half_width), str(found.n)) for of, found in known]
    console.table(("measure", "noise ±", "pairs"), rows, right=("noise ±", "pairs"))
    console.say(f"noise floor: {floor.text}")
