"""``lagbench experiment``: run the cells of experiments by pairs, over days if need be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lagbench.cli.cell_options import TargetOption, TargetSettingsOption
from lagbench.cli.terminal import Terminal
from lagbench.errors import ExitCode, NotReady, WrongInput

if TYPE_CHECKING:
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.cli.experiment_execution import AskedExperiment, Ended
    from lagbench.cli.time_left import TimeLeft
    from lagbench.core.experiment import Experiment

PairsOption = Annotated[
    int | None, typer.Option(help="6, 8 or 12 pairs instead of the file's number.")
]
LONGEST_HOURS = 1000
_COMMAND_LINE = "the command line"


def experiment(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Names from the catalog, or YAML files; they are run one after the other. None: "
            "list them.",
        ),
    ] = None,
    *,
    pairs: PairsOption = None,
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
            max=LONGEST_HOURS,
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
    from lagbench.cli.experiment_prediction import print_prediction
    from lagbench.cli.experiment_tables import print_experiments, print_hours, print_order
    from lagbench.cli.time_left import TimeLeft

    console = Terminal()
    if not names:
        print_experiments(console)
        return ExitCode.PASS
    time_left = TimeLeft.of_hours(hours, monotonic)
    asked = [_asked(name, target, pairs, at) for name, at in _folders(names, folder)]
    _require_different(asked)
    for one in asked:
        print_hours(console, one.experiment, one.schedule, one.progress)
        if plan:
            print_order(console, one.experiment, one.schedule, one.progress)
            print_prediction(console, one.experiment, one.cells, one.schedule)
    if len(asked) > 1:
        together = sum(one.experiment.hours_of(one.schedule.pairs) for one in asked)
        console.print(
            f"{len(asked)} experiments: about {together:.1f} hours, with those that are done",
            highlight=False,
        )
    if plan:
        return ExitCode.PASS
    is_alone = len(asked) == 1
    ended = [
        _executed(console, one, target, target_settings, time_left, is_alone=is_alone)
        for one in asked
    ]
    if len(ended) > 1:
        _print_ends(console, ended)
    return _worst(ended)


def _folders(names: Sequence[str], folder: Path | None) -> list[tuple[str, Path | None]]:
    """Return the folder of each experiment; one alone has the given folder itself."""
    if folder is None or len(names) == 1:
        return [(name, folder) for name in names]
    return [(name, folder / Path(name).stem) for name in names]


def _asked(name: str, target: str, pairs: int | None, path: Path | None) -> AskedExperiment:
    """Return a checked experiment with the execution to continue.

    :raises WrongInput: there is none, a cell cannot run, or the folder is of another experiment.
    """
    from lagbench.catalog.experiments import check_experiment, load_experiment
    from lagbench.cli.experiment_execution import AskedExperiment
    from lagbench.core.cluster import EMBEDDED
    from lagbench.core.experiment import draw_schedule
    from lagbench.results.experiments import target_label

    found = load_experiment(name)
    label = target_label(target)
    return AskedExperiment(
        experiment=found,
        cells=check_experiment(found),
        schedule=draw_schedule(found, pairs=pairs, has_known_hpa=label == EMBEDDED),
        label=label,
        pairs=pairs,
        path=path,
        unfinished=_unfinished(found, label, pairs, path),
    )


def _unfinished(
    found: Experiment, label: str, pairs: int | None, path: Path | None
) -> ExperimentFolder | None:
    """Return the execution that the command continues; in ``path`` also one that has its result."""
    from lagbench.adapters.runs.experiment_folder import ExperimentFolder
    from lagbench.results.experiments import find_unfinished, require_same

    if path is None:
        return find_unfinished(found, target=label, pairs=pairs)
    _require_folder(path.absolute())
    kept = ExperimentFolder(path.absolute())
    if not kept.is_started:
        return None
    require_same(kept, found, target=label, pairs=pairs)
    return kept


def _require_folder(path: Path) -> None:
    """Reject a place in which no folder can be made: it, or a part of its path, is a file."""
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir():
        raise WrongInput(
            where=_COMMAND_LINE,
            field="--folder",
            value=path,
            allowed=f"a folder, or a path where one can be made ({there} is a file)",
        )


def _require_different(asked: Sequence[AskedExperiment]) -> None:
    names = [one.experiment.name for one in asked]
    for name in names:
        if names.count(name) > 1:
            raise WrongInput(
                where=_COMMAND_LINE, field="NAME", value=name, allowed="each experiment once"
            )


def _executed(
    console: Console,
    asked: AskedExperiment,
    target: str,
    target_settings: Path | None,
    time_left: TimeLeft,
    *,
    is_alone: bool,
) -> Ended:
    """Run one experiment; one that the bench stops does not stop those after it."""
    from lagbench.cli.experiment_execution import Ended, execute

    try:
        return execute(
            console, asked, target=target, target_settings=target_settings, time_left=time_left
        )
    except NotReady as error:
        if is_alone:
            raise
        console.print(f"{error}", style="red", markup=False, highlight=False)
        return Ended(asked.experiment.name, ExitCode.NOT_READY, f"stopped: {error}")


def _print_ends(console: Console, ended: Sequence[Ended]) -> None:
    console.print()
    for one in ended:
        console.print(f"{one.name}: {one.text}", markup=False, highlight=False, soft_wrap=True)


def _worst(ended: Sequence[Ended]) -> ExitCode:
    """Return the code that needs a person most: the bench, then what is missing."""
    codes = {one.code for one in ended}
    order = (ExitCode.NOT_READY, ExitCode.UNDETERMINED)
    return next((code for code in order if code in codes), ExitCode.PASS)
