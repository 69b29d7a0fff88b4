"""Compare the cells of an experiment by its pairs of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from lagbench.core.compare import (
    BOUNDS,
    Bound,
    ComparedRun,
    Difference,
    NoiseFloor,
    Pair,
    RunPair,
    comparable,
    compare_pairs,
    differing_facts,
)
from lagbench.core.compare.pairs import IDENTITY_COUNTS
from lagbench.core.experiment.experiment import Experiment, ExperimentCell
from lagbench.core.experiment.progress import Execution, Progress, RunRecord
from lagbench.core.experiment.result.experiment_result import (
    CellComparison,
    CellOutcome,
    ExperimentResult,
    RunLine,
)
from lagbench.core.experiment.result.shown import shown_values
from lagbench.core.experiment.schedule import PlannedRun
from lagbench.core.kubernetes import NS_PER_SECOND
from lagbench.core.measures import NAMED
from lagbench.core.scenario import phase_distance_seconds
from lagbench.core.significance import SIGNIFICANCE, floor_of

PHASE_TOLERANCE_SECONDS = 1.0
"""Phases that are closer count as equal: the producer starts late by less on a busy machine."""
LONGEST_PAUSE_SECONDS = 300.0
"""Runs of a pair that are further apart did not follow each other."""
_FEWEST_PAIRS = 2


Runs = Mapping[tuple[int, str], ComparedRun]
"""The measured runs by pair and cell; a gap is not in it."""


def judge_experiment(
    experiment: Experiment,
    execution: Execution,
    progress: Progress,
    runs: Runs,
    noise: NoiseFloor | None = None,
) -> ExperimentResult:
    """Return the result of a finished execution.

    A pair counts if both of its runs are measured and comparable.

    :param noise: the noise floor that is shown beside the differences; None: there is none.
    """
    bounds = bounds_of(experiment)
    first, *others = experiment.cells
    if experiment.kind == "identity":
        others = []
    names = measured_names(experiment)
    comparisons = tuple(
        _comparison(experiment, progress, runs, (first, other), bounds) for other in others
    )
    return ExperimentResult(
        experiment=experiment.name,
        title=experiment.title,
        question=experiment.question,
        scenario=experiment.scenario,
        target=execution.target,
        pairs=execution.schedule.pairs,
        order_seed=execution.schedule.order_seed,
        kind=_kind(experiment),
        cells=tuple(_outcome(cell, progress, runs) for cell in experiment.cells),
        runs=tuple(_line(run, progress, runs, names) for run in execution.schedule.runs),
        comparisons=comparisons,
        noise=noise,
        notes=tuple(_notes(experiment, progress, runs)),
        shown=shown_values(experiment, progress.schedule, runs),
    )


def _kind(experiment: Experiment) -> Literal["comparison", "noise floor", "identity"]:
    if experiment.kind == "identity":
        return "identity"
    return "noise floor" if experiment.is_noise_floor else "comparison"


def bounds_of(experiment: Experiment) -> tuple[Bound, ...]:
    """Return the bounds of the compared measures; without any, those of the nightly gate.

    An experiment of kind identity compares none.
    """
    if experiment.kind == "identity":
        return ()
    if not experiment.bounds:
        return BOUNDS
    return tuple(
        Bound(name, absolute=found.absolute, relative=found.relative)
        for name, found in experiment.bounds.items()
    )


def measured_names(experiment: Experiment) -> tuple[str, ...]:
    """Return the measures that the cells are compared by, or that a cell shows, each once."""
    bounds = (bound.name for bound in bounds_of(experiment))
    return tuple(dict.fromkeys((*bounds, *experiment.shown_measures)))


def decidability_note(experiment: Experiment, pairs: int) -> str | None:
    """Return why a difference may not be shown with that many pairs; None: it can be.

    Holm's correction multiplies the smallest p, 2/2^n, by the number of compared measures.
    """
    compared = sum(bound.name not in IDENTITY_COUNTS for bound in bounds_of(experiment))
    most = int(SIGNIFICANCE / floor_of(pairs))
    if experiment.is_noise_floor or compared <= most:
        return None
    return (
        f"{pairs} pairs can show a difference in {most} measure{'s' if most > 1 else ''} at most, "
        f"and {compared} are compared: compare fewer, or take more pairs"
    )


def pairs_of(
    experiment: Experiment, progress: Progress, runs: Runs, cells: tuple[str, str]
) -> tuple[dict[int, RunPair], dict[int, str]]:
    """Return the comparable pairs of two cells by number, and the reasons for the others."""
    varied = {key for cell in experiment.cells for key in cell.overrides}
    found: dict[int, RunPair] = {}
    left_out: dict[int, str] = {}
    for number in range(1, progress.schedule.pairs + 1):
        kept = [runs.get((number, name)) for name in cells]
        if kept[0] is None or kept[1] is None:
            missing = [n for n, run in zip(cells, kept, strict=True) if run is None]
            left_out[number] = f"no measured run of {' and '.join(missing)}"
            continue
        sides = kept[0], kept[1]
        reasons = comparable(*sides, varied=varied, measures=measured_names(experiment))
        if reasons:
            left_out[number] = "; ".join(reasons)
        else:
            found[number] = sides
    return found, left_out


def _comparison(
    experiment: Experiment,
    progress: Progress,
    runs: Runs,
    cells: tuple[ExperimentCell, ExperimentCell],
    bounds: Sequence[Bound],
) -> CellComparison:
    names = cells[0].name, cells[1].name
    pairs, left_out = pairs_of(experiment, progress, runs, names)
    differences: tuple[Difference, ...] = ()
    if len(pairs) >= _FEWEST_PAIRS:
        # One look: the number of pairs was fixed before the first run. A run that is a gap was not
        # left out for its values, but a measure may be missing in a run because it was bad.
        # Each comparison is a family of its own: nothing corrects over the cells.
        measured = [Pair(first.measures, second.measures) for first, second in pairs.values()]
        differences = compare_pairs(measured, bounds, looks=(len(measured),))
    return CellComparison(
        first=names[0],
        second=names[1],
        pairs=tuple(pairs),
        left_out=tuple(f"pair {number}: {reason}" for number, reason in left_out.items()),
        differences=differences,
    )


def _outcome(cell: ExperimentCell, progress: Progress, runs: Runs) -> CellOutcome:
    planned = [run for run in progress.schedule.runs if run.cell == cell.name]
    verdicts = [record.verdict for run in planned if (record := progress.measured(run))]
    policies = {kept.measures.policy for (_, name), kept in runs.items() if name == cell.name}
    return CellOutcome(
        name=cell.name,
        policy=", ".join(sorted(policies)) or cell.policy or "the scenario's",
        expects=cell.expects,
        passed=verdicts.count("pass"),
        failed=verdicts.count("fail"),
        undetermined=verdicts.count("undetermined"),
        gaps=len(planned) - len(verdicts),
    )


def _line(run: PlannedRun, progress: Progress, runs: Runs, names: Sequence[str]) -> RunLine:
    record, kept = progress.measured(run), runs.get((run.pair, run.cell))
    values = {name: None if kept is None else NAMED[name].read(kept.measures) for name in names}
    return RunLine(
        pair=run.pair,
        cell=run.cell,
        seed=run.seed,
        run_id=None if record is None else record.run_id,
        verdict="undetermined" if record is None else record.verdict,
        attempts=len(progress.attempts(run)),
        hpa_sync_at_seconds=None if record is None else record.hpa_sync_at_seconds,
        values=values,
    )


def _notes(experiment: Experiment, progress: Progress, runs: Runs) -> Iterator[str]:
    for run in progress.gaps:
        last = progress.attempts(run)[-1]
        why = last.reasons[0] if last.reasons else "no reason given"
        yield f"gap: {run.key} gave no result {len(progress.attempts(run))} times ({why})"
    yield from _phase_notes(progress)
    yield from _pause_notes(progress)
    for name, values in differing_facts(run.environment for run in runs.values()).items():
        yield f"the runs differ in {name}: {', '.join(values)}"
    for cell in experiment.cells:
        outcome = _outcome(cell, progress, runs)
        if not outcome.is_as_expected:
            yield (
                f"{cell.name} was meant to {cell.expects}: {outcome.passed} runs passed, "
                f"{outcome.failed} failed"
            )


def _phase_notes(progress: Progress) -> Iterator[str]:
    """Say in which pairs the HPA's phase was equal: it moves the reaction by up to 15 s."""
    equal, other, unknown = [], [], []
    for number, records in _records_by_pair(progress):
        phases = [record.hpa_sync_at_seconds for record in records]
        known = [phase for phase in phases if phase is not None]
        if len(known) < len(phases):
            unknown.append(number)
        elif all(
            phase_distance_seconds(known[0], phase) <= PHASE_TOLERANCE_SECONDS for phase in known
        ):
            equal.append(number)
        else:
            other.append(number)
    yield f"phase of the HPA's sync: equal in {_numbers(equal)}"
    if other:
        yield f"phase of the HPA's sync: NOT equal in {_numbers(other)}"
    if unknown:
        yield f"phase of the HPA's sync: not recorded in {_numbers(unknown)}"


def _pause_notes(progress: Progress) -> Iterator[str]:
    for number, records in _records_by_pair(progress):
        ordered = sorted(records, key=lambda record: record.began_at)
        pauses = [after.began_at - before.ended_at for before, after in pairwise(ordered)]
        pause = max(pauses, default=0) / NS_PER_SECOND
        if pause > LONGEST_PAUSE_SECONDS:
            yield f"pair {number}: its runs are {pause / 60:,.0f} min apart, not back to back"


def _records_by_pair(progress: Progress) -> Iterator[tuple[int, list[RunRecord]]]:
    """Yield each pair all of whose runs are measured, with their records."""
    for number in range(1, progress.schedule.pairs + 1):
        planned = [run for run in progress.schedule.runs if run.pair == number]
        found = [record for run in planned if (record := progress.measured(run))]
        if len(found) == len(planned):
            yield number, found


def _numbers(pairs: Sequence[int]) -> str:
    if not pairs:
        return "no pair"
    return f"pair{'s' if len(pairs) > 1 else ''} {', '.join(map(str, pairs))}"
