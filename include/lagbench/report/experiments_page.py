"""The pages of experiments: what each claims, how far it is, and what it has shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from lagbench.adapters.runs.experiment_folder import (
    EXPERIMENTS_FOLDER,
    ExperimentFolder,
    executions,
)
from lagbench.catalog.catalog_files import list_experiments
from lagbench.catalog.experiments import load_experiment
from lagbench.core.compare.experiment import Execution, Experiment, Progress
from lagbench.core.compare.experiment_figure import as_figure
from lagbench.core.compare.experiment_page import SHOWN_HEADINGS, ComparisonTable, shown_row, tested
from lagbench.core.compare.experiment_result import ExperimentResult
from lagbench.errors import LagbenchError
from lagbench.report.bench_page import render_bench_page
from lagbench.results.executions import read_execution, read_experiment, read_progress, read_result


@dataclass(frozen=True, slots=True)
class ExecutionState:
    """One execution of an experiment, finished or not; ``name`` is that of its folder."""

    name: str
    experiment: Experiment
    execution: Execution
    progress: Progress
    result: ExperimentResult | None

    @property
    def outcome(self) -> str:
        """Return what it has shown, counted."""
        if self.result is None:
            return "no result yet"
        counts = Counter[str](one.verdict for one in self.result.shown)
        of_cells = (one.differences for one in self.result.comparisons)
        counts.update(one.verdict for found in of_cells for one in tested(found))
        words = [f"{count} {verdict}" for verdict, count in counts.most_common()]
        return ", ".join(words) or "nothing is compared"


def read_state(folder: ExperimentFolder) -> ExecutionState:
    """Return the state of an execution.

    :raises NotReady: a file of the folder is not what lagbench writes.
    """
    return ExecutionState(
        name=folder.path.name,
        experiment=read_experiment(folder),
        execution=read_execution(folder),
        progress=read_progress(folder),
        result=read_result(folder),
    )


def experiment_rows(root: Path) -> list[tuple[Experiment, list[ExecutionState]]]:
    """Return the catalog's experiments and those that were run, each with its executions.

    The newest execution comes first, and the experiments by it.
    """
    found = {n: (load_experiment(n), list[ExecutionState]()) for n in list_experiments()}
    for folder in (root / EXPERIMENTS_FOLDER).glob("*"):
        states = list[ExecutionState]()
        for one in reversed(executions(folder.name, root)):
            with suppress(LagbenchError):  # another version wrote it
                states.append(read_state(one))
        if states:
            found[folder.name] = (states[0].experiment, states)
    return sorted(found.values(), key=lambda row: -row[1][0].execution.started_at if row[1] else 0)


def render_experiments(
    rows: Sequence[tuple[Experiment, Sequence[ExecutionState]]], *, prefix: str
) -> str:
    """Return the page of all experiments."""
    return render_bench_page(
        "experiments", title="Experiments", here="experiments", prefix=prefix, rows=rows
    )


def render_experiment(
    state: ExecutionState, others: Sequence[str], *, prefix: str, reports: Collection[str]
) -> str:
    """Return the page of one execution.

    :param others: the names of all executions of the experiment, the newest first.
    :param reports: the runs that have a report.
    """
    result, progress = state.result, state.progress
    figure = None if result is None else as_figure(result)
    runs = [(one, progress.attempts(one)) for one in progress.schedule.runs]
    return render_bench_page(
        "experiment",
        title=state.experiment.title,
        here="experiments",
        prefix=prefix,
        state=state,
        result=result,
        others=[(one, one) for one in others],
        figure=None if figure is None else Markup(figure),  # noqa: S704 - its texts are escaped
        shown_headings=SHOWN_HEADINGS,
        shown=[] if result is None else [shown_row(one) for one in result.shown],
        comparisons=[]
        if result is None
        else [ComparisonTable.of(one, result.noise) for one in result.comparisons],
        runs=runs,
        reports=reports,
    )
